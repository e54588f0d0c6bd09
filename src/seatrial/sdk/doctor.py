# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Find out which extras and engines are installed."""

import json
import operator
import os
import re
import subprocess
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import distributions, requires
from pathlib import Path

from seatrial.catalog.node_types import detected_gpus
from seatrial.engine_process.process import worker_python
from seatrial.engines.registry import ENGINES
from seatrial.errors import MissingExtraError
from seatrial.spec.engine import DEFAULT_ENGINE

NEEDED_FOR = {
    "data": "data prepare, estimate, verify and inspect; check --data",
    "ray": "data prepare on Ray",
    "cluster": "launch, status, logs and other cluster commands; check --cluster",
    "worker": "rehearse, launch on this host, check --engine, checkpoints export",
    "watch": "the live view of watch (without it, watch prints lines)",
    "report": "report",
    "mlflow": "sending metrics to MLflow",
    "wandb": "sending metrics to Weights & Biases",
}
"""The commands that need each extra."""
DEFAULT = ENGINES[DEFAULT_ENGINE]
WORKER_PYTHON = DEFAULT.installation.variable
"""Names the Python with the worker extra, if it is not the one that runs the command."""
SECOND = next(engine for name, engine in ENGINES.items() if name != DEFAULT_ENGINE)
FOR_SECOND_ENGINE = f"the same, for specs that use {SECOND.title}"
"""The purpose of its environment, in the row below the worker's."""
IN_WORKER = ("worker", "wandb")
"""The extras of the worker's environment, which may be a separate one."""
SOURCES = Path(__file__).parents[3] / "pyproject.toml"
"""The package metadata of a source checkout."""
_PACKAGE = re.compile(r"[A-Za-z0-9._-]+")
_BOUND = re.compile(r"(==|>=|<=|!=|<|>)\s*([\w.]+)")
_RELEASE = re.compile(r"\d+(?:\.\d+)*")
_COMPARED = {
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
"""The operators that our requirements use. `packaging` reads all operators, but would be a core
dependency for this alone."""
_EXTRA = re.compile(r"extra == ['\"]([\w-]+)['\"]")
_LIST_VERSIONS = (
    "import json; from importlib.metadata import distributions as d;"
    "print(json.dumps({x.name: x.version for x in d()}))"
)
_LONGEST_ANSWER = 60.0
_TRANSFORMER_ENGINE = ("transformer-engine", "transformer-engine-torch")
"""The distributions that include its layers. NVIDIA's images have only the first."""


@dataclass(frozen=True, slots=True)
class Need:
    """A package that an extra requires."""

    package: str
    bounds: tuple[str, ...] = ()
    """The version bounds, such as `>=37` and `<38`. Empty if any version works."""

    def takes(self, version: str) -> bool:
        """True if the version is within the bounds."""
        return all(_is_within(version, bound) for bound in self.bounds)


@dataclass(frozen=True, slots=True)
class InstalledPart:
    """An extra and the state of its packages."""

    extra: str
    needed_for: str
    """The commands that need it."""
    missing: tuple[str, ...]
    other_versions: tuple[str, ...]
    """Packages with an unsupported version, with both versions."""
    where: str = ""
    """The Python of its environment, if that is not this one."""

    @property
    def is_ready(self) -> bool:
        """True if the commands that need this extra can run."""
        return not self.missing and not self.other_versions


def needs() -> dict[str, tuple[Need, ...]]:
    """Return the requirements of each extra from the package metadata."""
    declared = _declared()
    return {extra: tuple(map(_need, declared.get(extra, ()))) for extra in NEEDED_FOR}


def _declared() -> dict[str, list[str]]:
    """Return the requirements of each extra, from the checkout or the installed package."""
    if SOURCES.is_file():
        return dict(tomllib.loads(SOURCES.read_text("utf-8"))["project"]["optional-dependencies"])
    found: dict[str, list[str]] = {}
    for line in requires("seatrial") or ():
        requirement, _, condition = line.partition(";")
        extra = _EXTRA.search(condition)
        if extra is not None:
            found.setdefault(extra[1], []).append(requirement)
    return found


def _need(requirement: str) -> Need:
    package = _PACKAGE.match(requirement)
    # Lower bound first, because an installed package sorts its bounds.
    bounds = sorted(("".join(one) for one in _BOUND.findall(requirement)), reverse=True)
    return Need(package[0] if package else requirement, tuple(bounds))


def _is_within(version: str, bound: str) -> bool:
    """True if a version is within a bound, or is not numeric."""
    limit = bound.lstrip("=!<>")
    found = _release(version)
    return not found or bool(_COMPARED[bound.removesuffix(limit)](found, _release(limit)))


def _release(version: str) -> tuple[int, ...]:
    """Return the numbers of a version without trailing zeros: 2.13.0+cpu is 2.13."""
    numbers = _RELEASE.match(version)
    return tuple(map(int, re.sub(r"(\.0+)+$", "", numbers[0]).split("."))) if numbers else ()


def parts(needed: Mapping[str, Iterable[Need]]) -> tuple[InstalledPart, ...]:
    """Look up the packages of every extra."""
    here = _packages_here()
    return _parts(needed, here, *_worker_packages(here))


def _packages_here() -> dict[str, str]:
    return {_plain(one.name): one.version for one in distributions() if one.name}


def _parts(
    needed: Mapping[str, Iterable[Need]],
    here: Mapping[str, str],
    there: Mapping[str, str],
    where: str,
) -> tuple[InstalledPart, ...]:
    return tuple(
        _part(extra, needed[extra], *((there, where) if extra in IN_WORKER else (here, "")))
        for extra in NEEDED_FOR
    )


def second_engine() -> InstalledPart:
    """Look up the engine that has its own environment instead of an extra."""
    name = str(SECOND.name)
    try:
        return InstalledPart(name, FOR_SECOND_ENGINE, (), (), worker_python(SECOND))
    except MissingExtraError:
        return InstalledPart(name, FOR_SECOND_ENGINE, (name,), ())


def kubeconfig() -> Path | None:
    """Return the kubeconfig, or `None` if there is none."""
    given = os.environ.get("KUBECONFIG", "").split(os.pathsep)
    files = [Path(one) for one in given if one] or [Path("~/.kube/config").expanduser()]
    return next((file for file in files if file.is_file()), None)


def _part(
    extra: str, needed: Iterable[Need], packages: Mapping[str, str], where: str
) -> InstalledPart:
    missing: list[str] = []
    other: list[str] = []
    for need in needed:
        version = packages.get(_plain(need.package))
        if version is None:
            missing.append(need.package)
        elif not need.takes(version):
            other.append(f"{need.package} is {version}, but {','.join(need.bounds)} is required")
    return InstalledPart(extra, NEEDED_FOR[extra], tuple(missing), tuple(other), where)


def _worker_packages(here: Mapping[str, str]) -> tuple[Mapping[str, str], str]:
    """Return the packages of the worker's environment, and its Python if it is a separate one."""
    if not os.environ.get(WORKER_PYTHON):
        return here, ""
    python = worker_python(DEFAULT)
    answer = subprocess.run(  # noqa: S603  (our own argv, no shell)
        [python, "-c", _LIST_VERSIONS],
        capture_output=True,
        text=True,
        timeout=_LONGEST_ANSWER,
        check=False,
    )
    try:
        packages = json.loads(answer.stdout)
    except ValueError:
        raise MissingExtraError(
            f"{WORKER_PYTHON} is {python}, which is not a working Python. Set it to the "
            "Python of an environment with seatrial[worker]."
        ) from None
    return {_plain(name): version for name, version in packages.items() if name}, python


def _plain(package: str) -> str:
    """Normalise a package's name, so that all spellings compare equal."""
    return re.sub(r"[-_.]+", "-", package).lower()


@dataclass(frozen=True, slots=True)
class Installation:
    """What is installed on this host."""

    extras: tuple[InstalledPart, ...]
    second_engine: InstalledPart
    """The engine that has its own environment instead of an extra."""
    kubeconfig: Path | None
    """None if there is none."""
    gpus: tuple[str, ...] = ()
    """The GPUs of this host, as NVIDIA's driver names them."""
    transformer_engine: str = ""
    """Its version in the worker's environment. Empty if it is missing."""


def doctor() -> Installation:
    """Find out which extras, engines, GPUs and kubeconfig this host has. Works offline."""
    here = _packages_here()
    there, where = _worker_packages(here)
    return Installation(
        _parts(needs(), here, there, where),
        second_engine(),
        kubeconfig(),
        tuple(detected_gpus()),
        next((there[name] for name in _TRANSFORMER_ENGINE if name in there), ""),
    )
