# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Megatron's arguments for a plan, and their command line."""

from seatrial.engines.engine import Arguments as Arguments
from seatrial.engines.megatron.flags_from_spec import FLAGS
from seatrial.engines.megatron.parser_options import Takes, known_options
from seatrial.planning.plan import Plan


def switched_on(plan: Plan) -> set[str]:
    """Return the spec's engine options that are not false, under the engine's names."""
    options = plan.spec.engine.options.items()
    return {name.replace("_", "-") for name, value in options if value is not False}


def _usual(plan: Plan) -> Arguments:
    """Return defaults for GPUs that no spec field sets. The spec's options override them."""
    return {
        # Transformer Engine creates masks itself, so copying a mask of length × length per sample
        # is useless. Only attention that stops at document boundaries needs one, in local layers.
        "no-create-attention-mask-in-dataloader": "reset-attention-mask" not in switched_on(plan),
    }


def engine_arguments(plan: Plan) -> Arguments:
    """Return the engine's arguments for a plan, including the spec's engine options."""
    arguments: Arguments = {flag.name: flag.value(plan) for flag in FLAGS} | _usual(plan)
    for name, value in plan.spec.engine.options.items():
        words = tuple(str(word) for word in value) if isinstance(value, tuple) else value
        option = name.replace("_", "-")
        known = known_options().get(option)
        if value is False and known is not None and known.takes is Takes.TOGGLE:
            option, words = f"no-{option}", True
        arguments[option] = words
    return arguments


def command_line(arguments: Arguments) -> list[str]:
    """Format the arguments as a command line."""
    words: list[str] = []
    for name, value in arguments.items():
        if value is None or value is False:
            continue
        if isinstance(value, str) and value.startswith("-"):
            # As a separate argument, the value would be parsed as an option.
            words.append(f"--{name}={value}")
            continue
        words.append(f"--{name}")
        if isinstance(value, tuple):
            words += map(str, value)
        elif value is not True:
            # As a separate argument, a value that starts with a dash would be parsed as an option.
            words[-1:] = (
                [f"--{name}={value}"] if str(value)[:1] == "-" else [f"--{name}", str(value)]
            )
    return words
