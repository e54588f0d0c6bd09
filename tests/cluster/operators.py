# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The operators, as programs beside the API server instead of in pods.

So they work in a cluster without nodes too. The API server calls their webhooks on loopback, with
certificates made here; nothing else differs from how they are installed.
"""

import json
import os
import shutil
from base64 import b64encode
from functools import partial
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

from seatrial.rendering.manifest import Manifest, manifest
from tests.cluster.building import program
from tests.cluster.certificates import Authority, Pair
from tests.cluster.daemon import Daemon
from tests.cluster.definitions import JOBSET, TRAINER, TRAINING_OPERATOR, Release
from tests.cluster.http_api import Api
from tests.cluster.kubectl import kubectl, yaml_objects
from tests.cluster.layout import LOOPBACK, Layout

INIT_IMAGE = "docker.io/local/userland:1"
"""What the Training Operator's init container runs in; it stands on the test cluster's node."""
SERVING = "k8s-webhook-server/serving-certs"
"""Where controller-runtime looks for a webhook's certificate, below the temporary directory."""

_AUTHORITY = "training-operator-ca"
_NAMESPACE = "kubeflow"
_SECRET = "training-operator-webhook-cert"
_HOST = "training-operator.kubeflow.svc"

# The operator's own template asks nslookup, whose exit code depends on who made it.
_INIT_CONTAINER = """\
- name: init-pytorch
  image: {{.InitContainerImage}}
  imagePullPolicy: Never
  command:
  - sh
  - -c
  - for try in $(seq {{.MaxTries}}); do getent hosts {{.MasterAddr}} && exit; sleep 1; done; exit 1
"""


def install(layout: Layout, api: Api) -> None:
    """Give the operators their certificates, and the API server their webhooks."""
    authority = Authority(_AUTHORITY)
    pair = authority.issue("webhooks", names=(LOOPBACK, _HOST))
    for name in ("training-operator", "jobset", "trainer"):
        serving = layout.home / "operators" / name / SERVING
        serving.mkdir(parents=True)
        (serving / "tls.crt").write_bytes(pair.certificate)
        (serving / "tls.key").write_bytes(pair.key)
    _accept(api, manifest("v1", "Namespace", {"name": _NAMESPACE}))
    _accept(api, _operator_secret(authority.pair, pair))
    newest = (
        (TRAINING_OPERATOR["1.9.3"], layout.ports.training_operator),
        (JOBSET, layout.ports.jobset),
        (TRAINER["2.3.0"], layout.ports.trainer),
    )
    for release, port in newest:
        for configuration in webhooks(release, port, authority.pair.certificate):
            _accept(api, configuration)
    _write_settings(layout)


def daemons(layout: Layout) -> list[Daemon]:
    """The operators, in the order in which they start."""
    return [_training_operator(layout), _jobset(layout), _trainer(layout)]


def wait_until_ready(layout: Layout, operators: list[Daemon]) -> None:
    """Wait until all of them answer; a job that comes earlier is refused."""
    ports = layout.ports
    health = (ports.training_operator_health, ports.jobset_health, ports.trainer_health)
    for daemon, port in zip(operators, health, strict=True):
        address = f"http://{layout.address}:{port}/readyz"
        daemon.wait_until(partial(_answers, address), f"{daemon.name} is ready")


def webhooks(release: Release, port: int, authority: bytes) -> list[Manifest]:
    """The webhooks of a release, called on loopback instead of through a service."""
    made = yaml_objects(kubectl("kustomize", str(release.files() / "webhooks")))
    found = [each for each in made if each["kind"].endswith("WebhookConfiguration")]
    for configuration in found:
        # Only PyTorchJob's controller of the Training Operator runs.
        configuration["webhooks"] = [
            webhook
            for webhook in configuration["webhooks"]
            if "kubeflow.org" not in webhook["rules"][0]["apiGroups"]
            or "pytorchjobs" in webhook["rules"][0]["resources"]
        ]
        for webhook in configuration["webhooks"]:
            path = webhook["clientConfig"]["service"]["path"]
            webhook["clientConfig"] = {
                "url": f"https://{LOOPBACK}:{port}{path}",
                "caBundle": b64encode(authority).decode(),
            }
        configuration["metadata"]["name"] = _unique_name(release, configuration)
    return found


