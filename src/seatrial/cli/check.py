# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial check`: every contract of a run, before a GPU is asked for."""

import shlex
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from seatrial.catalog.catalog import default_catalog
from seatrial.checks.check import NO_ANSWER, NO_CLUSTER, NO_DATA, NO_ENGINE, Verdict
from seatrial.checks.fixing import applied
from seatrial.checks.repairs.repair import Broken, is_weighed, repair_of
from seatrial.checks.rules.sources import absent_here
from seatrial.checks.situation import Checked
from seatrial.cli.cluster_options import Context, Kubeconfig
from seatrial.cli.files import write_new
from seatrial.cli.output import (
    count_line,
    counted,
    say,
    say_error,
    say_findings,
    say_following,
    say_json,
    say_text,
    seatrial_words,
)
from seatrial.cli.parameters import Json, Overrides, SpecFile
from seatrial.client import require_data_extra
from seatrial.cluster.errors import ClusterError
from seatrial.errors import ExitCode, MissingExtraError, UsageError
from seatrial.findings import Severity, has_errors
from seatrial.runs.checking import Around, Looked, look_around, planner_beside, text_of
from seatrial.runs.clusters import require_cluster_extra

app = typer.Typer(rich_markup_mode=None, add_completion=False)

MOST_ROUNDS = 60
"""Changes that `--fix` makes at most in one call: one may uncover the next finding."""

ABSENT = "not installed"
"""Why something that was to be looked at was not."""

Fix = Annotated[
    bool, typer.Option("--fix", help="Write the changes that mend findings into the file.")
]
Data = Annotated[
    bool,
    typer.Option("--data", help="Also look at tokenizers, prepared data and corpora from here."),
]
Engine = Annotated[
    bool,
    typer.Option("--engine", help="Also ask the engine about the production arguments."),
]
Cluster = Annotated[
    bool,
    typer.Option("--cluster", help="Also look at the cluster; nothing is changed there."),
]


@app.command()
def command(
    file: SpecFile,
    overrides: Overrides = None,
    fix: Fix = False,
    data: Data = False,
    engine: Engine = False,
    cluster: Cluster = False,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    as_json: Json = False,
) -> None:
    """Check every contract of a run before a GPU is asked for; each finding says what to do.

    Exit code 0 when nothing is wrong or there are only warnings, 1 with errors.
    """
    began, catalog = time.monotonic(), default_catalog()
    if fix and overrides:
        raise UsageError("--fix changes the file, and overrides are for this call. Give one kind.")
    text = text_of(file)
    extras = _Extras()
    asked = cluster or bool(kubeconfig or context)
    looked = Looked(
        data and extras.have(require_data_extra, NO_DATA),
        asked and extras.have(require_cluster_extra, NO_CLUSTER),
        kubeconfig,
        context,
        say_error,
    )
    if looked.data and sys.stderr.isatty():
        say_error("Looking at the data; where a network does not answer, that takes a minute.")
    planner = planner_beside(file, catalog)
    given = Broken(text, str(file), catalog, tuple(overrides or ()), None, planner)
    broken, verdict, trouble = _looking(given, looked)
    changes: list[tuple[Checked, tuple[str, ...]]] = []
    if fix:
        broken, verdict, changes = _mended(broken, verdict)
        if changes:
            write_new(file, broken.text, force=True)
            # What the API server says of the objects was said of those before. One that gave no
            # answer is not waited for again.
            again = replace(looked, cluster=looked.cluster and trouble is None)
            broken, verdict, later = _looking(broken, again)
            trouble = trouble or later
    repairs = [repair_of(broken, found) for found in verdict.checked]
    if trouble is not None:
        verdict = verdict.unanswered()
    verdict = verdict if looked.data else _with_paths(verdict)
    verdict = extras.told(_with_engine(verdict, extras, wanted=engine))
    repairs += [()] * (len(verdict.checked) - len(repairs))
    if as_json:
        say_json(_data(verdict, repairs, changes, trouble) | extras.data)
    else:
        _say_changes(file, changes)
        _say(verdict, repairs, time.monotonic() - began, file, overrides or ())
    if trouble is not None:
        raise typer.Exit(_told(trouble, as_json=as_json))
    extras.refuse(as_json=as_json)
    if has_errors(verdict.findings):
        raise typer.Exit(ExitCode.FINDINGS)


def _looking(broken: Broken, looked: Looked) -> tuple[Broken, Verdict, ClusterError | None]:
    """The same run, with all that is to be looked at around it, and the verdict on it.

    And why the cluster could not be asked, where it was to be.
    """
    bare = replace(broken, data=None, checkpoints=None, cluster=None)
    verdict = bare.again()
    around = look_around(verdict.situation, looked) if verdict.situation else Around()
    if around == Around(trouble=around.trouble):
        return bare, verdict, around.trouble
    seeing = replace(bare, data=around.data, checkpoints=around.checkpoints, cluster=around.cluster)
    return seeing, seeing.again(), around.trouble


def _told(trouble: ClusterError, *, as_json: bool) -> int:
    """The exit code of a cluster that could not be asked, which is told after the rest."""
    if not as_json:
        say_error("")
        say_findings(trouble.findings)
    return trouble.exit_code


