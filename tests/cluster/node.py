# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""One node: containerd, kubelet, kube-proxy and DNS, on this machine but in the cluster's network.

containerd, runc and the network plugins are Debian's. The environments of Python and the code of
the checkout are shown to every container by containerd itself, so that pods need to say nothing
of them and images stay small.
"""

import json
import os
import subprocess
from functools import cache
from pathlib import Path

from seatrial.rendering.manifest import Manifest, manifest
from tests.cluster import cgroups, images
from tests.cluster.building import program
from tests.cluster.daemon import Daemon
from tests.cluster.http_api import Api
from tests.cluster.layout import LOOPBACK, Layout
from tests.cluster.network import PODS
from tests.debian import install

NODE = "node"
"""The node's name."""
ROOT = Path(__file__).parents[2]
PACKAGES = {
    "containerd": "containerd",
    "runc": "runc",
    "iptables": "iptables",
    "conntrack": "conntrack",
    "nsenter": "util-linux",
    "ip": "iproute2",
    "/usr/lib/cni/bridge": "containernetworking-plugins",
}
"""Which package of Debian brings which program."""
MADE = ("/var/lib/cni", "/var/lib/kubelet", "/var/log/containers", "/var/log/pods")
"""Directories that are made to be covered, and removed again."""
CTR_SECONDS = 600
"""What containerd may take for one thing; the largest is to unpack an image of 2 GB."""
ENVIRONMENTS = {images.USERLAND: "worker", images.FOUNDRY: "llm-foundry", images.DATA: "dev"}
"""Images, and the environment (scripts/environment.sh) that each has first on its path."""
COVERED = ("/run", *MADE)
"""Where containerd, its plugins and the kubelet write whatever they are told."""


def ensure_packages() -> None:
    """Install what is missing; only the administrator can."""
    if os.geteuid() != 0:
        raise RuntimeError("A cluster with a node needs an administrator's rights: run as root.")
    install(PACKAGES)


@cache
def environments() -> dict[str, Path]:
    """The environments that have been made, by the image that is for them."""
    found = {}
    for image, name in ENVIRONMENTS.items():
        argv = [str(ROOT / "scripts/environment.sh"), "path", name]
        path = Path(subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip())
        if (path / ".complete").exists():
            found[image] = path
    return found


def shown_to_containers(made: dict[str, Path]) -> dict[str, Path]:
    """What of this machine every container sees: the code, and the environments."""
    shown = {images.SOURCE: ROOT / "src"}
    for environment in made.values():
        base = images.base_python(environment)
        shown |= {str(environment): environment, str(base): base}
    return shown


def start(layout: Layout, api: Api) -> None:
    """Start the node and wait until it takes pods."""
    made = environments()
    _write_settings(layout, made)
    cgroups.make(layout.network)
    private = private_mounts(layout)
    private.start()
    private.wait_until(lambda: _covered(private.pid()), "private mounts are made")
    runtime, *others = daemons(layout)
    runtime.start()
    socket = layout.home / "containerd" / "socket"
    runtime.wait_until(lambda: socket.exists() and _ctr_answers(layout), "containerd is ready")
    # The plain commands are of use without an environment too.
    places = {images.USERLAND: None, **made}
    userlands = [images.userland_image(name, place) for name, place in places.items()]
    for image in (images.pause_image(), *userlands):
        ctr(layout, "images", "import", "--snapshotter", "overlayfs", str(images.archive(image)))
    for daemon in others:
        daemon.start()
    others[0].wait_until(lambda: _ready(api), "the node is ready")


def private_mounts(layout: Layout) -> Daemon:
    """Holds a mount namespace for containerd and the kubelet.

    They write to fixed places besides those they are told of. Here these places are theirs alone,
    and every mount that they make goes when they go.
    """
    script = 'for place; do mount -t tmpfs tmpfs "$place"; done; exec sleep infinity'
    argv = ["unshare", "--mount", "--propagation=private", "sh", "-euc", script, "sh", *COVERED]
    return Daemon("private-mounts", argv, layout.home)


def daemons(layout: Layout) -> list[Daemon]:
    """The programs of the node."""
    home, address = layout.home, layout.address
    mounts = f"--mount=/proc/{private_mounts(layout).pid()}/ns/mnt"
    enter = ["nsenter", mounts, f"--net=/var/run/netns/{layout.network}", "--"]
    kubelet = [
        str(program("kubelet")),
        f"--config={home}/kubelet/settings.json",
        f"--kubeconfig={home}/access/kubelet.json",
        f"--hostname-override={NODE}",
        f"--node-ip={address}",
        f"--root-dir={home}/kubelet",
        f"--cert-dir={home}/kubelet/pki",
    ]
    proxy = [str(program("kube-proxy")), "--config=kubelet/proxy.json"]
    dns = [str(program("cluster-dns")), "--kubeconfig=access/dns.json", f"--listen={address}:53"]
    return [
        Daemon(
            "containerd", [*enter, "containerd", f"--config={home}/containerd/config.toml"], home
        ),
        Daemon("kubelet", [*enter, *kubelet], home),
        Daemon("kube-proxy", layout.inside(proxy), home),
        Daemon("cluster-dns", layout.inside(dns), home),
    ]


def ctr(layout: Layout, *arguments: str) -> str:
    """What containerd's own client prints; nothing when it fails on something that is gone."""
    argv = ["ctr", "--address", str(layout.home / "containerd/socket"), "--namespace", "k8s.io"]
    try:
        done = subprocess.run(
            [*argv, *arguments], capture_output=True, text=True, check=False, timeout=CTR_SECONDS
        )
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"ctr {' '.join(arguments)}: {error}") from None
    if done.returncode and arguments[:2] == ("images", "import"):
        raise RuntimeError(f"ctr {' '.join(arguments)}: {done.stderr}")
    return done.stdout


