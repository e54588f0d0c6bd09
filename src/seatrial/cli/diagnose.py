# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial diagnose`: why a run stopped, hangs or is slow."""

from dataclasses import asdict
from typing import Annotated

import typer

from seatrial.cli.options import Context, Json, Kubeconfig, Namespace, examples
from seatrial.monitoring.diagnosis.diagnosis import Diagnosis, FoundCause, Proof
from seatrial.monitoring.diagnosis.knowledge import UNKNOWN
from seatrial.reports.terminal import columns, counted, say, say_error, say_json, say_text
from seatrial.sdk.history import HistoryPlace, diagnose

app = typer.Typer(rich_markup_mode=None, add_completion=False)

MOST_CAUSES = 3
"""The number of causes to show."""
_WIDTH = 100
_SHOWN_RANKS = 4
_UNEXPLAINED = "No known cause matches the last messages."
_SILENT = "No failure found."
_UNKNOWN_DO = (
    "Check the kernel logs of the nodes and the pods (seatrial status). If ranks hang, restart "
    "with TORCH_FR_BUFFER_SIZE=20000, TORCH_NCCL_DUMP_ON_TIMEOUT=1 and NCCL_DEBUG=INFO, and pass "
    "the directory with the dumps to this command."
)


@app.command(epilog=examples("seatrial diagnose my-run", "seatrial diagnose logs/"))
def command(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN|FILE|DIRECTORY|-",
            help="A run's name or spec, a log, a directory of logs, or - for standard input.",
        ),
    ],
    attempt: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="The attempt. Default: the newest.")
    ] = None,
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    as_json: Json = False,
) -> None:
    """Find out why a run stopped, hangs or is slow, with the log lines that prove it.

    Reads logs, events, exit codes, pod status and dumps of PyTorch's flight recorder. Separates
    causes from their consequences, and reports a failure without a known cause as unknown.
    """
    place = HistoryPlace(namespace, kubeconfig, context, tell=say_error)
    found = diagnose(run, attempt=attempt, place=place)
    if as_json:
        say_json({"run": found.run, "attempt": found.attempt, **asdict(found.diagnosis)})
        return
    _say(found.diagnosis)


def _say(found: Diagnosis) -> None:
    """Print a diagnosis: causes first, then consequences."""
    for number, cause in enumerate(found.causes[:MOST_CAUSES], 1):
        _say_cause(number, cause)
    trouble = found.consequences or found.last_words
    if not found.causes:
        say(f"{UNKNOWN}  {_UNEXPLAINED if trouble else _SILENT}")
        for proof in found.last_words:
            _say_proof(proof)
    for one in found.consequences:
        ranks = f" ({_ranks(one.ranks)})" if one.ranks else ""
        lines = f", {counted(one.lines, 'line')}" if one.lines > 1 else ""
        say_text(
            f"consequence: {one.says}{ranks}: {one.first.file}:{one.first.line}{lines}",
            "   ",
            "   ",
        )
    for one in found.got_over:
        say_text(f"earlier, recovered: {one.says}: {one.first.file}:{one.first.line}", "   ", "   ")
    if not found.causes and trouble:
        say_text(_UNKNOWN_DO, "   Do: ", "   ")


def _say_cause(number: int, cause: FoundCause) -> None:
    head = f"{number}  {cause.says}"
    if len(cause.ranks) > 1:
        head += f" ({_ranks(cause.ranks)})"
    if cause.step is not None:
        head += f", after step {cause.step:,}"
    width = min(columns() or _WIDTH, _WIDTH)
    gap = width - len(head) - len(cause.certainty)
    if gap > 0:
        say(f"{head}{' ' * gap}{cause.certainty}")
    else:
        say_text(head, "", "   ")
        say(f"{cause.certainty:>{width}}")
    for proof in cause.proofs:
        _say_proof(proof)
    if cause.lines > len(cause.proofs):
        say(f"   and {counted(cause.lines - len(cause.proofs), 'more line', 'more lines')}")
    if cause.planned:
        say_text(cause.planned, "   ", "   ")
    say_text(cause.do, "   Do: ", "   ")


def _say_proof(proof: Proof) -> None:
    """Print a log line with its file and line number, cut to the terminal width."""
    place = f"{proof.file}:{proof.line}" if proof.line else proof.file
    width = columns() or 2 * _WIDTH
    text = f"   {place}  {' '.join(proof.text.split())}"
    say(text if len(text) <= width else f"{text[: width - 1]}…")


def _ranks(ranks: tuple[int, ...]) -> str:
    """Format ranks: `ranks 3, 5 and 7`, or their number."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if len(ranks) > _SHOWN_RANKS:
        return f"{len(ranks)} ranks, the first {ranks[0]}"
    return f"ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"
