# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Megatron's arguments for a plan, and the words of its command line."""

from seatrial.engines.engine import Arguments as Arguments
from seatrial.engines.megatron.flags_from_spec import FLAGS
from seatrial.engines.megatron.parser_options import Takes, known_options
from seatrial.planning.plan import Plan


def switched_on(plan: Plan) -> set[str]:
    """The options that a spec passes through and does not switch off, by the engine's names."""
    options = plan.spec.engine.options.items()
    return {name.replace("_", "-") for name, value in options if value is not False}


def _usual(plan: Plan) -> Arguments:
    """What no field decides and a GPU is better off with; an option of the spec overrides it."""
    return {
        # One kernel for all experts of a rank instead of one each.
        "moe-grouped-gemm": plan.model.architecture.is_moe,
        # Transformer Engine masks by itself; a mask of length × length a sample would be moved
        # for nothing. Attention that ends with a document needs it, in the local layers.
        "no-create-attention-mask-in-dataloader": "reset-attention-mask" not in switched_on(plan),
    }


def engine_arguments(plan: Plan) -> Arguments:
    """The engine's arguments for a plan, options that the spec passes through included."""
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
    """The arguments as words: switches that are on, and flags with their values."""
    words: list[str] = []
    for name, value in arguments.items():
        if value is None or value is False:
            continue
        if isinstance(value, str) and value.startswith("-"):
            # As a word of its own it would be taken for an option.
            words.append(f"--{name}={value}")
            continue
        words.append(f"--{name}")
        if isinstance(value, tuple):
            words += map(str, value)
        elif value is not True:
            # Apart from its flag, a value with a dash ahead would be taken for a flag.
            words[-1:] = (
                [f"--{name}={value}"] if str(value)[:1] == "-" else [f"--{name}", str(value)]
            )
    return words
