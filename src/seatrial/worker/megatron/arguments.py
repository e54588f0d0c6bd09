# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The engine's arguments: what is read of them before it is loaded, and how it gets them.

Its parser reads `sys.argv`. Through the engine's own hook for more options the parser is handed a
list, so that `sys.argv` stays as it is.
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

ParserHook = Callable[[ArgumentParser], ArgumentParser]
"""What the engine calls `extra_args_provider`."""


@dataclass(frozen=True, slots=True)
class EarlyOptions:
    """Options of the engine that matter before it is loaded, which takes a while."""

    transformer_impl: str
    """Whose layers the model is made of."""
    uses_wandb: bool
    ends_early: bool
    """Whether the spec itself asks for an end before the last step."""


def read_early_options(arguments: Sequence[str]) -> EarlyOptions:
    """Read them, and leave what is wrong with the arguments to the engine's parser."""
    parser = ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--transformer-impl", nargs="?", default="transformer_engine")
    for name in ("--wandb-project", "--exit-interval", "--exit-duration-in-mins"):
        parser.add_argument(name, nargs="?", const="")
    told, _ = parser.parse_known_args(arguments)
    ends = (told.exit_interval, told.exit_duration_in_mins)
    return EarlyOptions(
        transformer_impl=told.transformer_impl or "",
        uses_wandb=told.wandb_project is not None,
        ends_early=any(end is not None for end in ends),
    )


def hand_over(
    arguments: Sequence[str], adapt: Callable[[Namespace], Namespace] | None = None
) -> ParserHook:
    """A hook with which the engine's parser reads these arguments.

    Args:
        arguments: What the engine is told, without the program's name.
        adapt: Fits what was read to this host, before the engine validates it.
    """

    def hook(parser: ArgumentParser) -> ArgumentParser:
        parse = parser.parse_args

        def parse_args(*_: Any, **__: Any) -> Namespace:
            told = parse(arguments)
            return told if adapt is None else adapt(told)

        parser.parse_args = parse_args  # type: ignore[method-assign,assignment]
        return parser

    return hook
