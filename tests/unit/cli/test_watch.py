# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial watch`: panels of every size, the view itself, and lines off a terminal."""

import asyncio
import json
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from rich.text import Text
from typer.testing import CliRunner

from seatrial.cli.watch import app
from seatrial.codes.anomalies import AnomalyCode
from seatrial.errors import UsageError
from seatrial.monitoring.event_log import Event, EventKind, EventLog
from seatrial.monitoring.series import Point
from seatrial.monitoring.view import RunView
from seatrial.reports.live import panels
from seatrial.reports.live.app import Panel, WatchApp
from seatrial.reports.live.braille import plot
from seatrial.reports.live.lines import say_lines
from seatrial.reports.live.reading import LiveReading
from seatrial.runs.history.files import file_history
from seatrial.runs.history.history import AttemptHistory, Quiet, RunHistory, Told
from seatrial.runs.ledger.ledger import AttemptOutcome
from tests.unit.monitoring.made_up_run import NOON, seen, spike, started, steps, whole_run

ENGINE_LOG = Path(__file__).parents[2] / "data" / "logs" / "megatron-0.19.log"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    file = tmp_path / "made-up.events.jsonl"
    written = EventLog(file)
    for event in whole_run():
        written.append(event)
    written.close()
    return file


def lines(text: Text) -> list[str]:
    return text.plain.rstrip("\n").split("\n")


@pytest.mark.parametrize("size", [(10, 2), (38, 3), (78, 8), (196, 40)])
@pytest.mark.parametrize("draw", [panels.loss_curve, panels.rate_curve, panels.norm_curve])
def test_a_curve_keeps_to_its_size(size: tuple[int, int], draw: object) -> None:
    width, height = size
    text = draw(seen(whole_run()), width, height)  # type: ignore[operator]
    assert len(lines(text)) == height
    assert all(len(line) <= max(width, 12) for line in lines(text))


def test_a_curve_goes_down_when_the_loss_does() -> None:
    points = [Point(step, 10.0 - step, 10.0 - step, 10.0 - step, 1) for step in range(10)]
    rows = lines(plot(points, 18, 4, str, "white", "white"))
    dots = [[place for place, c in enumerate(row[8:]) if c > "\u2800"] for row in rows[:-1]]
    assert min(dots[0]) < min(dots[1]) < min(dots[2])
    assert max(dots[0]) < max(dots[1]) < max(dots[2])


def test_a_flat_curve_and_one_point_are_drawn() -> None:
    for points in ([Point(1, 2.0, 2.0, 2.0, 1)], [Point(s, 2.0, 2.0, 2.0, 1) for s in range(9)]):
        rows = lines(plot(points, 30, 5, str, "white", "white"))
        assert any(c > "\u2800" for row in rows for c in row if c <= "\u28ff")


def test_what_is_no_number_is_marked() -> None:
    view = seen([started(0, NOON), *steps(1, 10, NOON), spike(11, NOON + 22)])
    assert "▲" in panels.loss_curve(view, 40, 6).plain
    assert "▲" not in panels.loss_curve(seen(whole_run()), 40, 6).plain


def test_the_slow_rank_stands_out_among_sixteen_thousand() -> None:
    run = [started(0, NOON, 16_384), *steps(1, 10, NOON, ranks=16_384, slow=9_000)]
    text = panels.ranks(seen(run), 36, 3)
    assert len(lines(text)) <= 3
    assert "rank 9,000 is slowest, 50 % behind" in text.plain
    assert "256 ranks per cell" in text.plain
    red = [part for part in text.spans if "#cc3d4b" in str(part.style)]
    assert len(red) == 2


def test_the_bar_is_full_and_its_words_are_the_account() -> None:
    view = seen(whole_run())
    text = panels.goodput(view, 40, 12)
    assert lines(text)[0] == " " * 40
    assert "training" in text.plain
    spent = view.goodput()
    assert f"{100 * spent.share:.0f} %" in panels.goodput_title(view)


def test_the_heading_tells_what_matters_in_eighty_columns() -> None:
    view = seen([started(0, NOON), *steps(1, 20, NOON)])
    about = panels.Heading("slim-7b", "here", 2, live=True)
    first, second = lines(panels.heading(view, about, 78, NOON + 41))
    assert len(first) <= 78
    assert len(second) <= 78
    assert "slim-7b  attempt 2  step 20 of 40" in first
    assert first.endswith("50 %  running")
    assert "loss 0.5" in second
    assert "tokens/s 512" in second
    assert "done in 40.0 s (40.0 to 60.0)" in second
    assert "no events for 60 s" in panels.heading(view, about, 78, NOON + 100).plain


@pytest.mark.parametrize("size", [(80, 24), (200, 50)])
def test_the_view_fills_a_terminal(log: Path, size: tuple[int, int]) -> None:
    reading = LiveReading(file_history(log), follow=False)
    reading.run()

    async def drawn() -> tuple[str, dict[str, tuple[int, int]], bool]:
        shown = WatchApp(reading, in_background=False)
        async with shown.run_test(size=size) as pilot:
            await pilot.pause()
            shown.redraw()
            await pilot.pause()
            sizes = {str(p.id): (p.size.width, p.size.height) for p in shown.query(Panel)}
            return shown.export_screenshot(), sizes, shown.query_one("#norm").display

    picture, sizes, third = asyncio.run(drawn())
    assert third is (size[0] >= 120)
    for words in ("made-up", "goodput", "last&#160;events", "ranks", "ST-X-001"):
        assert words in picture, words
    assert sizes["loss"][1] >= 6
    assert sizes["ranks"][1] >= 3
    assert sizes["events"][1] >= 3


