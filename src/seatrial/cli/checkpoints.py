# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial checkpoints`: what was saved, whether it is whole, and what can go on from it."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from seatrial.checkpoints.copying import copy as copy_checkpoint
from seatrial.checkpoints.inventory import checkpoints, set_aside
from seatrial.checkpoints.resumable_verification import pin as pin_checkpoint
from seatrial.checkpoints.resumable_verification import unpin, verify_noting
from seatrial.checkpoints.retention import Policy, decide, retire
from seatrial.checkpoints.verdict import Resume
from seatrial.cli.checkpoints_exchange import export, import_weights
from seatrial.cli.checkpoints_text import (
    as_data,
    say_decisions,
    say_list,
    say_pruned,
    say_verdict,
    shown,
    verified_line,
)
from seatrial.cli.options import Context, Json, Kubeconfig, Overrides, SpecFile, Step, Where
from seatrial.cli.remote import On, RemotePlace, Volume
from seatrial.errors import ExitCode, UsageError
from seatrial.findings import Finding, has_errors
from seatrial.rendering.reader_pod import VolumeReading
from seatrial.reports.terminal import (
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
from seatrial.sdk.checkpoints import ELSEWHERE, checkpoint_at, is_spec, place_of, resume_verdict
from seatrial.sdk.data import refuse_secret
from seatrial.sdk.plan import plan
from seatrial.storage.location import place_at
from seatrial.units import format_bytes

app = typer.Typer(
    help="List, verify, prune, pin, copy, export and import checkpoints; ask what one can resume.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)


@app.command("list")
def list_checkpoints(
    where: Where,
    overrides: Overrides = None,
    on: On = RemotePlace.HERE,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    as_json: Json = False,
) -> None:
    """List checkpoints, the newest first: step, size, age, verified, layout, what can load it.

    Only records are read, so that it takes a moment however many files there are.
    """
    if on is RemotePlace.KUBERNETES:
        Volume(where, overrides, kubeconfig, context).run(
            lambda plan: ["checkpoints", "list", plan.checkpoint_location],
            {"--json": as_json},
            following=f"seatrial checkpoints verify {where} --on kubernetes",
        )
    place = place_of(where, overrides or ())
    there, aside = list(checkpoints(place)), list(set_aside(place))
    if as_json:
        say_json({"checkpoints": [as_data(one) for one in there], "set_aside": aside})
        return
    if not there:
        say_text(f"No checkpoints in {place.address}. {ELSEWHERE}")
        say_following(f"seatrial status {where if is_spec(where) else 'RUN'}")
        return
    say_list(where, there, aside)


@app.command()
def verify(
    where: Where,
    overrides: Overrides = None,
    step: Annotated[
        int | None, typer.Option(min=0, help="Only the checkpoint of this step.")
    ] = None,
    threads: Annotated[
        int, typer.Option(min=0, help="Files read at a time; as many as cores, up to 8, for 0.")
    ] = 0,
    anew: Annotated[
        bool, typer.Option("--anew", help="Read everything, also what was verified before.")
    ] = False,
    on: On = RemotePlace.HERE,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    as_json: Json = False,
) -> None:
    """Read checkpoints again and compare every file with its record.

    Nothing is unpickled. One that was cut short goes on where it was; one that was verified is
    passed by, unless --anew or its --step is given. Exit code 1 when a checkpoint is damaged, and
    when none of those that were asked for was ever committed.
    """
    if on is RemotePlace.KUBERNETES:
        Volume(where, overrides, kubeconfig, context).run(
            lambda plan: ["checkpoints", "verify", plan.checkpoint_location],
            {"--step": step, "--threads": threads, "--anew": anew, "--json": as_json},
            VolumeReading.NOTES,
            following=f"seatrial checkpoints export {where} --to DIR --on kubernetes",
        )
    place = place_of(where, overrides or ())
    wanted = [checkpoint_at(place, step)] if step is not None else list(checkpoints(place))
    if not wanted:
        raise UsageError(f"{place.address} has no checkpoint to verify. {ELSEWHERE}")
    answers = {}
    for one in wanted:
        whole = anew or step is not None
        passed_by = one.verified and not whole
        if one.record is None:
            answers[one.step] = list(one.findings)
        else:
            size = one.record.shards.size
            again = anew or (whole and one.verified)
            with shown(f"step {one.step:,}", size, quiet=as_json or passed_by) as tell:
                found = verify_noting(place, one, threads=threads, anew=again, tell=tell)
            answers[one.step] = found
        if not as_json:
            say(verified_line(one, answers[one.step], passed_by=passed_by))
    every = [finding for findings in answers.values() for finding in findings]
    data = {str(k): [f.to_dict() for f in v] for k, v in answers.items()}
    _end(every, as_json, data, failed=all(one.record is None for one in wanted))
    if not as_json:
        say_following(f"seatrial checkpoints export {where} --to DIR")


@app.command()
def prune(
    where: Where,
    overrides: Overrides = None,
    keep_last: Annotated[
        int | None, typer.Option(min=1, help="Keep so many; checkpoints.keep_last when absent.")
    ] = None,
    keep_every_steps: Annotated[
        int | None, typer.Option(min=1, help="Keep those at multiples of this.")
    ] = None,
    keep_best: Annotated[
        int, typer.Option(min=0, help="Keep so many of the lowest validation loss.")
    ] = 0,
    yes: Annotated[
        bool, typer.Option("--yes", help="Remove; without it, only say what would go.")
    ] = False,
    on: On = RemotePlace.HERE,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    as_json: Json = False,
) -> None:
    """Remove old checkpoints, torn ones, and those whose step was saved again.

    The last two verified ones always stay, and pinned ones. Removes nothing without --yes.
    """
    policy = Policy()
    if is_spec(where):
        told = plan(Path(where), overrides or ()).spec.checkpoints
        policy = Policy(told.keep_last, told.keep_every_steps)
    policy = Policy(keep_last or policy.last, keep_every_steps or policy.every_steps, keep_best)
    if on is RemotePlace.KUBERNETES:
        asked = {
            "--keep-last": policy.last,
            "--keep-every-steps": policy.every_steps,
            "--keep-best": policy.best,
        }
        Volume(where, overrides, kubeconfig, context).run(
            lambda plan: ["checkpoints", "prune", plan.checkpoint_location],
            {**asked, "--yes": yes, "--json": as_json},
            VolumeReading.NOTES,
            following=f"seatrial checkpoints list {where} --on kubernetes",
        )
    place = place_of(where, overrides or ())
    decisions = decide(list(checkpoints(place)), set_aside(place), policy)
    if not as_json and decisions:
        say_decisions(decisions, certain=yes)
    for one in decisions:
        if yes and not one.kept:
            retire(place, one)
    if as_json:
        say_json({"done": yes, "decisions": [asdict(one) for one in decisions]})
        return
    if not decisions:
        say_text(f"No checkpoints in {place.address}: nothing to prune. {ELSEWHERE}")
        say_following(f"seatrial status {where if is_spec(where) else 'RUN'}")
        return
    say_pruned(decisions, done=yes)


@app.command("resume-verdict")
def say_resume_verdict(
    file: SpecFile,
    overrides: Overrides = None,
    at: Annotated[
        str | None,
        typer.Option("--from", metavar="DIR", help="Where the checkpoints are; the run's own."),
    ] = None,
    step: Step = None,
    as_json: Json = False,
) -> None:
    """Say whether a run can go on from a checkpoint: safe, resharded, with other data, or not.

    Exit code 1 when it cannot, or when the data order would change.
    """
    one, answer = resume_verdict(file, overrides or (), at=at, step=step)
    if answer is None:
        _end(one.findings or (), as_json, {"outcome": str(Resume.IMPOSSIBLE)}, failed=True)
        return
    if as_json:
        say_json({"step": one.step, **asdict(answer)})
    else:
        say_verdict(one.step, answer)
    if answer.outcome not in (Resume.SAFE, Resume.RESHARDED):
        raise typer.Exit(ExitCode.FINDINGS)
    if not as_json:
        say(f"next  {seatrial_words('launch', file, *overrides or ())}")


@app.command()
def pin(
    where: Where,
    overrides: Overrides = None,
    step: Step = None,
    why: Annotated[str, typer.Option(help="The reason, for whoever sees the list.")] = "",
    off: Annotated[bool, typer.Option("--off", help="Let it be pruned again.")] = False,
) -> None:
    """Keep a checkpoint from being pruned, or let it go again."""
    place = place_of(where, overrides or ())
    one = checkpoint_at(place, step)
    if one.record is None:
        raise UsageError(f"step {one.step:,} was never committed. Pin another one.")
    if off:
        unpin(place, one.directory)
    else:
        pin_checkpoint(place, one.directory, why)
    say(f"step {one.step:,} is {'no longer pinned' if off else 'pinned'}.")
    say(f"next  seatrial checkpoints list {where}")


@app.command()
def copy(
    where: Where,
    to: Annotated[str, typer.Argument(metavar="DIR", help="Where the copy goes.")],
    overrides: Overrides = None,
    step: Step = None,
    as_json: Json = False,
) -> None:
    """Copy a checkpoint to or from an object store, or to another disk, and read the copy back.

    Every file is compared with the record on its way. Start it again after any end, and what is
    there and right is not sent again.
    """
    refuse_secret(to)
    source, target = place_of(where, overrides or ()), place_at(to)
    one = checkpoint_at(source, step)
    size = one.record.shards.size if one.record else 0
    with shown(f"step {one.step:,}", size, quiet=as_json) as tell:
        record = copy_checkpoint(source, one.directory, target, tell)
    if as_json:
        say_json({"step": record.step, "bytes": record.shards.size, "to": to})
        return
    files = counted(record.shards.files, "file")
    say(f"step {record.step:,} is in {to}: {files}, {format_bytes(record.shards.size)}, read back.")
    say(f"next  seatrial checkpoints list {to}")


app.command("export")(export)
app.command("import")(import_weights)


def _end(findings: Sequence[Finding], as_json: bool, data: object, *, failed: bool = False) -> None:
    """Print findings, and end with 1 where there are errors."""
    if as_json:
        say_json(data)
    elif findings:
        say_findings(findings)
        say_error(f"\n{count_line(findings)}")
    if failed or has_errors(findings):
        raise typer.Exit(ExitCode.FINDINGS)
