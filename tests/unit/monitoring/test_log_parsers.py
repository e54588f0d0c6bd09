# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Every line of the fixtures is read exactly, under every wrapping; a broken line never raises."""

import io
import json
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.engines.megatron.log_format import MegatronLog
from seatrial.monitoring.event_log import Event, EventKind, EventLog
from seatrial.monitoring.logs.reading import (
    LONGEST_LINE,
    LogReader,
    read_log,
    read_stream,
    whole_lines,
)

LOGS = Path(__file__).parents[2] / "data" / "logs"
NAMES = sorted(path.stem for path in LOGS.glob("*.log"))
MUTATIONS = 10_000

WRAPPINGS = {
    "none": "",
    "kubectl timestamps": "2026-11-15T03:10:11.123456789Z ",
    "container runtime": "2026-11-15T03:10:11.123456789Z stdout F ",
    "kubectl prefix": "[pod/slim-7b-worker-0/pytorch] ",
    "both": "[pod/slim-7b-worker-0/pytorch] 2026-11-15T03:10:11.123456789Z ",
    "torchrun": "[default7]:",
    "torch": "[rank15]: ",
    "colours": "\x1b[32m[pod/slim-7b-worker-0/pytorch]\x1b[0m [default3]:",
}


def lines_of(name: str) -> list[bytes]:
    return (LOGS / f"{name}.log").read_bytes().splitlines()


def expected(name: str) -> list[dict[str, Any]]:
    return list(json.loads((LOGS / f"{name}.events.json").read_text()))


def plain(event: Event) -> dict[str, Any]:
    """An event as the fixtures write it, but for its time."""
    values = {k: "nan" if v != v else v for k, v in event.values.items()}
    values.pop("ranks", None)
    values.pop("said", None)
    return {"kind": str(event.kind), "step": event.step, **values}


@pytest.mark.parametrize("name", NAMES)
def test_every_line_is_read_exactly(name: str) -> None:
    events = list(read_log(lines_of(name)))
    wanted = expected(name)
    for event, want in zip(events, wanted, strict=True):
        when = want.pop("time", None)
        assert plain(event) == want
        if when is not None:
            told = datetime.fromisoformat(when).replace(tzinfo=UTC)
            assert event.time == pytest.approx(told.timestamp(), abs=1e-6)


@pytest.mark.parametrize("wrapping", WRAPPINGS.values(), ids=WRAPPINGS)
@pytest.mark.parametrize("name", [name for name in NAMES if "label" not in name])
def test_a_wrapping_changes_nothing_but_the_time(name: str, wrapping: str) -> None:
    wrapped = [wrapping.encode() + line for line in lines_of(name)]
    wanted = [{k: v for k, v in want.items() if k != "time"} for want in expected(name)]
    events = list(read_log(wrapped))
    # Saves that the wrapping dates take the wrapping's time, which stands still here.
    got = [plain(event) for event in events]
    for event, want in zip(got, wanted, strict=True):
        if event["kind"] == EventKind.SAVE and "Z " in wrapping:
            event["seconds"] = want["seconds"]
        if event["kind"] == EventKind.STEP and want["seconds"] is None:
            event["seconds"] = None
        assert event == want
    if "Z " in wrapping:
        moment = datetime(2026, 11, 15, 3, 10, 11, 123456, tzinfo=UTC).timestamp()
        assert {event.time for event in events} == {moment}


def test_at_least_six_versions_of_megatron_and_composer_are_there() -> None:
    versions = {name.removeprefix("megatron-") for name in NAMES if name.startswith("megatron-0")}
    assert len(versions) >= 6
    assert any(name.startswith("composer") for name in NAMES)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "iteration",
        " iteration 12 of the search",
        "[exiting program at iteration",
        "elapsed time per iteration (ms): 12.0 |",
        " iteration        5/     100 | consumed samples: 5 |",
        " iteration        5/     100 | elapsed time per iteration (ms): 12.0",
        " iteration        5/     100 | elapsed time per iteration (ms): fast |",
        " iteration   5/  100 | elapsed time per iteration (ms): 1.0 | lm loss: 1.[rank3]: |",
        "FLAGS: (min, max) time across the iteration",
        "Overwriting rerun_state_machine.current_iteration from -1 to 0...",
        '{"kind":"step"',
        "[batch=1/2]",
    ],
)
def test_a_line_that_is_no_step_gives_nothing(line: str) -> None:
    assert list(read_log([line.encode()])) == []


def test_a_cut_line_does_not_give_half_a_number() -> None:
    (line,) = lines_of("megatron-0.15")
    whole = expected("megatron-0.15")[0]
    for length in range(len(line)):
        for event in MegatronLog().feed(line[:length]):
            got = {k: v for k, v in plain(event).items() if k in whole and v not in (None, 0)}
            got.pop("other", None)
            assert got.items() <= whole.items()