def _mended(
    broken: Broken, verdict: Verdict
) -> tuple[Broken, Verdict, list[tuple[Checked, tuple[str, ...]]]]:
    """The run after every change that mends something, and the changes."""
    changes: list[tuple[Checked, tuple[str, ...]]] = []
    for _ in range(MOST_ROUNDS):
        for found in verdict.checked:
            repair = repair_of(broken, found) if not is_weighed(found.finding) else ()
            if repair:
                break
        else:
            break
        broken = broken.with_text(applied(broken.text, repair))
        changes.append((found, repair))
        verdict = broken.again()
    return broken, verdict, changes


@dataclass(slots=True)
class _Extras:
    """What was to be looked at and cannot be, because an optional part is not installed."""

    missing: dict[str, MissingExtraError] = field(default_factory=dict)
    """What is missing, by the reason under which its rules are counted."""

    def have(self, require: Callable[[], None], reason: str) -> bool:
        """Whether it is installed; what is missing is noted."""
        try:
            require()
        except MissingExtraError as error:
            self.missing[reason] = error
        return reason not in self.missing

    def told(self, verdict: Verdict) -> Verdict:
        """The verdict, with what is missing as the reason why rules were not applied."""
        for reason in self.missing:
            verdict = verdict.unanswered(reason, f"{reason.partition(':')[0]}: {ABSENT}")
        return verdict

    def refuse(self, *, as_json: bool) -> None:
        """End the command where something is missing, after what is known without it."""
        for missing in self.missing.values():
            # Data for a program have the words among them.
            raise typer.Exit(missing.exit_code) if as_json else missing

    @property
    def data(self) -> dict[str, str]:
        """The first that is missing, for a program."""
        first = next(iter(self.missing.values()), None)
        return {"error": str(first)} if first else {}


def _with_paths(verdict: Verdict) -> Verdict:
    """The verdict with the paths of a run on this host that are not there."""
    if verdict.situation is None:
        return verdict
    absent = absent_here(verdict.situation, lambda path: Path(path).exists())
    return replace(verdict, checked=(*verdict.checked, *absent))


def _with_engine(verdict: Verdict, extras: _Extras, *, wanted: bool) -> Verdict:
    """The verdict with what the engine itself says, where it is asked."""
    situation = verdict.situation
    if not wanted:
        return verdict.without(NO_ENGINE, 1) if situation is not None else verdict
    # Loaded here because the rest of the check needs no engine.
    from seatrial.cli.check_engine import asked, require_engine  # noqa: PLC0415

    if not extras.have(lambda: require_engine(situation), NO_ENGINE):
        return verdict.without(NO_ENGINE, 1)
    if situation is None or has_errors(verdict.findings):
        return verdict.without("engine not asked: there are errors", 1)
    return verdict.adding(asked(situation))


def _say_changes(file: Path, changes: list[tuple[Checked, tuple[str, ...]]]) -> None:
    """What `--fix` wrote, a line a change."""
    for found, repair in changes:
        say(f"fixed   {found.finding.code:<16} {' '.join(map(shlex.quote, repair))}")
    if changes:
        say(f"Wrote {file}: {counted(len(changes), 'change')}.")
        if len(changes) == MOST_ROUNDS:
            say("There may be more: call it again.")
        say()


def _say(
    verdict: Verdict,
    repairs: list[tuple[str, ...]],
    seconds: float,
    file: Path,
    overrides: Sequence[str],
) -> None:
    """The verdict for a person."""
    mendable = 0
    for found, repair in zip(verdict.checked, repairs, strict=True):
        say_findings([found.finding], sys.stdout)
        if repair:
            mendable += not is_weighed(found.finding)
            change = " ".join(map(shlex.quote, repair))
            say(f"        change: {change}")
        elif found.finding.severity is not Severity.NOTE:
            say(f"        background: seatrial explain {found.finding.code}")
    if verdict.checked:
        say()
    unasked = any(why == NO_ANSWER or why.endswith(ABSENT) for why in verdict.not_run)
    nothing = "Nothing found so far" if unasked else "Nothing speaks against this run"
    said = count_line(verdict.findings) or nothing
    # How long it took is for who waited, not for a file or a page of the documentation.
    took = f" in {seconds:.1f} s" if sys.stdout.isatty() else ""
    left = sum(verdict.not_run.values())
    reasons = ", ".join(verdict.not_run)
    rest = f", {left} not run ({reasons})" if left else ""
    say_text(f"{said}{took}: {counted(verdict.rules_run, 'rule')}{rest}.", rest="  ")
    if mendable and not overrides:
        what = "the change" if mendable == 1 else f"the {mendable} changes"
        say(f"next  seatrial check {file} --fix   writes {what} into the file")
    elif has_errors(verdict.findings):
        say("next  mend that, then the same command again")
    elif not unasked:
        say_following(seatrial_words("rehearse", file, *overrides))


def _data(
    verdict: Verdict,
    repairs: list[tuple[str, ...]],
    changes: list[tuple[Checked, tuple[str, ...]]],
    trouble: ClusterError | None,
) -> dict[str, Any]:
    """The verdict for a program."""
    unasked = trouble.findings if trouble is not None else ()
    return {
        "findings": [
            *(
                found.finding.to_dict() | {"overrides": list(repair)}
                for found, repair in zip(verdict.checked, repairs, strict=True)
            ),
            *(finding.to_dict() | {"overrides": []} for finding in unasked),
        ],
        "changes": [
            {"code": found.finding.code, "overrides": list(repair)} for found, repair in changes
        ],
        "rules_run": verdict.rules_run,
        "not_run": verdict.not_run,
    }
