# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Root causes and consequences: what explains what, and what comes first."""

import random

from seatrial.monitoring.diagnosis.diagnosis import Diagnosis, diagnose
from seatrial.monitoring.diagnosis.evidence import Evidence, EvidenceKind, PlannedValues, text_file
from seatrial.monitoring.diagnosis.excerpt import MOST_ALIKE, WHOLE_LINES, read_excerpt
from seatrial.monitoring.diagnosis.knowledge import UNKNOWN, Certainty

OUT_OF_MEMORY = (
    "[rank11]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a "
    "total capacity of 39.39 GiB of which 0.51 GiB is free. Of the allocated memory 32.40 GiB is "
    "allocated by PyTorch, and 6.40 GiB is reserved by PyTorch but unallocated."
)
TIMEOUT = (
    "[rank{0}]:[E ProcessGroupNCCL.cpp:563] [Rank {0}] Watchdog caught collective operation "
    "timeout: WorkNCCL(SeqNum=900, OpType=ALLREDUCE, NumelIn=512, NumelOut=512, "
    "Timeout(ms)=600000) ran for 600037 milliseconds before timing out."
)
STEP = " [2026-11-15 05:29:57] iteration {0:8}/    5000 | lm loss: 6.5E+00 | grad norm: 1.3 |"


def of(*lines: str, planned: PlannedValues | None = None) -> Diagnosis:
    """What lines of one log tell."""
    return diagnose(Evidence((text_file("run.log", "\n".join(lines)),), planned))


def test_time_limits_of_other_ranks_are_consequences() -> None:
    """The rank that died first is the cause; those that waited for it are not."""
    found = of(*(STEP.format(n) for n in range(800, 812)), OUT_OF_MEMORY, TIMEOUT.format(3))
    (cause,) = found.causes
    assert (cause.key, cause.certainty) == ("gpu-out-of-memory", Certainty.CERTAIN)
    assert cause.ranks == (11,)
    assert cause.step == 811
    assert cause.says == "Rank 11 requested 2.00 GiB of GPU memory; only 0.51 GiB was free"
    assert [one.ranks for one in found.consequences] == [(3,)]


def test_the_plan_stands_beside_the_memory() -> None:
    """Planned, allocated, and what lies unused between."""
    planned = PlannedValues(memory_bytes=28.2 * 2**30, memory_error=0.05)
    (cause,) = of(OUT_OF_MEMORY, planned=planned).causes
    assert "The plan estimated 28.2 GiB ± 1.4; 32.4 GiB was allocated" in cause.planned
    assert "6.4 GiB reserved but unused: fragmentation" in cause.planned


def test_another_learning_rate_is_not_taken_for_another_layout() -> None:
    """As Megatron-LM dies on a checkpoint with other learning rates, and what it prints before."""
    said = (
        "[default0]:  vocab_file ...................................... None",
        "[default0]:Unable to load optimizer from checkpoint /volume/a/checkpoints/iter_0000026"
        ". Specify --no-load-optim or --finetune to prevent attempting to load the optimizer state",
        '[default0]:[rank0]:   File "/venv/megatron/core/optimizer/distrib_optimizer.py", line 970,'
        " in load_state_dict",
        "[default0]:[rank0]: KeyError: (None, 0.001, 0.0001, None, None, 1.0, 1.0, False, False)",
    )
    (cause,) = of(*said).causes
    assert cause.key == "checkpoint-schedule-mismatch"
    assert "reset_schedule" in cause.do
    # The same words of a layout that does not fit are still told of as that.
    assert of(*said[:2]).first == "checkpoint-layout-mismatch"


def test_dots_of_a_sentence_are_no_printed_argument() -> None:
    said = "Loading ... torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    assert of(said).first == of(said.removeprefix("Loading ... ")).first != ""


def test_another_schedule_is_told_with_both_values() -> None:
    """The engine names what differs; the diagnosis says which is whose."""
    (cause,) = of(
        "[default1]:[rank1]: AssertionError: OptimizerParamScheduler: class input value 32 and "
        "checkpointvalue 16 for warmup iterations do not match"
    ).causes
    assert (cause.key, cause.certainty) == ("checkpoint-schedule-mismatch", Certainty.CERTAIN)
    assert cause.says == ("The checkpoint was saved with warmup iterations 16, but the run has 32")


def test_what_a_run_got_over_is_no_cause() -> None:
    """An error before many further steps did not end the run."""
    found = of(OUT_OF_MEMORY, *(STEP.format(n) for n in range(5)), "W: Received 15 death signal")
    assert found.first == "terminated"
    assert len(found.got_over) == 1