def offer_volume(
    api: Api, directory: Path, namespace: str, claim: str, storage_class: str, gib: int
) -> None:
    """A directory of this machine as the volume of a claim."""
    directory.mkdir(parents=True)
    # Pods of any user write to it, as to a shared file system.
    directory.chmod(0o777)
    volume = manifest(
        "v1",
        "PersistentVolume",
        {"name": f"{namespace}-{claim}"},
        spec={
            "capacity": {"storage": f"{gib}Gi"},
            "accessModes": ["ReadWriteMany", "ReadWriteOnce", "ReadOnlyMany"],
            "storageClassName": storage_class,
            "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": {"namespace": namespace, "name": claim},
            "hostPath": {"path": str(directory)},
        },
    )
    answer = api.create(volume)
    if not answer.accepted:
        raise RuntimeError(answer.message)


def _covered(pid: int) -> bool:
    mounts = Path(f"/proc/{pid}/mounts").read_text().splitlines()
    return set(COVERED) <= {line.split()[1] for line in mounts if line.startswith("tmpfs")}


def _ctr_answers(layout: Layout) -> bool:
    return "REF" in ctr(layout, "images", "list")


def _ready(api: Api) -> bool:
    answer = api.ask("GET", f"/api/v1/nodes/{NODE}")
    found = answer.body["status"].get("conditions", []) if answer.accepted else []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in found)


def _write_settings(layout: Layout, made: dict[str, Path]) -> None:
    home = layout.home
    for place in MADE:
        if not Path(place).exists():
            Path(place).mkdir()
            with (home / "made").open("a") as covered:
                covered.write(f"{place}\n")
    for folder in ("containerd/network", "kubelet/plugins", "kubelet/logs"):
        (home / folder).mkdir(parents=True)
    (home / "containerd/config.toml").write_text(_containerd_settings(home))
    (home / "containerd/container.json").write_text(json.dumps(_base_container(made)))
    (home / "containerd/network/pods.conflist").write_text(json.dumps(_pod_network(home)))
    (home / "kubelet/resolv.conf").write_text(f"nameserver {layout.address}\n")
    (home / "kubelet/settings.json").write_text(json.dumps(_kubelet_settings(layout)))
    (home / "kubelet/proxy.json").write_text(json.dumps(_proxy_settings()))


def _containerd_settings(home: Path) -> str:
    cri = 'plugins."io.containerd.grpc.v1.cri"'
    # Without restrict_oom_score_adj no sandbox starts where root lacks CAP_SYS_RESOURCE.
    return f"""\
version = 2
root = "{home}/containerd/root"
state = "{home}/containerd/state"
[grpc]
  address = "{home}/containerd/socket"
[{cri}]
  sandbox_image = "{images.PAUSE}"
  restrict_oom_score_adj = true
  [{cri}.containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    base_runtime_spec = "{home}/containerd/container.json"
  [{cri}.cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{home}/containerd/network"
"""


def _base_container(made: dict[str, Path]) -> Manifest:
    """What every container gets: containerd's own default, the code, and the environments."""
    told = subprocess.run(["ctr", "oci", "spec"], check=True, capture_output=True, text=True)
    default: Manifest = json.loads(told.stdout)
    default["mounts"] += [
        {
            "destination": inside,
            "type": "bind",
            "source": str(outside),
            "options": ["rbind", "ro", "nosuid", "nodev"],
        }
        for inside, outside in shown_to_containers(made).items()
    ]
    return default


def _pod_network(home: Path) -> Manifest:
    return {
        "cniVersion": "0.4.0",
        "name": "pods",
        "plugins": [
            {
                "type": "bridge",
                "bridge": "cni0",
                "isGateway": True,
                "hairpinMode": True,
                "ipam": {
                    "type": "host-local",
                    "dataDir": f"{home}/containerd/addresses",
                    "ranges": [[{"subnet": PODS}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            }
        ],
    }


def _kubelet_settings(layout: Layout) -> Manifest:
    home = str(layout.home)
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": layout.address,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": f"{home}/keys/authority.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": f"{home}/keys/kubelet.crt",
        "tlsPrivateKeyFile": f"{home}/keys/kubelet.key",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{layout.network}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "enforceNodeAllocatable": [],
        "containerRuntimeEndpoint": f"unix://{home}/containerd/socket",
        "clusterDNS": [layout.address],
        "clusterDomain": "cluster.local",
        "resolvConf": f"{home}/kubelet/resolv.conf",
        # The disk is this machine's, and nothing can be pulled again.
        "evictionHard": {
            "memory.available": "100Mi",
            "nodefs.available": "1%",
            "imagefs.available": "1%",
        },
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "volumePluginDir": f"{home}/kubelet/plugins",
        "podLogsDir": f"{home}/kubelet/logs",
        "healthzBindAddress": LOOPBACK,
        "maxPods": 110,
    }


def _proxy_settings() -> Manifest:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": "access/proxy.json"},
        "mode": "iptables",
        "clusterCIDR": PODS,
        "hostnameOverride": NODE,
        # Pods of one bridge answer each other directly, and not by the address that was asked.
        "iptables": {"masqueradeAll": True},
        "metricsBindAddress": f"{LOOPBACK}:10249",
        "healthzBindAddress": f"{LOOPBACK}:10256",
        "conntrack": {"maxPerCore": 0, "min": 0},
    }
