# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The programs of the test cluster, built from Go modules once per version.

    python -m tests.cluster.building [NAME ...]

Every module under `programs/` is fixed by its go.mod and go.sum. What is built is kept outside
the checkout, under a name made of those files.
"""

import os
import platform
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.cache import key_of, made_once

SOURCES = Path(__file__).parent / "programs"
KUBERNETES_VERSION = "1.35.4"
"""As in programs/kubernetes/go.mod; a built program cannot know it by itself."""
KUBERNETES_PARTS = (
    "cluster-dns",
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-proxy",
    "kube-scheduler",
    "kubelet",
)
"""The names that the one program of Kubernetes goes by."""


@dataclass(frozen=True, slots=True)
class Module:
    """A folder with a go.mod, and what is built of it."""

    name: str
    """The folder's name."""
    packages: tuple[tuple[str, str], ...]
    """The programs: file name and Go package of each."""
    links: tuple[str, ...] = ()
    """More names for the first program."""
    variables: tuple[str, ...] = ()
    """Values that the linker puts into it."""

    @property
    def sources(self) -> Path:
        """The folder."""
        return SOURCES / self.name

    @property
    def place(self) -> str:
        """Its directory in the cache, named after all that it is made of."""
        files = sorted(path for path in self.sources.rglob("*") if path.is_file())
        told = (*self.links, *self.variables, platform.machine(), repr(self.packages))
        return f"cluster/{self.name}-{key_of([*told, *(path.read_bytes() for path in files)])}"


_VERSION = "k8s.io/component-base/version"
_MAJOR, _MINOR, _ = KUBERNETES_VERSION.split(".")
MODULES = (
    Module(
        "kubernetes",
        (("kubernetes", "."), ("pause", "./pause")),
        KUBERNETES_PARTS,
        (
            f"{_VERSION}.gitVersion=v{KUBERNETES_VERSION}",
            f"{_VERSION}.gitMajor={_MAJOR}",
            f"{_VERSION}.gitMinor={_MINOR}",
        ),
    ),
    Module(
        "training-operator",
        (("training-operator", "github.com/kubeflow/training-operator/cmd/training-operator.v1"),),
    ),
    Module("jobset", (("jobset", "sigs.k8s.io/jobset"),)),
    Module(
        "trainer", (("trainer", "github.com/kubeflow/trainer/v2/cmd/trainer-controller-manager"),)
    ),
    Module("helm", (("helm", "helm.sh/helm/v4/cmd/helm"),)),
)


def program(name: str) -> Path:
    """The path of a program, which is built first if need be."""
    for module in MODULES:
        if name in module.links or name in dict(module.packages):
            return built(module) / name
    raise KeyError(f"no module of {SOURCES} builds {name}")


def built(module: Module) -> Path:
    """The directory with the programs of a module."""
    return made_once(module.place, lambda place: _build(module, place))


def _build(module: Module, place: Path) -> None:
    """Run the Go compiler; its messages go where ours go."""
    flags = ["-s", "-w", *(f"-X {variable}" for variable in module.variables)]
    environment = {**os.environ, "CGO_ENABLED": "0"}
    began = time.monotonic()
    _say(f"building {module.name} (once for these versions)")
    for name, package in module.packages:
        argv = ["go", "build", "-trimpath", "-buildvcs=false", "-mod=readonly"]
        argv += ["-ldflags", " ".join(flags), "-o", str(place / name), package]
        try:
            subprocess.run(argv, cwd=module.sources, env=environment, check=True)
        except FileNotFoundError:
            raise RuntimeError(
                "go is not on the PATH. Install Go 1.26 or later to build the test cluster."
            ) from None
    for link in module.links:
        (place / link).symlink_to(module.packages[0][0])
    _say(f"{module.name} took {time.monotonic() - began:.0f} s")


def _say(text: str) -> None:
    print(f"cluster: {text}", file=sys.stderr, flush=True)  # noqa: T201


def main() -> None:
    """Build what is named, or everything."""
    wanted = sys.argv[1:]
    unknown = set(wanted) - {module.name for module in MODULES}
    if unknown:
        sys.exit(f"building: there is no {SOURCES}/{min(unknown)}")
    for module in MODULES:
        if not wanted or module.name in wanted:
            _say(f"{module.name} is in {built(module)}")


if __name__ == "__main__":
    main()
