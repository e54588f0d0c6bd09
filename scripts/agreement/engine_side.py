# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The engine's own validation, asked many times in one process.

Started with the worker's Python: reads one question a line, writes one answer a line. Between two
questions everything that the engine keeps is reset: its global variables, the calculator of micro
batches, the environment and what deterministic mode sets in torch. `scripts.check_agreement` holds
a sample of the answers against processes that were asked once.
"""

import json
import os
import sys
from copy import deepcopy
from typing import Any, TextIO


def main() -> None:
    """Answer until there are no more questions."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    # The engine prints every argument; nobody reads it here.
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)

    from seatrial.worker.cpu.runtime import install  # noqa: PLC0415

    install()
    _keep_parser()
    before = dict(os.environ)
    for line in sys.stdin:
        question = json.loads(line)
        _answer_to(question, answers)
        os.environ.clear()
        os.environ.update(before)


def _keep_parser() -> None:
    """Let the engine make its parser once: it takes longer than the validation itself."""
    import argparse  # noqa: PLC0415

    from megatron.training import arguments  # noqa: PLC0415

    made = arguments.add_megatron_arguments(
        argparse.ArgumentParser(description="Megatron-LM Arguments", allow_abbrev=False)
    )
    parse = arguments.parse_args
    arguments.add_megatron_arguments = lambda parser: made
    # Defaults that are lists belong to the parser, and validation appends to some.
    arguments.parse_args = lambda *given, **named: deepcopy(parse(*given, **named))


def _answer_to(question: dict[str, Any], answers: TextIO) -> None:
    """Put one run before the engine, and forget it."""
    import torch  # noqa: PLC0415
    from megatron.core.rerun_state_machine import destroy_rerun_state_machine  # noqa: PLC0415
    from megatron.training.global_vars import unset_global_variables  # noqa: PLC0415

    os.environ.pop("CUDA_DEVICE_MAX_CONNECTIONS", None)
    os.environ.update(question["environment"])
    os.environ.update({"WORLD_SIZE": str(question["world_size"]), "RANK": "0"})
    sys.argv = ["engine", *question["words"]]
    try:
        accepted, reason = _verdict()
    finally:
        unset_global_variables()
        destroy_rerun_state_machine()
        torch.use_deterministic_algorithms(False)
    answer = {"number": question["number"], "accepted": accepted, "reason": reason}
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


def _verdict() -> tuple[bool | None, str]:
    """Whether the engine accepts the arguments and the configuration of the model, and why not."""
    from megatron.training import arguments  # noqa: PLC0415

    from seatrial.worker.cpu.redirection import UnknownCudaCallError  # noqa: PLC0415
    from seatrial.worker.stages import model_settings  # noqa: PLC0415
    from seatrial.worker.verdict import host_lacks  # noqa: PLC0415

    try:
        model_settings(arguments.parse_and_validate_args())
    except SystemExit:
        return False, "the engine's parser refused an argument"
    except UnknownCudaCallError as error:
        return None, str(error)
    except Exception as error:
        reason = str(error) or type(error).__name__
        return (None if host_lacks(reason) else False), reason
    return True, ""


if __name__ == "__main__":
    main()
