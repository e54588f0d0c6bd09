# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The engine's arguments: early options, and passing arguments to its parser.

The engine's parser reads `sys.argv`. This module passes a list through the engine's own hook for
additional options, so that `sys.argv` does not change.
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

ParserHook = Callable[[ArgumentParser], ArgumentParser]
"""The engine's `extra_args_provider`."""


@dataclass(frozen=True, slots=True)
class EarlyOptions:
    """Engine options that are needed before the engine is imported, which takes a while."""

    transformer_impl: str
    """The implementation of the layers."""
    uses_wandb: bool
    ends_early: bool
    """True if the spec itself requests an exit before the last step."""


def read_early_options(arguments: Sequence[str]) -> EarlyOptions:
    """Parse the early options; leave errors in the arguments to the engine's parser."""
    parser = ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--transformer-impl", nargs="?", default="transformer_engine")
    for name in ("--wandb-project", "--exit-interval", "--exit-duration-in-mins"):
        parser.add_argument(name, nargs="?", const="")
    parsed, _ = parser.parse_known_args(arguments)
    ends = (parsed.exit_interval, parsed.exit_duration_in_mins)
    return EarlyOptions(
        transformer_impl=parsed.transformer_impl or "",
        uses_wandb=parsed.wandb_project is not None,
        ends_early=any(end is not None for end in ends),
    )


def hand_over(
    arguments: Sequence[str], adapt: Callable[[Namespace], Namespace] | None = None
) -> ParserHook:
    """Return a hook with which the engine's parser reads these arguments.

    Args:
        arguments: The engine's arguments, without the program name.
        adapt: Adapts the parsed arguments to this host, before the engine validates them.
    """

    def hook(parser: ArgumentParser) -> ArgumentParser:
        parse = parser.parse_args

        def parse_args(*_: Any, **__: Any) -> Namespace:
            parsed = parse(arguments)
            return parsed if adapt is None else adapt(parsed)

        parser.parse_args = parse_args  # type: ignore[method-assign,assignment]
        return parser

    return hook
