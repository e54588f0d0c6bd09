# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The engine's arguments reach its parser as a list, and variables are set in one place."""

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence

import pytest

from seatrial.worker.environment import ANY_PICKLE, WEIGHTS_ONLY, set_variables
from seatrial.worker.megatron.arguments import EarlyOptions, hand_over, read_early_options

PLAIN = EarlyOptions("transformer_engine", uses_wandb=False, ends_early=False)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), PLAIN),
        (("--data-path", "0.5", "a", "0.5", "b", "--bf16"), PLAIN),
        (
            ("--transformer-impl", "local"),
            EarlyOptions("local", uses_wandb=False, ends_early=False),
        ),
        (
            ("--wandb-project=p", "--exit-interval", "10"),
            EarlyOptions("transformer_engine", uses_wandb=True, ends_early=True),
        ),
        # The engine's parser refuses an option without its value, in its own words.
        (
            ("--exit-duration-in-mins",),
            EarlyOptions("transformer_engine", uses_wandb=False, ends_early=True),
        ),
    ],
)
def test_what_matters_before_the_engine_is_loaded(
    arguments: Sequence[str], expected: EarlyOptions
) -> None:
    assert read_early_options(arguments) == expected


def test_a_parser_reads_what_it_is_handed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["program", "--seed", "1"])
    parser = ArgumentParser()
    parser.add_argument("--seed", type=int)
    assert hand_over(["--seed", "2"])(parser).parse_args() == Namespace(seed=2)
    assert sys.argv == ["program", "--seed", "1"]


def test_what_was_read_is_adapted_before_the_engine_sees_it() -> None:
    parser = ArgumentParser()
    parser.add_argument("--seed", type=int)
    hook = hand_over(["--seed", "2"], lambda told: Namespace(seed=told.seed + 1))
    assert hook(parser).parse_args() == Namespace(seed=3)


def test_variables_are_set_and_loading_is_safe(monkeypatch: pytest.MonkeyPatch) -> None:
    before = {ANY_PICKLE: "1", "ONE": "user", "OTHER": "user"}
    monkeypatch.setattr(os, "environ", before)
    set_variables({"ONE": "ours"}, unless_set={"OTHER": "ours", "THIRD": "ours"})
    assert before == {WEIGHTS_ONLY: "1", "ONE": "ours", "OTHER": "user", "THIRD": "ours"}
