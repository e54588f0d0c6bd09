# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The engine's verdict on a full layout, in one process: its own validation, its own counts.

Validation is that of the arguments and of the model's configuration, which the engine makes next.

`WORLD_SIZE` in the environment is the real number of ranks; the arguments are those of production
but for the tokenizer, which validation would otherwise load. Prints one line of JSON.
"""

import io
import json
import re
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import Any


def main() -> None:
    """Validate, build the wanted stages without memory, and print what the engine says."""
    from seatrial.worker.megatron.cpu.runtime import install  # noqa: PLC0415

    install()
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        answer = _answer()
    sys.stdout.write(json.dumps(answer) + "\n")


def _answer() -> dict[str, Any]:
    """Whether the engine accepts the arguments, its reason if not, and its counts if so."""
    from megatron.training.arguments import parse_and_validate_args  # noqa: PLC0415

    from seatrial.worker.megatron.cpu.redirection import UnknownCudaCallError  # noqa: PLC0415
    from seatrial.worker.megatron.stages import (  # noqa: PLC0415
        model_settings,
        optimizer_settings,
        stage_parameters,
    )

    wanted = _wanted_stages()
    try:
        args = parse_and_validate_args()
        model_settings(args)
        optimizer_settings(args)
    except SystemExit:
        return {"accepted": False, "reason": "the engine's parser refused an argument"}
    except UnknownCudaCallError as error:
        return {"accepted": None, "reason": str(error)}
    except Exception as error:
        reason = str(error) or type(error).__name__
        return {"accepted": None if host_lacks(reason) else False, "reason": reason}
    try:
        counts = {stage: stage_parameters(args, stage) for stage in wanted}
    except Exception as error:
        reason = f"building a stage: {type(error).__name__}: {error}"
        return {"accepted": False, "reason": reason}
    return {"accepted": True, "parameters": counts, "padded_vocab_size": args.padded_vocab_size}


def host_lacks(reason: str) -> bool:
    """Whether the engine speaks of what this host lacks, and not of the plan.

    Transformer Engine cannot be loaded without a GPU, and has version 0.0.0 then. The fused kernels
    are switched off in what is judged (`stages.GPU_KERNELS`).
    """
    return any(re.search(pattern, reason) for pattern in _LACKING)


_LACKING = (
    r"(Transformer Engine|TE|transformer-engine)( version)? ?>=",
    r"TE version \d",
    r"FusedAdam from TransformerEngine, but not found",
    r"gradient accumulation fusion is not used",
)
"""How the engine asks for Transformer Engine, or for a kernel that only a GPU has."""


def _wanted_stages() -> list[int]:
    """The stages to build, taken off the command line before the engine reads it."""
    position = sys.argv.index("--stages")
    words = sys.argv.pop(position + 1)
    sys.argv.pop(position)
    return [int(word) for word in words.split(",") if word]


if __name__ == "__main__":
    main()
