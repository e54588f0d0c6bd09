# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The progress of `seatrial data prepare`, and its message after Ctrl-C."""

import time

import pytest

from seatrial.cli import data_progress
from seatrial.cli.data_progress import kept_lines, progress_line, shown_progress
from seatrial.dataprep.progress import PreparationPhase, Progress, SourceProgress

CONTINUE = "seatrial data prepare run.yaml"


def preparing(*sources: SourceProgress, seconds: float = 10.0) -> Progress:
    began = time.monotonic() - seconds
    return Progress(
        PreparationPhase.PREPARING,
        {source.name: source for source in sources},
        began=began,
        tasks=40,
        tasks_done=12,
    )


def test_a_line_has_what_is_done_the_rate_and_the_time_left() -> None:
    web = SourceProgress("web", total=4_000_000_000, before=1_000_000_000, done=1_000_000_000)
    web.tokens = 500_000_000
    line = progress_line(preparing(web))
    assert "12 of 40 tasks, 1.86 GiB of 3.73 GiB, 100 MB/s, 500 M tokens" in line
    assert line.endswith(", 20 s left")


def test_several_sources_have_one_estimate() -> None:
    web = SourceProgress("web", total=1_000_000_000, done=1_000_000_000)
    code = SourceProgress("code", total=1_000_000_000)
    line = progress_line(preparing(web, code))
    assert line.endswith("10 s left (web 100%, code 0%)")


def test_phases_without_sources_have_an_estimate_too() -> None:
    began = time.monotonic() - 30
    progress = Progress(PreparationPhase.VERIFYING, share=0.25, began=began)
    assert progress_line(progress) == "verifying the result: 25%, 90 s left"
    assert progress_line(Progress(PreparationPhase.LISTING)) == "listing the inputs"


def test_without_a_terminal_a_line_comes_even_if_no_task_reports(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(data_progress, "QUIET_SECONDS", 0.05)
    with shown_progress(quiet=False) as show:
        show(preparing(SourceProgress("web", total=1_000)))
        time.sleep(0.4)
    said = capsys.readouterr().err.splitlines()
    assert 2 <= len(said) <= 8
    assert all(line.startswith("  preparing: 12 of 40 tasks") for line in said)


def test_quiet_shows_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(data_progress, "QUIET_SECONDS", 0.01)
    with shown_progress(quiet=True) as show:
        show(preparing(SourceProgress("web", total=1_000)))
        time.sleep(0.05)
    assert capsys.readouterr().err == ""


def test_an_interrupt_names_what_is_kept_and_the_command_that_continues() -> None:
    assert kept_lines(preparing(SourceProgress("web", total=1)), CONTINUE) == (
        f"12 of 40 tasks are finished and kept.\nTo continue: {CONTINUE}"
    )
    assembling = Progress(PreparationPhase.ASSEMBLING, tasks=40, tasks_done=40)
    assert kept_lines(assembling, CONTINUE) == (
        "40 of 40 tasks are finished and kept, and so are the files that are already"
        f" assembled.\nTo continue: {CONTINUE}"
    )
    for early in (None, Progress(PreparationPhase.LISTING)):
        assert kept_lines(early, CONTINUE).startswith("No task was started.\nTo")
