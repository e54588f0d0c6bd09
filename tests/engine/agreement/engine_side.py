# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The engine's own validation, asked many times from one warm process.

Started with the worker's Python: reads one question a line, writes one answer a line. Each question
is answered by a fork, so that nothing that validation sets (global variables, the environment,
torch's own modes, signal handlers) reaches the next one. The question `"options"` is answered with
the engine's own description of its options.
"""

import gc
import io
import json
import os
import signal
import sys
from argparse import Namespace
from collections.abc import Sequence
from contextlib import redirect_stderr
from typing import Any, TextIO

LONGEST_SECONDS = 60
"""How long the engine may take over one question."""


def main() -> None:
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    # The engine prints every argument; nobody reads it here.
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)

    from seatrial.worker.megatron.cpu.start import start_on_cpu  # noqa: PLC0415

    start_on_cpu(())
    _keep_parser()
    for line in sys.stdin:
        question = json.loads(line)
        if question == "options":
            from scripts.list_engine_options import described  # noqa: PLC0415

            _write(answers, described())
        else:
            _write(answers, {"number": question["number"]} | _forked(question))


def _write(answers: TextIO, answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


def _keep_parser() -> None:
    """Let the engine make its parser once: it takes longer than the validation itself."""
    import argparse  # noqa: PLC0415

    # Loaded here, so that no fork has to load it.
    from megatron.core.tokenizers.text import models  # noqa: F401, PLC0415
    from megatron.training import arguments  # noqa: PLC0415

    from seatrial.worker.megatron import engine_model  # noqa: F401, PLC0415
    from seatrial.worker.megatron.cpu import layers  # noqa: F401, PLC0415

    made = arguments.add_megatron_arguments(
        argparse.ArgumentParser(description="Megatron-LM Arguments", allow_abbrev=False)
    )
    arguments.add_megatron_arguments = lambda parser: made
    # What is there already is not looked at again, so that forks share its memory.
    gc.collect()
    gc.freeze()


def _forked(question: dict[str, Any]) -> dict[str, Any]:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(LONGEST_SECONDS)
        try:
            os.write(writing, json.dumps(_answer(question)).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as stream:
        said = stream.read()
    status = os.waitpid(child, 0)[1]
    if said:
        found: dict[str, Any] = json.loads(said)
        return found
    return {"accepted": None, "reason": f"the engine's process ended with status {status}"}


def _answer(question: dict[str, Any]) -> dict[str, Any]:
    os.environ.pop("CUDA_DEVICE_MAX_CONNECTIONS", None)
    os.environ.update(question["environment"])
    os.environ.update({"WORLD_SIZE": str(question["world_size"]), "RANK": "0"})
    sys.argv = ["engine", *question["words"]]
    said = io.StringIO()
    counts: dict[int, int] = {}
    with redirect_stderr(said):
        accepted, reason = _verdict(said, question.get("stages", ()), counts)
    return {"accepted": accepted, "reason": reason[:2000], "parameters": counts}


def _verdict(
    said: io.StringIO, stages: Sequence[int], counts: dict[int, int]
) -> tuple[bool | None, str]:
    """Whether the engine accepts the arguments and the configuration of the model, and why not.

    The parameters of the stages that were asked for go into `counts`.
    """
    from megatron.training import arguments  # noqa: PLC0415

    from seatrial.worker.megatron.cpu.redirection import UnknownCudaCallError  # noqa: PLC0415
    from seatrial.worker.megatron.engine_model import (  # noqa: PLC0415
        host_lacks,
        model_settings,
        optimizer_settings,
        stage_parameters,
    )

    try:
        args = arguments.parse_and_validate_args()
        _train_no_step(args)
        model_settings(args)
        optimizer_settings(args)
        counts |= {stage: stage_parameters(args, stage) for stage in stages}
    except SystemExit:
        last = said.getvalue().strip().rpartition("\n")[2]
        return False, f"the engine's parser refused an argument: {last}"
    except UnknownCudaCallError as error:
        return None, str(error)
    except Exception as error:
        reason = str(error) or type(error).__name__
        return (None if host_lacks(reason) else False), reason
    return True, ""


def _train_no_step(args: Namespace) -> None:
    """Go through the batch sizes of a schedule, as the engine's training loop does."""
    if args.step_batch_size_schedule is None:
        return
    from megatron.core import num_microbatches_calculator as batches  # noqa: PLC0415

    consumed = before = 0
    while consumed < args.train_samples:
        batches.update_num_microbatches(consumed, consistency_check=True)
        number = batches.get_num_microbatches()
        if number < max(1, before):
            raise ValueError(f"{number} micro-batches after {before} (megatron.training.train)")
        before = number
        consumed += batches.get_current_global_batch_size()


if __name__ == "__main__":
    main()
