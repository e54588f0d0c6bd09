# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The definitions of custom objects and webhooks, as the operators' own releases carry them.

The files lie inside Go modules, whose checksums are Go's own (go.sum); HyperPod publishes models
in a Python package instead. They are copied to the cache, not to this repository.
"""

import hashlib
import json
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.cache import key_of, made_once


@dataclass(frozen=True, slots=True)
class Release:
    """One release of something that defines objects."""

    name: str
    """What it is called here."""
    module: str
    """The Go module that holds the files."""
    version: str
    """Its version, without the v."""
    checksum: str
    """Go's checksum of the module's content."""
    definitions: str
    """The folder of its custom resource definitions."""
    kinds: tuple[str, ...]
    """The kinds that are installed, in the plural; each costs the API server time."""
    webhooks: str = ""
    """The folder that kustomize makes its webhooks of; empty where no test needs them."""

    @property
    def label(self) -> str:
        """Name and version."""
        return f"{self.name} {self.version}"

    def files(self) -> Path:
        """A directory with `definitions/*.yaml` and, where there are some, `webhooks/`."""
        source = (self.module, self.version, self.checksum, self.definitions, self.webhooks)
        told = (*source, *self.kinds)
        name = f"cluster/definitions-{self.name}-{self.version}-{key_of(told)}"
        return made_once(name, self._copy)

    def _copy(self, place: Path) -> None:
        argv = ["go", "mod", "download", "-json", f"{self.module}@v{self.version}"]
        # Outside any module, so that no go.mod chooses another version.
        done = subprocess.run(argv, cwd=place, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{self.label}: {done.stdout}{done.stderr}")
        found = json.loads(done.stdout)
        if found["Sum"] != self.checksum:
            raise RuntimeError(f"{self.label} is {found['Sum']}, not {self.checksum}")
        source = Path(found["Dir"])
        (place / "definitions").mkdir()
        for kind in self.kinds:
            path = next((source / self.definitions).glob(f"*_{kind}.yaml"))
            shutil.copyfile(path, place / "definitions" / path.name)
        if self.webhooks:
            for path in (source / self.webhooks).rglob("*.yaml"):
                copy = place / "webhooks" / path.relative_to(source / self.webhooks)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, copy)


_TRAINING_OPERATOR = "github.com/kubeflow/training-operator"
_TRAINER = "github.com/kubeflow/trainer/v2"
_BASE = "manifests/base"

TRAINING_OPERATOR = {
    version: Release(
        "training-operator",
        _TRAINING_OPERATOR,
        version,
        checksum,
        f"{_BASE}/crds",
        ("pytorchjobs",),
        f"{_BASE}/webhook",
    )
    for version, checksum in {
        "1.8.1": "h1:mVvoBSCInbMBX0gGSn4+Ihj3ycwoLO1iEAw+0qPhQfc=",
        "1.9.3": "h1:aaSHqskOtCY8Dn8sVd+l9p5XAczW6O0nYMPjVLAw/lc=",
    }.items()
}
TRAINER = {
    version: Release(
        "trainer",
        _TRAINER,
        version,
        checksum,
        f"{_BASE}/crds",
        ("trainjobs", "trainingruntimes", "clustertrainingruntimes"),
        f"{_BASE}/webhook",
    )
    for version, checksum in {
        "2.0.0": "h1:mnQSR9iPKItxyUR8mq66XsmxqKNVHwr9YYOB7BTU9dU=",
        "2.1.0": "h1:jRABD9ZYToamNH2atHze3L/VC/v6KCAqUEqsOQOjVTg=",
        "2.2.0": "h1:whChZckEtycLo1UKH/M0hiNaCUozbLvf9JrgmMv+TAg=",
        "2.3.0": "h1:Je+e7zvTLzB4qW09J1fB7pZrqvPtWuGng2NqdN5p5QU=",
    }.items()
}
JOBSET = Release(
    "jobset",
    "sigs.k8s.io/jobset",
    "0.11.0",
    "h1:1r2uTNQmylnqG/WCSSDADgNkHryvyUaCNCOgvSPWpN8=",
    "config/components/crd/bases",
    ("jobsets",),
    "config/components/webhook",
)
KUEUE = Release(
    "kueue",
    "sigs.k8s.io/kueue",
    "0.15.0",
    "h1:9Khzc2ne6/eWuZx5o+R4KlVBzh3kZkTIMzpPC2e8Spg=",
    "config/components/crd/bases",
    ("localqueues", "clusterqueues", "workloads", "resourceflavors", "topologies"),
)
KUBERAY = Release(
    "kuberay",
    "github.com/ray-project/kuberay/ray-operator",
    "1.4.2",
    "h1:A4tGzbIky8sInAUxZBdBb+rrpZ7fbqoxdsOtm559Zqg=",
    "config/crd/bases",
    ("rayjobs",),
)
PROMETHEUS_OPERATOR = Release(
    "prometheus-operator",
    "github.com/prometheus-operator/prometheus-operator",
    "0.92.1",
    "h1:rHWuFo6SVya4FBSCNg2DCzyc4xAv54zk3eDTzp5mQZc=",
    "example/prometheus-operator-crd",
    ("podmonitors", "prometheusrules"),
)


@dataclass(frozen=True, slots=True)
class ReleaseSet:
    """Releases that a cluster can serve at once: one of each."""

    training_operator: str
    """The version of the Training Operator."""
    trainer: str
    """The version of Trainer."""

    @property
    def releases(self) -> tuple[Release, ...]:
        """All of them."""
        chosen = (TRAINING_OPERATOR[self.training_operator], TRAINER[self.trainer])
        return (*chosen, JOBSET, KUEUE, KUBERAY, PROMETHEUS_OPERATOR)

    def __str__(self) -> str:
        return f"training-operator {self.training_operator}, trainer {self.trainer}"


NEWEST = ReleaseSet("1.9.3", "2.3.0")
"""What the operators of the test cluster are built of."""
RELEASE_SETS = (
    ReleaseSet("1.8.1", "2.0.0"),
    ReleaseSet("1.9.3", "2.1.0"),
    ReleaseSet("1.9.3", "2.2.0"),
    NEWEST,
)
"""Every release that manifests are checked against, in as few sets as possible."""

_HYPERPOD = "sagemaker-hyperpod==3.12.0"
_HYPERPOD_SHA256 = "e1652ccbf64a8fd0f9ca7e1c9564f3980c619e752fb3343591c92e709c975c0a"
_HYPERPOD_MODELS = "sagemaker/hyperpod/training/config/hyperpod_pytorch_job_unified_config.py"


def hyperpod_models() -> Path:
    """The file with the models of HyperPodPyTorchJob."""
    name = f"cluster/definitions-hyperpod-{key_of((_HYPERPOD, _HYPERPOD_SHA256))}"
    return made_once(name, _unpack_hyperpod) / "models.py"


def _unpack_hyperpod(place: Path) -> None:
    argv = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-input"]
    argv += ["--disable-pip-version-check", "--dest", str(place), _HYPERPOD]
    subprocess.run(argv, check=True)
    wheel = next(place.glob("*.whl"))
    found = hashlib.sha256(wheel.read_bytes()).hexdigest()
    if found != _HYPERPOD_SHA256:
        raise RuntimeError(f"{wheel.name} is {found}, not {_HYPERPOD_SHA256}")
    with zipfile.ZipFile(wheel) as archive:
        (place / "models.py").write_bytes(archive.read(_HYPERPOD_MODELS))
    wheel.unlink()
