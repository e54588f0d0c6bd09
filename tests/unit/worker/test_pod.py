# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A process in a pod ends with a code that tells whether the run is finished."""

import sys
from collections.abc import Callable, Sequence

import pytest

from seatrial.monitoring.diagnosis.knowledge import knowledge
from seatrial.worker.megatron import run
from seatrial.worker.megatron.arguments import read_early_options
from seatrial.worker.process import UNFINISHED, UNSUITABLE
from seatrial.worker.supervisor.supervise import FINAL_CODES


def trained(
    monkeypatch: pytest.MonkeyPatch, train: Callable[[], None], words: Sequence[str] = ()
) -> None:
    """Run the process with something else in the engine's place, which needs torch."""
    monkeypatch.setattr(run, "main", lambda _: train())
    monkeypatch.setattr(run, "shield_managers", lambda: None)
    run.main_in_pod(words)


def ending(code: int | None) -> Callable[[], None]:
    def train() -> None:
        sys.exit(code)

    return train


def test_a_finished_run_is_a_success(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[bool] = []
    trained(monkeypatch, lambda: done.append(True))
    assert done == [True]


@pytest.mark.parametrize("code", [0, None])
def test_an_early_end_after_a_save_is_none(
    monkeypatch: pytest.MonkeyPatch, code: int | None
) -> None:
    with pytest.raises(SystemExit) as caught:
        trained(monkeypatch, ending(code))
    assert caught.value.code == UNFINISHED


@pytest.mark.parametrize("code", [1, 16, 17])
def test_the_engines_own_codes_stay(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    with pytest.raises(SystemExit) as caught:
        trained(monkeypatch, ending(code))
    assert caught.value.code == code


def test_an_end_that_was_asked_for_is_a_success(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit) as caught:
        trained(monkeypatch, ending(0), ("--exit-interval", "10"))
    assert caught.value.code == 0


def test_a_missing_layer_library_ends_with_its_own_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "find_spec", lambda _: None)
    local = read_early_options(["--transformer-impl", "local"])
    run.refuse_missing_layers(local)
    with pytest.raises(SystemExit) as caught:
        run.refuse_missing_layers(read_early_options([]))
    assert caught.value.code == UNSUITABLE
    # diagnose knows the message, and the supervisor does not restart after the code.
    (known,) = [s for s in knowledge().signatures if s.name == "transformer-engine-missing"]
    assert known.pattern.search(capsys.readouterr().err)
    assert UNSUITABLE in FINAL_CODES
