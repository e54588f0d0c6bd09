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


def main() -> None:
    """Print one line per option: its name and what it takes."""
    parser = add_megatron_arguments(argparse.ArgumentParser(allow_abbrev=False, add_help=False))
    options: dict[str, str] = {}
    for action in parser._actions:
        takes = "value" if action.nargs is None else "list"
        takes = "switch" if isinstance(action, SWITCHES) else takes
        options |= {o[2:]: takes for o in action.option_strings if o.startswith("--")}
    print(f"# Every option of the argument parser of megatron-core {version('megatron-core')}")
    print("# (megatron.training.arguments, add_megatron_arguments): its name, and whether it is")
    print("# a switch or takes a value or a list. Made by scripts/list_engine_options.py.")
    for name in sorted(options):
        print(name, options[name])


if __name__ == "__main__":
    main()
