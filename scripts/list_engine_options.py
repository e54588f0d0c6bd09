# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Write the list of the engine's options; run it with a Python that has megatron-core installed.

python scripts/list_engine_options.py > src/seatrial/engines/megatron/options.txt
"""

import argparse
import os
from importlib.metadata import version

os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "1")

from megatron.training.arguments import add_megatron_arguments

SWITCHES = (
    argparse._StoreTrueAction,
    argparse._StoreFalseAction,
    argparse.BooleanOptionalAction,
)
TYPES: dict[object, str] = {int: "int", float: "float", str: "str", None: "str"}


def line(action: argparse.Action) -> str:
    """What an option takes, of which type, and which values, if they are few."""
    if isinstance(action, SWITCHES):
        return "switch"
    takes = "value" if action.nargs is None else "list"
    kind = TYPES.get(action.type, "any")
    choices = [str(choice) for choice in action.choices or ()]
    plain = all(" " not in choice and "," not in choice for choice in choices)
    return " ".join([takes, kind, *([",".join(choices)] if choices and plain else [])])


def main() -> None:
    """Print one line per option."""
    parser = add_megatron_arguments(argparse.ArgumentParser(allow_abbrev=False, add_help=False))
    options: dict[str, str] = {}
    for action in parser._actions:
        options |= {o[2:]: line(action) for o in action.option_strings if o.startswith("--")}
    print(f"# Every option of the argument parser of megatron-core {version('megatron-core')}")
    print("# (megatron.training.arguments, add_megatron_arguments): its name; whether it is a")
    print("# switch or takes a value or a list; of which type; and the choices, if they are few.")
    print("# Made by scripts/list_engine_options.py.")
    for name in sorted(options):
        print(name, options[name])


if __name__ == "__main__":
    main()
