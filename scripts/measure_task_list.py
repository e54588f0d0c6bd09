# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Measure what the task list of a large corpus costs: list, bundle, freeze, thaw.

    python -m scripts.measure_task_list [--inputs 59166,1000000] [--budget SECONDS]

A real directory with as many small files as SlimPajama-627B has is listed; larger lists are made
up. The first number of inputs is held to the budget, and the exit code says whether it was kept.
"""

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from seatrial.dataprep.inputs.access import list_inputs
from seatrial.dataprep.tasks.bundling import bundle
from seatrial.dataprep.tasks.task_list import (
    InputFile,
    InputFormat,
    Settings,
    SourceSettings,
    Task,
    Tokenizer,
    TokenizerKind,
    freeze,
    thaw,
)
from seatrial.spec.data import DataSource

SLIMPAJAMA = 59_166
"""Files of SlimPajama-627B."""
_SETTINGS = Settings(
    Tokenizer(TokenizerKind.HUGGING_FACE, "/tokenizer.json", "0" * 64, 50_257, 50_256),
    (SourceSettings("corpus"),),
)


def made_up(count: int) -> list[InputFile]:
    """Inputs as the Hub has them: long addresses, digests as versions, about 15 MB each."""
    root = f"hf://datasets/cerebras/SlimPajama-627B@{'2d' * 20}/train"
    return [
        InputFile(
            f"{root}/chunk{n % 10 + 1}/example_train_{n}.jsonl.zst",
            14_000_000 + n * 7919 % 2_000_000,
            f"{n:064x}",
            InputFormat.JSONL,
        )
        for n in range(count)
    ]


def timed[T](name: str, action: Callable[[], T], steps: dict[str, float]) -> T:
    """What the action gives; its time goes into the steps, and that of the CPU."""
    began, cpu = time.perf_counter(), time.process_time()
    result = action()
    steps[name] = time.perf_counter() - began
    steps["cpu"] = steps.get("cpu", 0.0) + time.process_time() - cpu
    return result


def book(inputs: list[InputFile], steps: dict[str, float]) -> tuple[list[Task], int]:
    """Bundle, freeze and thaw; the tasks and the bytes of the frozen list."""
    tasks = timed("bundle", lambda: bundle([("corpus", inputs)]), steps)
    frozen = timed("freeze", lambda: freeze(_SETTINGS, tasks), steps)
    thawed = timed("thaw", lambda: thaw(frozen), steps)
    if thawed.tasks != tuple(tasks):
        sys.exit("measure_task_list: the thawed list is not the frozen one")
    return tasks, len(frozen)


def report(name: str, count: int, steps: dict[str, float], tasks: int, size: int) -> float:
    """Print one line, and give the whole time."""
    cpu = steps.pop("cpu")
    whole = sum(steps.values())
    parts = ", ".join(f"{step} {seconds:.2f}" for step, seconds in steps.items())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(
        f"{name}: {count:,} inputs -> {tasks:,} tasks, list of {size / 1e6:.1f} MB in "
        f"{whole:.2f} s ({parts}; CPU {cpu:.2f}), peak {peak:,} MiB"
    )
    return whole


def directory(count: int) -> Iterator[float]:
    """A real directory with that many small files."""
    with tempfile.TemporaryDirectory(prefix="task-list-") as root:
        for n in range(count):
            place = Path(root, f"chunk{n % 10 + 1}")
            if n < 10:
                place.mkdir()
            (place / f"example_train_{n}.jsonl.zst").write_bytes(b"x" * (n % 7))
        steps: dict[str, float] = {}
        source = DataSource.model_validate({"from": root})
        inputs = timed("list", lambda: list_inputs(source), steps)
        tasks, size = book(inputs, steps)
        yield report("directory", len(inputs), steps, len(tasks), size)


def main() -> None:
    """Measure and print; exit with 1 when the first number of inputs takes longer than allowed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", default=f"{SLIMPAJAMA},1000000", help="numbers of inputs")
    parser.add_argument("--budget", type=float, default=10.0, help="seconds for the first")
    options = parser.parse_args()
    numbers = [int(number) for number in options.inputs.split(",")]
    held = list(directory(numbers[0]))
    for number in numbers:
        steps: dict[str, float] = {}
        tasks, size = book(made_up(number), steps)
        whole = report("made up", number, steps, len(tasks), size)
        if number == numbers[0]:
            held.append(whole)
        del tasks
    if max(held) > options.budget:
        sys.exit(f"measure_task_list: {max(held):.1f} s is more than {options.budget:.1f} s")


if __name__ == "__main__":
    main()
