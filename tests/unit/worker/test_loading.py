# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The engine loads what was chosen, and its arguments are as before."""

import sys
from argparse import Namespace

import pytest

from seatrial.checkpoints.pickle_rules import UnsafeFileError
from seatrial.checkpoints.stopping import StopCode, StopError
from seatrial.errors import SeatrialError
from seatrial.worker.checkpointing.loading import loading


def arguments() -> Namespace:
    return Namespace(ckpt_step=7, non_persistent_ckpt_type="global", load="/saved")


@pytest.mark.parametrize(("chosen", "loaded"), [(20, 20), (None, 7)])
def test_only_the_choice_is_loaded(chosen: int | None, loaded: int) -> None:
    told = arguments()
    with loading(told, chosen):
        assert told.ckpt_step == loaded
        # The engine would take one of those where it is as new, and nothing has verified it.
        assert told.non_persistent_ckpt_type is None
    assert told == arguments()


@pytest.mark.parametrize("code", [0, None])
def test_an_engine_that_gives_up_in_silence_does_not_end_with_0(code: int | None) -> None:
    told = arguments()
    with (
        pytest.raises(StopError, match="/saved: the engine could not load") as caught,
        loading(told, 20),
    ):
        sys.exit(code)
    assert caught.value.code is StopCode.NO_CHECKPOINT
    assert told == arguments()


def test_a_code_of_the_engine_stays() -> None:
    with pytest.raises(SystemExit) as caught, loading(arguments(), 20):
        sys.exit(3)
    assert caught.value.code == 3


class Gathered(BaseException):
    """As torch gathers what went wrong on ranks."""

    def __init__(self, failures: dict[int, tuple[BaseException, None]]) -> None:
        super().__init__("gathered")
        self.failures = failures


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (UnsafeFileError("it is truncated"), "ST-CHECKPOINT-009 /saved: .*it is truncated"),
        (Gathered({3: (UnsafeFileError("os.system"), None)}), "ST-CHECKPOINT-009 .*os.system"),
        (FileNotFoundError(2, "No such file", "/saved/iter_7/x"), "ST-CHECKPOINT-017 /saved/iter"),
    ],
)
def test_a_file_that_changed_after_it_was_verified_is_a_finding(
    error: BaseException, said: str
) -> None:
    def load() -> None:
        try:
            raise error
        except Exception as inner:
            raise RuntimeError("the engine's own words") from inner

    with pytest.raises(SeatrialError, match=said) as caught, loading(arguments(), 20):
        load()
    # A start again verifies anew.
    assert not isinstance(caught.value, StopError)


def test_other_errors_stay() -> None:
    for error in (RuntimeError("x"), FileNotFoundError(2, "no", "/else"), Gathered({})):
        with pytest.raises(type(error)) as caught, loading(arguments(), 20):
            raise error
        assert caught.value is error