def test_the_view_is_drawn_while_a_run_is_read_and_ends_on_q(log: Path) -> None:
    reading = LiveReading(file_history(log), follow=True)

    async def watched() -> int:
        shown = WatchApp(reading)
        async with shown.run_test(size=(80, 24)) as pilot:
            for _ in range(200):
                await pilot.pause(0.02)
                if reading.caught_up:
                    break
            await pilot.press("space")
            await pilot.press("q")
        return reading.view.highest

    assert asyncio.run(watched()) == 40


def test_off_a_terminal_it_is_said_in_lines(log: Path) -> None:
    said = CliRunner().invoke(app, [str(log), "--once"]).output
    assert "made-up  attempt 1" in said
    assert "checkpoint at step 10 saved in 4.00 s" in said
    assert "training started after step 10 on 16 ranks" in said
    assert "ST-X-001" in said
    assert "step 40 of 40 · loss 0.25 · 2.00 s per step · 512 tokens/s · goodput" in said
    assert "time " in said
    assert "done in" not in said


@pytest.mark.parametrize(
    ("outcome", "code"), [(AttemptOutcome.FAILED, 1), (AttemptOutcome.STOPPED, 0), (None, 0)]
)
def test_a_run_that_has_failed_ends_it_with_an_exit_code(
    log: Path, monkeypatch: pytest.MonkeyPatch, outcome: AttemptOutcome | None, code: int
) -> None:
    found = file_history(log)
    attempts = tuple(replace(each, outcome=outcome) for each in found.attempts)
    monkeypatch.setattr(
        "seatrial.cli.watch.history", lambda *_: replace(found, look=lambda: attempts)
    )
    for options in (["--once"], ["--once", "--json"]):
        assert CliRunner().invoke(app, [str(log), *options]).exit_code == code


def test_a_log_that_is_over_is_said_once(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = time.time() - 1000
    os.utime(log, (old, old))
    say_lines(file_history(log), follow=True)
    said = capsys.readouterr().out
    assert said.count("step 40 of 40 · loss") == 1
    assert said.count("time  ") == 1


def test_a_foreign_log_that_stalls_is_told_as_stalled(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the clock of whoever watches: the log's own may be of another zone."""
    clock = [0.0]
    told: list[Told] = [*steps(1, 10, NOON), Quiet(), Quiet(), Quiet(), Quiet()]

    def story(_: RunHistory, **__: bool) -> Iterator[Told]:
        for one in told:
            clock[0] += 100.0 if isinstance(one, Quiet) else 0.0
            yield one

    monkeypatch.setattr(RunHistory, "story", story)
    say_lines(RunHistory("r", "here", lambda: ()), follow=True, now=lambda: clock[0])
    said = capsys.readouterr().out
    assert said.count(f"{AnomalyCode.STALLED}  step 10: No progress for 200 s") == 1
    assert "no events for" in said


def test_whatever_ends_the_reading_is_told() -> None:
    def broken() -> tuple[AttemptHistory, ...]:
        raise ValueError("no such thing")

    reading = LiveReading(RunHistory("r", "here", broken), follow=True)
    reading.run()
    assert reading.done
    assert "ValueError: no such thing" in reading.trouble


def test_what_an_engine_printed_is_said_too() -> None:
    said = CliRunner().invoke(app, [str(ENGINE_LOG), "--once"]).output
    assert "loss" in said
    assert "per step" in said


def test_every_event_is_given_as_json(log: Path) -> None:
    said = CliRunner().invoke(app, [str(log), "--once", "--json"]).output
    told = [json.loads(line) for line in said.splitlines()]
    assert [event["kind"] for event in told].count("step") == 48
    assert said.encode() == log.read_bytes()


def test_a_file_without_a_run_says_what_is_read(tmp_path: Path) -> None:
    file = tmp_path / "words.log"
    file.write_text("nothing of a run\n")
    history = file_history(file)
    result = CliRunner().invoke(app, [str(file), "--once"])
    assert history.name == "words"
    assert isinstance(result.exception, UsageError) or "no events yet" in result.output


def test_what_a_log_says_does_not_control_the_terminal() -> None:
    values = {"code": 1, "error": "\x1b]0;title\x07\x1b[2Jlost\x08 \x9b31mhere"}
    view = seen([started(0, NOON), Event(EventKind.EXIT, 0, NOON + 1, values)])
    shown = panels.events(view, 78, 4).plain
    assert "failed at step 0: lost here" in shown
    about = panels.Heading("\x1b[31mr", "here", 1, live=True)
    assert panels.heading(view, about, 78, NOON).plain.startswith("r  attempt 1")


def test_nothing_at_all_is_drawn_too() -> None:
    view = RunView()
    about = panels.Heading("r", "here", 1, live=True, reading=True)
    assert "reading" in panels.heading(view, about, 80, 0.0).plain
    for draw in (panels.loss_curve, panels.ranks, panels.goodput, panels.events):
        assert draw(view, 40, 5).plain
