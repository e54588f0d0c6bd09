# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial checkpoints`: list, verify, prune, pin, copy, export and import checkpoints."""

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
from seatrial.cli.interrupts import on_interrupt
from seatrial.cli.options import (
    Context,
    Json,
    Kubeconfig,
    Overrides,
    SpecFile,
    Step,
    Where,
    examples,
)
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
from seatrial.sdk.checkpoints import (
    ELSEWHERE,
    checkpoint_at,
    is_spec,
    place_of,
    resume_verdict,
    training_losses,
)
from seatrial.sdk.data import refuse_secret
from seatrial.sdk.plan import plan
from seatrial.storage.location import place_at
from seatrial.units import format_bytes

app = typer.Typer(
    help="List, verify, prune, pin, copy, export and import checkpoints.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)


@app.command(
    "list",
    epilog=examples(
        "seatrial checkpoints list run.yaml", "seatrial checkpoints list s3://bucket/my-run"
    ),
)
def list_checkpoints(
    where: Where,
    overrides: Overrides = None,
    on: On = RemotePlace.HERE,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    as_json: Json = False,
) -> None:
    """List checkpoints, newest first: step, size, age, verified, layout, loss.

    Reads only the records, so it is fast for any number of files.
    """
    if on is RemotePlace.KUBERNETES:
        Volume(where, overrides, kubeconfig, context).run(
            lambda plan: ["checkpoints", "list", plan.checkpoint_location],
            {"--json": as_json},
            following=f"seatrial checkpoints verify {where} --on kubernetes",
        )
    place = place_of(where, overrides or ())
    there, aside = list(checkpoints(place)), list(set_aside(place))
    losses = training_losses(place, (one.step for one in there))
    if as_json:
        say_json({"checkpoints": [as_data(one, losses) for one in there], "set_aside": aside})
        return
    if not there:
        say_text(f"No checkpoints in {place.address}. {ELSEWHERE}")
        say_following(f"seatrial status {where if is_spec(where) else 'RUN'}")
        return
    say_list(where, there, aside, losses)


@app.command(
    epilog=examples(
        "seatrial checkpoints verify run.yaml",
        "seatrial checkpoints verify run.yaml --step 4200 --on kubernetes",
    )
)
def verify(
    where: Where,
    overrides: Overrides = None,
    step: Annotated[
        int | None, typer.Option(min=0, help="Only the checkpoint at this step.")
    ] = None,
    threads: Annotated[
        int, typer.Option(min=0, help="Files to read in parallel; 0 means one per core, at most 8.")
    ] = 0,
    again: Annotated[
        bool, typer.Option("--again", help="Also read checkpoints that are already verified.")
    ] = False,
    on: On = RemotePlace.HERE,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    as_json: Json = False,
) -> None:
    """Read checkpoints and compare every file with its record.

    Never unpickles anything. An interrupted verification continues where it stopped. Checkpoints
    that are already verified are skipped, unless you pass --again or select one with --step. Exit
    code 1 if a checkpoint is damaged, or if no selected checkpoint was committed.
    """
    if on is RemotePlace.KUBERNETES:
        Volume(where, overrides, kubeconfig, context).run(
            lambda plan: ["checkpoints", "verify", plan.checkpoint_location],
            {"--step": step, "--threads": threads, "--again": again, "--json": as_json},
            VolumeReading.NOTES,
            following=f"seatrial checkpoints export {where} --to DIR --on kubernetes",
        )
    place = place_of(where, overrides or ())
    wanted = [checkpoint_at(place, step)] if step is not None else list(checkpoints(place))
    if not wanted:
        raise UsageError(f"no checkpoints in {place.address}. {ELSEWHERE}")
    answers = {}
    for one in wanted:
        whole = again or step is not None
        passed_by = one.verified and not whole
        if one.record is None:
            answers[one.step] = list(one.findings)
        else:
            size = one.record.shards.size
            afresh = again or (whole and one.verified)
            with (
                on_interrupt("Verified files are recorded: rerun the same command to continue."),
                shown(f"step {one.step:,}", size, quiet=as_json or passed_by) as tell,
            ):
                found = verify_noting(place, one, threads=threads, again=afresh, tell=tell)
            answers[one.step] = found
        if not as_json:
            say(verified_line(one, answers[one.step], passed_by=passed_by))
    every = [finding for findings in answers.values() for finding in findings]
    data = {str(k): [f.to_dict() for f in v] for k, v in answers.items()}
    _end(every, as_json, data, failed=all(one.record is None for one in wanted))
    if not as_json:
        say_following(f"seatrial checkpoints export {where} --to DIR")


@app.command(
    epilog=examples(
        "seatrial checkpoints prune run.yaml",
        "seatrial checkpoints prune run.yaml --keep-last 3 --yes",
    )
)
def prune(
    where: Where,
    overrides: Overrides = None,
    keep_last: Annotated[
        int | None, typer.Option(min=1, help="Checkpoints to keep. Default: checkpoints.keep_last.")
    ] = None,
    keep_every_steps: Annotated[
        int | None, typer.Option(min=1, help="Also keep the steps divisible by this number.")
    ] = None,
    keep_best: Annotated[
        int, typer.Option(min=0, help="Also keep the N checkpoints with the best validation loss.")
    ] = 0,
    yes: Annotated[
        bool,
        typer.Option("--yes", help="Delete. Without it, prune only lists what it would delete."),
    ] = False,
    on: On = RemotePlace.HERE,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    as_json: Json = False,
) -> None:
    """Delete old, incomplete and superseded checkpoints.

    Always keeps the last two verified checkpoints and the pinned ones. Deletes nothing without
    --yes.
    """
    policy = Policy()
    if is_spec(where):
        given = plan(Path(where), overrides or ()).spec.checkpoints
        policy = Policy(given.keep_last, given.keep_every_steps)
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
        say_text(f"No checkpoints in {place.address}. {ELSEWHERE}")
        say_following(f"seatrial status {where if is_spec(where) else 'RUN'}")
        return
    say_pruned(decisions, done=yes)


@app.command(
    "resume-verdict",
    epilog=examples(
        "seatrial checkpoints resume-verdict run.yaml",
        "seatrial checkpoints resume-verdict run.yaml cluster.nodes=4",
    ),
)
def say_resume_verdict(
    file: SpecFile,
    overrides: Overrides = None,
    at: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="DIR", help="The checkpoint location. Default: the one in the spec."
        ),
    ] = None,
    step: Step = None,
    as_json: Json = False,
) -> None:
    """Report whether a run can resume from a checkpoint, and what would change.

    Exit code 1 if it cannot, or if the data order or the model would change.
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


@app.command(
    epilog=examples(
        "seatrial checkpoints pin run.yaml --step 4200 --why 'before the data change'",
        "seatrial checkpoints pin run.yaml --step 4200 --off",
    )
)
def pin(
    where: Where,
    overrides: Overrides = None,
    step: Step = None,
    why: Annotated[str, typer.Option(help="The reason, shown in the list.")] = "",
    off: Annotated[bool, typer.Option("--off", help="Remove the pin.")] = False,
) -> None:
    """Pin a checkpoint, so that it is never pruned, or remove the pin."""
    place = place_of(where, overrides or ())
    one = checkpoint_at(place, step)
    if one.record is None:
        raise UsageError(f"step {one.step:,} was never committed. Pin a committed checkpoint.")
    if off:
        unpin(place, one.directory)
    else:
        pin_checkpoint(place, one.directory, why)
    say(f"step {one.step:,} is {'no longer pinned' if off else 'pinned'}.")
    say(f"next  seatrial checkpoints list {where}")


@app.command(
    epilog=examples(
        "seatrial checkpoints copy run.yaml s3://bucket/my-run",
        "seatrial checkpoints copy s3://bucket/my-run ./checkpoints --step 4200",
    )
)
def copy(
    where: Where,
    to: Annotated[str, typer.Argument(metavar="DIR", help="The target directory.")],
    overrides: Overrides = None,
    step: Step = None,
    as_json: Json = False,
) -> None:
    """Copy a checkpoint to or from an object store or a different disk, and verify the copy.

    Compares every file with the checkpoint's record. If the copy is interrupted, rerun the command:
    it skips files that are already copied.
    """
    refuse_secret(to)
    source, target = place_of(where, overrides or ()), place_at(to)
    one = checkpoint_at(source, step)
    size = one.record.shards.size if one.record else 0
    with (
        on_interrupt("Copied files are kept: rerun the same command to continue."),
        shown(f"step {one.step:,}", size, quiet=as_json) as tell,
    ):
        record = copy_checkpoint(source, one.directory, target, tell)
    if as_json:
        say_json({"step": record.step, "bytes": record.shards.size, "to": to})
        return
    files = counted(record.shards.files, "file")
    say(f"step {record.step:,} is in {to}: {files}, {format_bytes(record.shards.size)}, verified.")
    say(f"next  seatrial checkpoints list {to}")


app.command(
    "export",
    epilog=examples(
        "seatrial checkpoints export run.yaml --to weights",
        "seatrial checkpoints export run.yaml --to weights --compare",
    ),
)(export)
app.command(
    "import",
    epilog=examples(
        "seatrial checkpoints import ./Llama-3.2-1B --to initial",
        "seatrial checkpoints import ./gpt2 --to initial --json",
    ),
)(import_weights)


def _end(findings: Sequence[Finding], as_json: bool, data: object, *, failed: bool = False) -> None:
    """Print findings, and exit with 1 if there are errors."""
    if as_json:
        say_json(data)
    elif findings:
        say_findings(findings)
        say_error(f"\n{count_line(findings)}")
    if failed or has_errors(findings):
        raise typer.Exit(ExitCode.FINDINGS)