def mutated(source: random.Random, line: bytes, other: bytes) -> bytes:
    """A line with a byte changed, cut, doubled, or run into another."""
    place = source.randrange(len(line) + 1)
    return source.choice(
        [
            line[:place] + bytes([source.randrange(256)]) + line[place + 1 :],
            line[:place],
            line[place:],
            line[:place] + other + line[place:],
            line[:place] + line[place:] * source.randrange(5),
            line[:place] + source.randbytes(8) + line[place:],
            line.replace(b" ", b"", source.randrange(5)),
            line.replace(b"0", b"9" * source.choice([20, 400, 5000]), 2),
        ]
    )


def test_ten_thousand_mutated_lines_never_raise() -> None:
    source = random.Random(20261115)  # noqa: S311  (a seed, to repeat it)
    lines = [line for name in NAMES for line in lines_of(name)]
    reader, megatron = LogReader(), MegatronLog()
    for _ in range(MUTATIONS):
        line = mutated(source, source.choice(lines), source.choice(lines))
        LogReader().feed(line)
        for event in (*reader.feed(line), *megatron.feed(line)):
            assert isinstance(event.step, int)
            assert isinstance(event.time, float)
    reader.close()


@given(st.binary(max_size=400))
def test_no_bytes_raise(line: bytes) -> None:
    assert all(isinstance(event, Event) for event in read_log(line.splitlines()))


def test_timers_of_another_process_do_not_mix() -> None:
    lines = [
        b"[rank1]:(min, max) time across ranks (ms):",
        b"[rank0]:    forward-backward ................................: (1.00, 2.00)",
        b"[rank1]:    optimizer .......................................: (3.00, 4.00)",
        b"[rank1]:done",
    ]
    (event,) = read_log(lines)
    assert event.values == {"timers": {"optimizer": [0.003, 0.004]}}


def test_the_ranks_of_a_timer_are_summed_up() -> None:
    lines = [b"times across ranks (ms):", b"  forward-compute:"]
    lines += [b"     rank %2d: %.2f" % (rank, 100 + rank % 7) for rank in range(64)]
    (event,) = read_log(lines)
    ranks = event.values["ranks"]["forward-compute"]
    assert (ranks["least"], ranks["median"], ranks["most"]) == (0.1, 0.103, 0.106)
    assert [rank for rank, _ in ranks["highest"]] == [6, 13, 20, 27, 34, 41, 48, 55]


def test_a_step_twice_by_two_ranks_of_composer_is_one() -> None:
    lines = [
        rank + line for rank in (b"[rank0]:", b"[rank1]:") for line in lines_of("composer-0.32")
    ]
    assert [event.step for event in read_log(lines)] == [3]


def test_our_own_event_log_is_read_too(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "events.jsonl")
    log.write(EventKind.STEP, 7, loss=float("inf"), parts={"compute": 0.5}, ranks=[[3, 1.5]])
    with (tmp_path / "events.jsonl").open("rb") as stream:
        (event,) = read_stream(stream)
    assert event.values == {"loss": float("inf"), "parts": {"compute": 0.5}, "ranks": [[3, 1.5]]}


class Drops(io.BytesIO):
    """A pipe that gives a few bytes at a time."""

    size = 1000

    def read1(self, size: int | None = -1, /) -> bytes:
        return super().read(self.size)


def test_lines_are_cut_out_of_a_stream_as_they_are() -> None:
    text = b"one\ntwo\r\n" + b"x" * (3 * LONGEST_LINE) + b"\n\nlast"
    assert b"".join(whole_lines(Drops(text))) == b"one\ntwo\r\n\nlast"


@pytest.mark.parametrize("size", [1, 7, 64, 2**20])
@pytest.mark.parametrize("name", NAMES)
def test_a_stream_gives_the_same_as_its_lines(name: str, size: int) -> None:
    noise = b"slim-7b-worker-0:412:1733 [3] NCCL INFO Channel 07/0 : 3[3] -> 2[2] via P2P\n"
    text = (noise + (LOGS / f"{name}.log").read_bytes()) * 3
    stream = Drops(text)
    stream.size = size
    assert [plain(e) for e in read_stream(stream)] == [
        plain(e) for e in read_log(text.splitlines())
    ]


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("megatron")])
def test_a_line_is_read_the_same_by_its_labels_and_by_the_pattern(name: str) -> None:
    for line in lines_of(name):
        first, again = MegatronLog(), MegatronLog()
        again.feed(line)
        again.feed(line)
        by_labels, by_pattern = first.feed(line), again.feed(line)
        for one, other in zip(by_labels, by_pattern, strict=True):
            if one.kind is EventKind.STEP:
                assert plain(one) == plain(other)
