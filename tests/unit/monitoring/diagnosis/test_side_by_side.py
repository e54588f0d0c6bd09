# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What no single line tells: collectives, dumps and versions of several ranks side by side."""

import json
import pickle
from typing import Any

from seatrial.monitoring.diagnosis.diagnosis import diagnose
from seatrial.monitoring.diagnosis.evidence import Evidence, EvidenceKind, text_file
from seatrial.monitoring.diagnosis.flight_recorder import read_dump
from seatrial.monitoring.diagnosis.knowledge import UNKNOWN, Certainty

GAVE_UP = (
    "[rank{rank}]:[E ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective operation "
    "timeout: WorkNCCL(SeqNum={number}, OpType={kind}, NumelIn={size}, NumelOut={size}, "
    "Timeout(ms)=600000) ran for 600042 milliseconds before timing out.\n"
    "[rank{rank}]:[E ProcessGroupNCCL.cpp:1785] [PG ID {group} PG GUID {group} Rank {rank}] "
    "failure detected by watchdog at work sequence id: {number}"
)


def gave_up(rank: int, number: int, kind: str, size: int, group: int = 0) -> str:
    """What the watchdog of a rank prints."""
    return GAVE_UP.format(rank=rank, number=number, kind=kind, size=size, group=group)


def first_of(*lines: str) -> str:
    """The first cause of a log."""
    return diagnose(Evidence((text_file("run.log", "\n".join(lines)),))).first


def test_one_number_and_two_sizes_are_a_mismatch() -> None:
    """No network makes two ranks of one group reduce different sizes."""
    log = text_file(
        "run.log", f"{gave_up(0, 7, 'ALLREDUCE', 64)}\n{gave_up(1, 7, 'ALLREDUCE', 128)}"
    )
    (cause,) = diagnose(Evidence((log,))).causes
    assert (cause.key, cause.certainty) == ("collective-mismatch", Certainty.CERTAIN)
    assert "rank 0: allreduce of 64; rank 1: allreduce of 128" in cause.says


def test_groups_of_their_own_are_not_compared() -> None:
    """Tensor and data parallel groups count for themselves."""
    lines = gave_up(0, 7, "ALLREDUCE", 64, 1), gave_up(1, 7, "ALLREDUCE", 128, 2)
    assert first_of(*lines) == UNKNOWN


def test_the_same_collective_on_all_ranks_tells_nothing() -> None:
    """All wait for one that says nothing: the cause is not in the log."""
    assert first_of(*(gave_up(n, 7, "ALLREDUCE", 1) for n in range(4))) == UNKNOWN


def test_nobody_leaves_an_all_reduce_alone() -> None:
    """A rank that is past what another waits in was in another collective before."""
    lines = gave_up(0, 1516, "ALLREDUCE", 64), gave_up(1, 1517, "ALLREDUCE", 1)
    assert first_of(*lines) == "collective-mismatch"
    root = gave_up(0, 1519, "ALLREDUCE", 64), gave_up(1, 1517, "BROADCAST", 1)
    assert first_of(*root) == UNKNOWN


def test_a_rank_that_prepares_outlasts_the_others() -> None:
    """Before the first step, with a bar that is not at its end."""
    waits = gave_up(3, 3, "ALLREDUCE", 1)
    busy = "[default0]:Tokenizing:  8%|▊         | 726000/9672101 [02:32<30:38, 4866 examples/s]"
    assert first_of(busy, waits) == "startup-outlasts-timeout"
    done = busy.replace("  8%", "100%")
    assert first_of(busy, done, waits) == UNKNOWN
    step = " [2026-11-15 05:29:57] iteration        1/    5000 | lm loss: 6.5E+00 |"
    assert first_of(busy, step, waits) == UNKNOWN


STEP = " iteration      491/  238419 | consumed samples:       251392 | lm loss: 4.38E+00 |"
SAVING = "saving checkpoint at iteration     491 to /data/run/checkpoints in torch_dist format"
SAVED = "  successfully saved checkpoint from iteration     491 to /data/run/checkpoints"


