# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial checkpoints`: list, verify, prune, pin, copy, export, try and import checkpoints."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Annotated, Any

import typer

from seatrial.checkpoints.inventory import Checkpoint
from seatrial.checkpoints.retention import Policy, RetentionDecision
from seatrial.checkpoints.verdict import Resume
from seatrial.cli.checkpoints_exchange import export, import_weights, try_weights
from seatrial.cli.checkpoints_text import (
    CheckpointList,
    VerifiedLine,
    is_quiet,
    list_of,
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
from seatrial.cli.remote import ON_KUBERNETES, On, RemotePlace, Volume
from seatrial.errors import ExitCode
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
    ReportBytes,
    copy_checkpoint,
    inventory,
    is_spec,
    pin_checkpoint,
    place_of,
    prune_checkpoints,
    resume_verdict,
    retention_policy,
    unpin_checkpoint,
    verify_checkpoints,
)
from seatrial.storage.state_files import decode
from seatrial.units import format_bytes

app = typer.Typer(
    help="List, verify, prune, pin, copy, export, try and import checkpoints.",
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
        answer = Volume(where, overrides, kubeconfig, context).ask(
            lambda plan: ["checkpoints", "list", plan.checkpoint_location], as_json=as_json
        )
        there = answer.read(lambda data: decode(CheckpointList, data))
        address = answer.plan.checkpoint_location
        _say_list(where, there, f"No checkpoints in {address}.", ON_KUBERNETES)
        return
    found = inventory(where, overrides or ())
    there = list_of(found)
    if as_json:
        say_json(asdict(there))
        return
    _say_list(where, there, f"No checkpoints in {found.address}. {ELSEWHERE}")


def _say_list(where: str, found: CheckpointList, none: str, options: str = "") -> None:
    """Print the checkpoints, or `none` if there are none."""
    if found.checkpoints:
        say_list(where, found, options)
    else:
        _say_none(where, none)


def _say_none(where: str, text: str) -> None:
    say_text(text)
    say_following(f"seatrial status {where if is_spec(where) else 'RUN'}")


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
        answer = Volume(where, overrides, kubeconfig, context).ask(
            lambda plan: ["checkpoints", "verify", plan.checkpoint_location],
            {"--step": step, "--threads": threads, "--again": again},
            VolumeReading.NOTES,
            as_json=as_json,
        )
        lines = answer.read(_verified_lines)
        for line in lines:
            say(line.text)
        _conclude_verify(where, lines, ON_KUBERNETES)
        return
    kept = "Verified files are recorded: rerun the same command to continue."
    lines = []
    for found in verify_checkpoints(
        where,
        overrides or (),
        step=step,
        threads=threads,
        again=again,
        watch=_watch(kept, quiet=is_quiet(as_json=as_json)),
    ):
        lines.append(verified_line(found))
        if not as_json:
            say(lines[-1].text)
    if as_json:
        by_step = {str(line.step): [f.to_dict() for f in line.findings] for line in lines}
        say_json(by_step | {"checkpoints": [asdict(line) for line in lines]})
        if _failed(lines):
            raise typer.Exit(ExitCode.FINDINGS)
        return
    _conclude_verify(where, lines)


def _watch(kept: str, *, quiet: bool) -> Callable[[Checkpoint], Any]:
    """Return a context that shows the progress of a checkpoint, and what Ctrl-C keeps."""

    @contextmanager
    def watch(one: Checkpoint) -> Iterator[ReportBytes]:
        size = one.record.shards.size if one.record else 0
        with on_interrupt(kept), shown(f"step {one.step:,}", size, quiet=quiet) as tell:
            yield tell

    return watch


def _verified_lines(data: Any) -> list[VerifiedLine]:
    """Read the answer of `verify --json`."""
    return [decode(VerifiedLine, each) for each in data["checkpoints"]]


def _failed(lines: Sequence[VerifiedLine]) -> bool:
    """True if a checkpoint is damaged, or if none was committed."""
    none = all(line.bytes is None for line in lines)
    return none or any(has_errors(line.findings) for line in lines)


def _conclude_verify(where: str, lines: Sequence[VerifiedLine], options: str = "") -> None:
    """Print the findings and the next step."""
    every = [finding for line in lines for finding in line.findings]
    if every:
        say_findings(every)
        say_error(f"\n{count_line(every)}")
    if _failed(lines):
        raise typer.Exit(ExitCode.FINDINGS)
    say_following(f"seatrial checkpoints export {where} --to DIR{options}")


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
    policy = retention_policy(
        where,
        overrides or (),
        keep_last=keep_last,
        keep_every_steps=keep_every_steps,
        keep_best=keep_best,
    )
    if on is RemotePlace.KUBERNETES:
        _prune_in_pod(
            Volume(where, overrides, kubeconfig, context), policy, yes=yes, as_json=as_json
        )
        return

    def decided(decisions: Sequence[RetentionDecision]) -> None:
        if not as_json and decisions:
            say_decisions(decisions, certain=yes)

    decisions = prune_checkpoints(
        where, overrides or (), policy=policy, delete=yes, decided=decided
    )
    if as_json:
        say_json({"done": yes, "decisions": [asdict(one) for one in decisions]})
        return
    if not decisions:
        address = place_of(where, overrides or ()).address
        _say_none(where, f"No checkpoints in {address}. {ELSEWHERE}")
        return
    say_pruned(decisions, done=yes)


def _prune_in_pod(volume: Volume, policy: Policy, *, yes: bool, as_json: bool) -> None:
    """Prune the checkpoints on the run's volume, and print the decisions."""
    asked = {
        "--keep-last": policy.last,
        "--keep-every-steps": policy.every_steps,
        "--keep-best": policy.best,
    }
    answer = volume.ask(
        lambda plan: ["checkpoints", "prune", plan.checkpoint_location],
        {**asked, "--yes": yes},
        VolumeReading.NOTES,
        as_json=as_json,
    )
    decisions = answer.read(_decisions)
    if not decisions:
        _say_none(volume.where, f"No checkpoints in {answer.plan.checkpoint_location}.")
        return
    say_decisions(decisions, certain=yes)
    following = f"seatrial checkpoints list {volume.where}{ON_KUBERNETES}"
    say_pruned(decisions, done=yes, following=following)


def _decisions(data: Any) -> list[RetentionDecision]:
    """Read the answer of `prune --json`."""
    return [decode(RetentionDecision, each) for each in data["decisions"]]


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
    if off:
        one = unpin_checkpoint(where, overrides or (), step=step)
    else:
        one = pin_checkpoint(where, overrides or (), step=step, why=why)
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
    kept = "Copied files are kept: rerun the same command to continue."
    watch = _watch(kept, quiet=as_json)
    record = copy_checkpoint(where, to, overrides or (), step=step, watch=watch)
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
    "try",
    epilog=examples(
        "seatrial checkpoints try weights 'Once upon a time'",
        "seatrial checkpoints try weights 'Return a' --tokens 20 --temperature 0",
    ),
)(try_weights)
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
