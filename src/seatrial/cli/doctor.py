# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What of Seatrial is installed here, by extra, and what each extra is for."""

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

from seatrial.cli.options import Json
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
    "cluster": "launch, status, logs and the others that ask a cluster; check --cluster",
    "worker": "rehearse, launch on this host, check --engine, checkpoints export",
    "watch": "the live view of watch; without it, lines",
    "report": "report",
    "mlflow": "sending a run's numbers to MLflow",
    "wandb": "sending a run's numbers to Weights & Biases",
}
"""The extras, and the commands that need them."""
SECOND = next(engine for name, engine in ENGINES.items() if name != DEFAULT_ENGINE)
FOR_SECOND_ENGINE = f"the same for specs of {SECOND.title}"
"""What its environment is needed for; its row stands below the worker's."""
IN_WORKER = ("worker", "wandb")
"""The extras that belong into the worker's environment, which may be another."""
SOURCES = Path(__file__).parents[3] / "pyproject.toml"
"""What the package is made from, where it runs from its sources."""
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
"""What the bounds of our own requirements are written with; `packaging`, which reads all that
there are, would be a dependency of the core for this alone."""
_EXTRA = re.compile(r"extra == ['\"]([\w-]+)['\"]")
_LIST_VERSIONS = (
    "import json; from importlib.metadata import distributions as d;"
    "print(json.dumps({x.name: x.version for x in d()}))"
)
_LONGEST_ANSWER = 60.0


@dataclass(frozen=True, slots=True)
class Need:
    """A package that an extra needs."""

    package: str
    bounds: tuple[str, ...] = ()
    """Which versions will do, such as `>=37` and `<38`, all of them; none where each does."""

    def takes(self, version: str) -> bool:
        """Whether a version will do."""
        return all(_is_within(version, bound) for bound in self.bounds)


@dataclass(frozen=True, slots=True)
class InstalledPart:
    """An extra, and what of it is here."""

    extra: str
    needed_for: str
    """The commands that need it."""
    missing: tuple[str, ...]
    """Packages that are not installed."""
    other_versions: tuple[str, ...]
    """Packages of a version that will not do, with both versions."""
    where: str = ""
    """Where it was looked for, where that is not this environment."""

    @property
    def is_ready(self) -> bool:
        """Whether the commands that need it can run."""
        return not self.missing and not self.other_versions


def needs() -> dict[str, tuple[Need, ...]]:
    """What each extra needs, as the package itself says."""
    declared = _declared()
    return {extra: tuple(map(_need, declared.get(extra, ()))) for extra in NEEDED_FOR}


def _declared() -> dict[str, list[str]]:
    """The requirements of each extra: of the installed package, or of the sources."""
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
    # The lower first, in whichever order they are declared: an installed package sorts them.
    bounds = sorted(("".join(one) for one in _BOUND.findall(requirement)), reverse=True)
    return Need(package[0] if package else requirement, tuple(bounds))


def _is_within(version: str, bound: str) -> bool:
    """Whether a version keeps to a bound; one that is no row of numbers is not judged."""
    limit = bound.lstrip("=!<>")
    found = _release(version)
    return not found or bool(_COMPARED[bound.removesuffix(limit)](found, _release(limit)))


def _release(version: str) -> tuple[int, ...]:
    """The numbers of a version, without zeros at the end: 37.0 is 37, and 2.13.0+cpu is 2.13."""
    numbers = _RELEASE.match(version)
    return tuple(map(int, re.sub(r"(\.0+)+$", "", numbers[0]).split("."))) if numbers else ()


def parts(needed: Mapping[str, Iterable[Need]]) -> tuple[InstalledPart, ...]:
    """All extras, and what of each is here."""
    here = {_plain(one.name): one.version for one in distributions() if one.name}
    there, where = _worker_packages(here)
    return tuple(
        _part(extra, needed[extra], *((there, where) if extra in IN_WORKER else (here, "")))
        for extra in NEEDED_FOR
    )


def second_engine() -> InstalledPart:
    """The engine that has an environment of its own and is no extra."""
    name = str(SECOND.name)
    try:
        return InstalledPart(name, FOR_SECOND_ENGINE, (), (), worker_python(SECOND))
    except MissingExtraError:
        return InstalledPart(name, FOR_SECOND_ENGINE, (name,), ())