def test_ranks_that_wait_for_a_save_are_told_from_a_hang() -> None:
    timed_out = gave_up(12, 44012, "ALLREDUCE", 1)
    assert first_of(STEP, SAVING, timed_out) == "save-outlasts-timeout"
    assert first_of(STEP, SAVING, SAVED, timed_out) == UNKNOWN
    assert first_of(STEP, SAVING, STEP.replace("491/", "492/"), timed_out) == UNKNOWN
    # What made the save slow explains it.
    full = "OSError: [Errno 28] No space left on device"
    assert first_of(STEP, SAVING, full, timed_out) == "disk-full"


def test_the_last_of_many_saves_counts() -> None:
    """A long run saves more often than lines of one kind are kept."""
    lines = [line for _ in range(200) for line in (SAVING, SAVED)]
    timed_out = gave_up(12, 44012, "ALLREDUCE", 1)
    assert first_of(STEP, *lines, SAVING, timed_out) == "save-outlasts-timeout"
    assert first_of(STEP, *lines, timed_out) == UNKNOWN


def test_versions_of_nccl_that_differ() -> None:
    """From package lists, and from what is printed at the start."""
    lists = "# node 1\nnvidia-nccl-cu12==2.20.5\n# node 2\nnvidia-nccl-cu12==2.19.3\n"
    packages = text_file("packages.txt", lists, EvidenceKind.PACKAGES)
    assert diagnose(Evidence((packages,))).first == "nccl-version-mismatch"
    logs = [text_file(f"{v}.log", f"NCCL version {v}+cuda12.3") for v in ("2.20.5", "2.19.3")]
    assert diagnose(Evidence(tuple(logs))).first == "nccl-version-mismatch"
    assert diagnose(Evidence((logs[0], logs[0]))).first == UNKNOWN


def entry(number: int, name: str = "nccl:all_reduce", size: int = 4) -> dict[str, Any]:
    """An entry of a dump."""
    return {
        "process_group": ["0", "default_pg"],
        "collective_seq_id": number,
        "profiling_name": name,
        "input_sizes": [[size]],
    }


def dump(rank: int, *entries: dict[str, Any]) -> tuple[str, bytes]:
    """A dump as torch pickles it."""
    return f"nccl_trace_rank_{rank}", pickle.dumps({"version": "2.4", "entries": list(entries)})


def test_a_rank_behind_the_others_is_named() -> None:
    """From dumps of the flight recorder."""
    dumps = [dump(rank, entry(1), entry(2)) for rank in (0, 1, 2)]
    found = diagnose(Evidence((), dumps=(*dumps, dump(3, entry(1)))))
    (cause,) = found.causes
    assert (cause.key, cause.ranks) == ("rank-hung", (3,))


def test_ranks_in_different_collectives() -> None:
    """From dumps of the flight recorder, as JSON and pickled."""
    other = json.dumps({"entries": [entry(1), entry(2, "nccl:broadcast")]}).encode()
    dumps = (dump(0, entry(1), entry(2)), ("nccl_trace_rank_1.json", other))
    assert diagnose(Evidence((), dumps=dumps)).first == "collective-mismatch"


def test_a_dump_that_is_none_is_left_out() -> None:
    """A pickle that would run something is refused, and half a file is none."""
    assert read_dump("nccl_trace_rank_0", pickle.dumps(print)) is None
    assert read_dump("nccl_trace_rank_0", dump(0, entry(1))[1][:20]) is None
    assert read_dump("nccl_trace_rank_0", b"{}") is None
    endless: list[object] = []
    for _ in range(200):
        endless = [endless, endless]
    crafted = {"entries": [{"collective_seq_id": 1, "input_sizes": endless}]}
    assert read_dump("nccl_trace_rank_0", pickle.dumps(crafted, protocol=2)) is None
    crafted = {"entries": [], "rank": []}
    assert read_dump("nccl_trace_rank_0", pickle.dumps(crafted)) is None
