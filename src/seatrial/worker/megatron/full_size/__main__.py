# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Count one rank of a full-size run: `python -m seatrial.worker.megatron.full_size`.

Arguments: `--record` with the file to write, `--attention`, `--imbalance`, `--narrow`, and the
engine's arguments. `WORLD_SIZE` and `RANK` in the environment are those of the real run. Prints one
line of JSON: the reason if the rank cannot be counted, otherwise an empty reason.
"""

import io
import json
import sys
import traceback
from argparse import ArgumentParser
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from seatrial.storage.state_files import write_state
from seatrial.worker.environment import ON_CPU, ONE_THREAD, set_variables
from seatrial.worker.process import end_with_parent

VARIABLES = (
    ON_CPU
    | ONE_THREAD
    | {"CUDA_DEVICE_MAX_CONNECTIONS": "1", "TORCHDYNAMO_DISABLE": "1", "LOCAL_RANK": "0"}
)
"""Functions that the engine compiles run as written: compiling them would need data."""


def own_parser() -> ArgumentParser:
    """Return the parser of the arguments that are not the engine's."""
    parser = ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--record", type=Path, required=True)
    parser.add_argument("--attention", default="fused")
    parser.add_argument("--imbalance", type=float, default=1.0)
    parser.add_argument("--narrow", help="format of 8-bit or 4-bit products")
    parser.add_argument("--native-transpose", action="store_true")
    parser.add_argument("--narrow-weights", action="store_true")
    parser.add_argument("--real", action="store_true")
    parser.add_argument("--block", type=int, default=512)
    return parser


def main(words: list[str]) -> None:
    """Count, write the record, and print why if that fails."""
    own, arguments = own_parser().parse_known_args(words)
    end_with_parent()
    set_variables(unless_set=VARIABLES)
    # Import late: this loads torch, which reads the environment.
    from seatrial.worker.megatron.full_size.start import prepare  # noqa: PLC0415

    output = io.StringIO()
    reason = ""
    with redirect_stdout(output), redirect_stderr(output):
        try:
            counter = prepare(own.attention, own.block)
            # Import late: this loads the engine, which looks for its kernels.
            from seatrial.worker.megatron.full_size import rank  # noqa: PLC0415

            options = rank.CountOptions(
                own.imbalance,
                is_fake=not own.real,
                narrow=own.narrow,
                has_native_transpose=own.native_transpose,
                has_narrow_weights=own.narrow_weights,
            )
            record = rank.count_rank(arguments, counter, options)
            write_state(own.record, json.dumps(record.to_dict()))
        except SystemExit as error:
            reason = f"the engine exited with code {error.code}: {_last(output)}"
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            traceback.print_exc(file=output)
    if reason:
        sys.stderr.write(output.getvalue())
    sys.stdout.write(json.dumps({"reason": reason}) + "\n")


def _last(output: io.StringIO) -> str:
    return output.getvalue().strip().rpartition("\n")[2]


if __name__ == "__main__":
    main(sys.argv[1:])