def test_a_kill_for_memory_explains_a_kill() -> None:
    """SIGKILL by itself has no reason; the kernel's log gives it one."""
    killed = "api.py:1002] failed (exitcode: -9) local_rank: 1 (pid: 29439) of binary: python"
    assert of(killed).first == "rank-killed"
    kernel = text_file(
        "dmesg.txt", "Memory cgroup out of memory: Killed process 29439 (python) total-vm:1kB"
    )
    found = diagnose(Evidence((text_file("run.log", killed), kernel)))
    assert [cause.key for cause in found.causes] == ["host-out-of-memory"]


def test_whom_the_launcher_killed_did_not_die_by_itself() -> None:
    """A process that would not end is killed by torchrun, which is no kill from outside."""
    lines = (
        "Unable to shutdown process 77 via 15, forcefully exiting via 9",
        "Root Cause (first observed failure):",
        "  rank      : 1 (local_rank: 1)",
        "  exitcode  : -9 (pid: 77)  (SIGKILL)",
    )
    assert of(*lines).first == UNKNOWN


def test_what_is_possible_gives_way_to_what_is_known() -> None:
    """A guess is not shown beside a fact."""
    found = of("Fatal Python error: Bus error", "OSError: [Errno 24] Too many open files")
    assert [cause.key for cause in found.causes] == ["open-files-limit"]


def test_what_ends_a_run_comes_before_what_slows_it() -> None:
    """A network that is slow from the start is not why a run ended."""
    fallback = "NCCL WARN NET/OFI aws-ofi-nccl initialization failed"
    assert [cause.key for cause in of(fallback, OUT_OF_MEMORY).causes] == [
        "gpu-out-of-memory",
        "fabric-fallback-to-tcp",
    ]


def test_sockets_are_a_cause_where_a_fabric_was_planned() -> None:
    """Without a plan nobody knows that sockets are wrong."""
    line = "node:1:1 [0] NCCL INFO Using network Socket; NET/IB : No device found"
    assert of(line).first == UNKNOWN
    assert of(line, planned=PlannedValues(fabric="efa")).first == "fabric-fallback-to-tcp"


def test_the_unknown_says_what_was_said() -> None:
    """Where nothing is known the traceback's last line is all there is."""
    found = of(
        "Traceback (most recent call last):",
        '  File "train.py", line 3, in <module>',
        "[rank2]: my.package.StrangeError: the moon is wrong",
        TIMEOUT.format(1),
    )
    assert found.first == UNKNOWN
    assert [proof.line for proof in found.last_words] == [3]


def test_a_warning_is_less_than_certain() -> None:
    """What is only warned of did not end the run by itself."""
    (cause,) = of("WARNING: PermissionError: [Errno 13] Permission denied: '/cache'").causes
    assert cause.certainty is Certainty.LIKELY


def test_a_long_log_is_kept_in_part() -> None:
    """Beyond the first lines only trouble is kept, and not the same over and over."""
    plain = ["all is well"] * (WHOLE_LINES + 10)
    file = text_file("run.log", "\n".join([*plain, *[TIMEOUT.format(1)] * 500, OUT_OF_MEMORY]))
    excerpt = read_excerpt(file)
    assert len(excerpt.lines) == 2 * MOST_ALIKE + 1
    assert excerpt.lines[-1].number == WHOLE_LINES + 511


def test_cut_and_mixed_lines_never_raise() -> None:
    """Logs of several ranks are mixed in any way; 10,000 lines cut and joined at random."""
    chance = random.Random(8)  # noqa: S311
    pieces = [
        OUT_OF_MEMORY,
        TIMEOUT.format(2),
        STEP.format(7),
        "exitcode  : -9 (pid: x)",
        "\0\x1b[",
    ]
    pieces += ["NVRM: Xid (PCI:0000:00:08): 94", "Root Cause (first observed failure)", "rank : 9"]
    lines = []
    for _ in range(10_000):
        one, other = chance.choice(pieces), chance.choice(pieces)
        lines.append(one[: chance.randrange(len(one) + 1)] + other[chance.randrange(len(other)) :])
    found = diagnose(Evidence((text_file("run.log", "\n".join(lines), EvidenceKind.LOG),)))
    assert found.causes


def first_of(*files: tuple[str, str]) -> list[str]:
    """The causes that files tell, in order."""
    found = diagnose(Evidence(tuple(text_file(name, text) for name, text in files)))
    return [cause.key for cause in found.causes]


def test_of_equally_certain_causes_the_earlier_is_first() -> None:
    """Whatever the names of the files are; where a line has no time, as the files stand."""
    full = "[rank0]: OSError: [Errno 28] No space left on device"
    files = "[rank1]: OSError: [Errno 24] Too many open files"
    early, late = "2026-11-15T05:29:57Z ", "2026-11-15T05:31:00Z "
    by_name = ["disk-full", "open-files-limit"]
    assert first_of(("a.log", early + full), ("b.log", late + files)) == by_name
    assert first_of(("a.log", late + full), ("b.log", early + files)) == by_name[::-1]
    assert first_of(("a.log", late + full), ("b.log", files)) == by_name