def kubeconfig() -> Path | None:
    """The file that says how to reach a cluster, where there is one."""
    told = os.environ.get("KUBECONFIG", "").split(os.pathsep)
    files = [Path(one) for one in told if one] or [Path("~/.kube/config").expanduser()]
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
            other.append(f"{need.package} is {version}, needed is {','.join(need.bounds)}")
    return InstalledPart(extra, NEEDED_FOR[extra], tuple(missing), tuple(other), where)


def _worker_packages(here: Mapping[str, str]) -> tuple[Mapping[str, str], str]:
    """The packages of the worker's environment, and its Python where that is not this one."""
    if not os.environ.get(WORKER_PYTHON):
        return here, ""
    python = worker_python()
    answer = subprocess.run(  # noqa: S603  (our own words, no shell)
        [python, "-c", _LIST_VERSIONS],
        capture_output=True,
        text=True,
        timeout=_LONGEST_ANSWER,
        check=False,
    )
    try:
        told = json.loads(answer.stdout)
    except ValueError:
        raise MissingExtraError(
            f"{WORKER_PYTHON} is {python}, which does not answer as a Python does. Set it to the "
            "Python of an environment with seatrial[worker]."
        ) from None
    return {_plain(name): version for name, version in told.items() if name}, python


def _plain(package: str) -> str:
    """A package's name as all of its spellings compare."""
    return re.sub(r"[-_.]+", "-", package).lower()


app = typer.Typer(rich_markup_mode=None, add_completion=False)

COLUMNS = (name("part"), text("state"), text("needed for"))
ON_THIS_HOST = ("data", "watch", "report", "worker")
"""The extras with which a run goes all the way on this host."""
WIDTH = 80
"""The width where no terminal has one: this page is read, not searched."""


@app.command()
def command(as_json: Json = False) -> None:
    """Show what of Seatrial is installed, which command needs what is missing, how to get it.

    Asks no network. Whether a cluster answers is for `seatrial check --cluster` to say.
    """
    extras, other, cluster = parts(needs()), second_engine(), kubeconfig()
    # Below the worker, which is the other engine's.
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
        _say(f"The worker's environment is that of {where}.")
    if other.where:
        _say(f"{SECOND.title}'s environment is that of {other.where}.")
    _say_cluster(str(cluster) if cluster else "")
    _say_remedy(extras, other)


def _state(part: InstalledPart) -> str:
    """How it is, in words."""
    counts = {"missing": len(part.missing), "of another version": len(part.other_versions)}
    return ", ".join(f"{counted(n, 'package')} {how}" for how, n in counts.items() if n) or "ready"


def _say_missing(part: InstalledPart) -> None:
    """What an extra lacks, below the table: it can be a dozen packages."""
    if part.missing:
        _say(f"Missing for {part.extra}: {', '.join(part.missing)}.", rest="  ")
    for words in part.other_versions:
        _say(f"For {part.extra}: {words}.", rest="  ")


def _say(words: str, rest: str = "") -> None:
    say_text(words, rest=rest, width=WIDTH)


def _say_cluster(file: str) -> None:
    if file:
        _say(f"Clusters are reached by {file}.")
    else:
        _say(
            "There is no file that says how to reach a cluster (KUBECONFIG, ~/.kube/config): "
            "commands that ask one will say so. Plan, check, render and rehearse need none."
        )


def _say_remedy(found: tuple[InstalledPart, ...], other: InstalledPart) -> None:
    """The command that installs what is missing; the engine may have an environment of its own."""
    lacking = [part for part in found if not part.is_ready]
    names = {part.extra for part in lacking}
    if names.intersection(ON_THIS_HOST):
        wanted = ",".join(extra for extra in ON_THIS_HOST if extra in names)
        _say("For runs on this host alone, without a cluster, in a checkout of Seatrial:")
        say(f"  pip install '.[{wanted}]'")
    here = [part.extra for part in lacking if part.extra not in IN_WORKER]
    if here:
        _say("To have all commands here, in a checkout of Seatrial:")
        say(f"  pip install '.[{','.join(here)}]'")
    there = [part.extra for part in lacking if part.extra in IN_WORKER]
    if there:
        _say(
            "What trains brings torch. Install it into this environment, or into one of its own "
            f"whose Python {WORKER_PYTHON} names:"
        )
        say(f"  pip install '.[{','.join(there)}]'")
    if not other.is_ready:
        _say(f"For specs of {SECOND.title}, which needs an environment of its own:")
        say(f"  {SECOND.installation.command}")
    if not lacking and other.is_ready:
        say("Nothing is missing.")
    say("next  seatrial init")
