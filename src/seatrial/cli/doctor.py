# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial doctor`: which extras are installed, and which commands need them."""

import json
import operator
import os
import platform
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import distributions, requires
from pathlib import Path

import typer

from seatrial.cli.options import Json, examples
from seatrial.engine_process.process import WORKER_PYTHON, worker_python
from seatrial.engines.registry import ENGINES
from seatrial.errors import MissingExtraError
from seatrial.reports.tables import name, say_table, text
from seatrial.reports.terminal import counted, say, say_json, say_text
from seatrial.spec.engine import DEFAULT_ENGINE
from seatrial.version import VERSION

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
    here = {_plain(one.name): one.version for one in distributions() if one.name}
    there, where = _worker_packages(here)
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
    python = worker_python()
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


app = typer.Typer(rich_markup_mode=None, add_completion=False)

COLUMNS = (name("part"), text("state"), text("needed for"))
ON_THIS_HOST = ("data", "watch", "report", "worker")
"""The extras that a complete run on this host needs."""
WIDTH = 80
"""The width without a terminal."""


@app.command(epilog=examples("seatrial doctor", "seatrial doctor --json"))
def command(as_json: Json = False) -> None:
    """Show what is installed, what is missing, and how to install it.

    Works offline. To test the connection to a cluster, use `seatrial check --cluster`.
    """
    extras, other, cluster = parts(needs()), second_engine(), kubeconfig()
    # Below the worker, which is the other engine.
    below = [part.extra for part in extras].index("worker") + 1
    found = (*extras[:below], other, *extras[below:])
    if as_json:
        say_json(
            {
                "version": VERSION,
                "python": platform.python_version(),
                "executable": sys.executable,
                "kubeconfig": str(cluster) if cluster else None,
                "parts": [asdict(part) | {"is_ready": part.is_ready} for part in found],
            }
        )
        return
    say(f"seatrial {VERSION}, Python {platform.python_version()}, {platform.platform(terse=True)}")
    say()
    core = ("core", "ready", "init, validate, plan, check, render, catalog, recipes, explain")
    rows = [(part.extra, _state(part), part.needed_for) for part in found]
    say_table(COLUMNS, [core, *rows], WIDTH)
    say()
    for part in found:
        _say_missing(part)
    for where in dict.fromkeys(part.where for part in extras if part.where):
        _say(f"The worker uses {where}.")
    if other.where:
        _say(f"{SECOND.title} uses {other.where}.")
    _say_cluster(str(cluster) if cluster else "")
    _say_remedy(extras, other)


def _state(part: InstalledPart) -> str:
    counts = {"missing": len(part.missing), "unsupported": len(part.other_versions)}
    return ", ".join(f"{counted(n, 'package')} {how}" for how, n in counts.items() if n) or "ready"


def _say_missing(part: InstalledPart) -> None:
    """List what an extra lacks, below the table: it can be a dozen packages."""
    if part.missing:
        _say(f"Missing for {part.extra}: {', '.join(part.missing)}.", rest="  ")
    for words in part.other_versions:
        _say(f"For {part.extra}: {words}.", rest="  ")


def _say(words: str, rest: str = "") -> None:
    say_text(words, rest=rest, width=WIDTH)


def _say_cluster(file: str) -> None:
    if file:
        _say(f"Kubeconfig: {file}.")
    else:
        _say(
            "No kubeconfig found (KUBECONFIG, ~/.kube/config). Only cluster commands need one; "
            "plan, check, render and rehearse do not."
        )


def _say_remedy(found: tuple[InstalledPart, ...], other: InstalledPart) -> None:
    """Print the commands that install the missing extras."""
    lacking = [part for part in found if not part.is_ready]
    names = {part.extra for part in lacking}
    if names.intersection(ON_THIS_HOST):
        wanted = ",".join(extra for extra in ON_THIS_HOST if extra in names)
        _say("To run everything on this host, without a cluster (in a checkout of Seatrial):")
        say(f"  pip install '.[{wanted}]'")
    here = [part.extra for part in lacking if part.extra not in IN_WORKER]
    if here:
        _say("To install the dependencies of every command (in a checkout of Seatrial):")
        say(f"  pip install '.[{','.join(here)}]'")
    there = [part.extra for part in lacking if part.extra in IN_WORKER]
    if there:
        _say(
            "The worker needs torch. Install it here, or in a separate environment and set "
            f"{WORKER_PYTHON} to its Python:"
        )
        say(f"  pip install '.[{','.join(there)}]'")
    if not other.is_ready:
        _say(f"To use {SECOND.title}, which needs its own environment:")
        say(f"  {SECOND.installation.command}")
    if not lacking and other.is_ready:
        say("Everything is installed.")
    say("next  seatrial init")