def _unique_name(release: Release, configuration: Manifest) -> str:
    """JobSet's name of its own is given by an overlay that is not read here."""
    name = str(configuration["metadata"]["name"])
    return f"{release.name}-{name}" if release is JOBSET else name


def _training_operator(layout: Layout) -> Daemon:
    """The Training Operator.

    It reads its certificate from below /tmp, whatever TMPDIR says, so that it gets a /tmp of its
    own. Paths are relative, as the cluster's home may be in the real /tmp.
    """
    ports = layout.ports
    binary = layout.home / "operators" / "training-operator-program"
    if not binary.exists():
        shutil.copy(program("training-operator"), binary)
    private = 'mount --bind operators/training-operator /tmp && exec "$0" "$@"'
    # Who is no administrator may mount only as one of a user namespace.
    user = () if os.geteuid() == 0 else ("--map-root-user",)
    argv = [
        *("unshare", *user, "--mount", "sh", "-c", private),
        f"operators/{binary.name}",
        "--enable-scheme=pytorchjob",
        "--metrics-bind-address=0",
        f"--health-probe-bind-address={layout.address}:{ports.training_operator_health}",
        f"--webhook-server-port={ports.training_operator}",
        f"--pytorch-init-container-image={INIT_IMAGE}",
        "--pytorch-init-container-template-file=operators/init-container.yaml",
    ]
    environment = {"KUBECONFIG": "access/operators.json", "TMPDIR": "/tmp"}  # noqa: S108
    return Daemon("training-operator", layout.inside(argv), layout.home, environment)


def _jobset(layout: Layout) -> Daemon:
    argv = [
        str(program("jobset")),
        "--config=operators/jobset.json",
        "--metrics-bind-address=0",
        f"--health-probe-bind-address={layout.address}:{layout.ports.jobset_health}",
        "--leader-elect=false",
    ]
    return Daemon("jobset", layout.inside(argv), layout.home, _environment("jobset"))


def _trainer(layout: Layout) -> Daemon:
    argv = [str(program("trainer")), "--config=operators/trainer.json"]
    return Daemon("trainer", layout.inside(argv), layout.home, _environment("trainer"))


def _environment(name: str) -> dict[str, str]:
    return {"KUBECONFIG": "access/operators.json", "TMPDIR": f"operators/{name}"}


def _write_settings(layout: Layout) -> None:
    place, ports = layout.home / "operators", layout.ports
    (place / "init-container.yaml").write_text(_INIT_CONTAINER)
    jobset = {
        "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "webhook": {"port": ports.jobset, "host": LOOPBACK},
        "internalCertManagement": {"enable": False},
    }
    trainer = {
        "apiVersion": "config.trainer.kubeflow.org/v1alpha1",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": f"{layout.address}:{ports.trainer_health}"},
        "metrics": {"bindAddress": "0", "secureServing": False},
        "webhook": {"port": ports.trainer, "host": LOOPBACK},
        "leaderElection": {"leaderElect": False},
        "certManagement": {"enable": False},
    }
    (place / "jobset.json").write_text(json.dumps(jobset))
    (place / "trainer.json").write_text(json.dumps(trainer))


def _operator_secret(authority: Pair, pair: Pair) -> Manifest:
    """What the Training Operator would otherwise fill in itself, for a host in the cluster."""
    parts = {
        "ca.crt": authority.certificate,
        "ca.key": authority.key,
        "tls.crt": pair.certificate,
        "tls.key": pair.key,
    }
    data = {key: b64encode(value).decode() for key, value in parts.items()}
    return manifest("v1", "Secret", {"name": _SECRET, "namespace": _NAMESPACE}, data=data)


def _accept(api: Api, made: Manifest) -> None:
    answer = api.apply(made)
    if not answer.accepted:
        raise RuntimeError(f"{made['kind']} {made['metadata']['name']}: {answer.message}")


def _answers(address: str) -> bool:
    try:
        with build_opener(ProxyHandler({})).open(address, timeout=5) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False
