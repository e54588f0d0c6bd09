# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial diagnose`: why a run stopped, hangs or is slow."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from seatrial.catalog.catalog import default_catalog
from seatrial.cli.cluster_options import Context, Kubeconfig, Namespace, connect_to_look
from seatrial.cli.history_options import standard_input
from seatrial.cli.output import columns, counted, say, say_json, say_text
from seatrial.cli.parameters import Json
from seatrial.monitoring.diagnosis.diagnosis import Diagnosis, FoundCause, Proof, diagnose
from seatrial.monitoring.diagnosis.knowledge import UNKNOWN
from seatrial.naming import is_dns_label
from seatrial.runs.diagnose import evidence_of
from seatrial.runs.find_history import Places, find_history
from seatrial.runs.local_ledger import local_runs
from seatrial.runs.observe import Observed, observe
from seatrial.runs.site import Site

app = typer.Typer(rich_markup_mode=None, add_completion=False)

MOST_CAUSES = 3
"""Causes that are shown; more is no answer."""
_WIDTH = 100
_SHOWN_RANKS = 4
_UNEXPLAINED = "No known cause explains what was said at the end."
_SILENT = "Nothing here tells of a failure."
_UNKNOWN_DO = (
    "Look at the kernel's log of the nodes and at the pods (seatrial status). If ranks hang, start "
    "again with TORCH_FR_BUFFER_SIZE=20000, TORCH_NCCL_DUMP_ON_TIMEOUT=1 and NCCL_DEBUG=INFO, "
    "and give the directory of the dumps to this command."
)


@app.command()
def command(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN|FILE|DIRECTORY|-",
            help="The name of a run, its spec, a log, a directory of logs, or standard input.",
        ),
    ],
    attempt: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="This attempt; the newest else.")
    ] = None,
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    as_json: Json = False,
) -> None:
    """Say why a run stopped, hangs or is slow: causes with the lines that prove them.

    Reads logs, events, exit codes, the pods' status and dumps of torch's flight recorder. What
    only followed from a cause is kept apart from it, and what nothing explains is called unknown.
    """
    seen: list[Site] = []

    def site(wanted: str) -> Site:
        seen.append(connect_to_look(namespace or wanted, kubeconfig, context))
        return seen[-1]

    places = Places(
        default_catalog(),
        standard_input(run),
        site,
        only_cluster=bool(namespace or kubeconfig or context),
    )
    history = find_history(run, places)
    observed: Observed | None = None
    if seen and history.place.startswith(f"in {seen[-1].namespace}"):
        observed = observe(seen[-1].api, seen[-1].namespace, history.name)
    path = Path(run)
    named = is_dns_label(run) and run in local_runs(Path())
    directory = path if path.is_dir() and not named else None
    beside = path.parent if path.is_file() else None
    chosen, evidence = evidence_of(
        history, attempt, observed=observed, directory=directory, names_from=beside
    )
    found = diagnose(evidence)
    if as_json:
        say_json({"run": history.name, "attempt": chosen.number, **asdict(found)})
        return
    _say(found)


def _say(found: Diagnosis) -> None:
    """Print a diagnosis: causes first, then what followed."""
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
            f"followed: {one.says}{ranks}: {one.first.file}:{one.first.line}{lines}", "   ", "   "
        )
    for one in found.got_over:
        say_text(
            f"earlier, and got over: {one.says}: {one.first.file}:{one.first.line}", "   ", "   "
        )
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
    """A line with where it stands, cut to the width."""
    place = f"{proof.file}:{proof.line}" if proof.line else proof.file
    width = columns() or 2 * _WIDTH
    text = f"   {place}  {' '.join(proof.text.split())}"
    say(text if len(text) <= width else f"{text[: width - 1]}…")


def _ranks(ranks: tuple[int, ...]) -> str:
    """`ranks 3, 5 and 7`, or how many there are."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if len(ranks) > _SHOWN_RANKS:
        return f"{len(ranks)} ranks, the first {ranks[0]}"
    return f"ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"
