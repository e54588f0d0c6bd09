# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""LLM Foundry, loaded once for many starts."""

from pathlib import Path

from seatrial.engine_process.process import TrainingOutcome, worker_python
from seatrial.engines.engine import Arguments
from seatrial.engines.registry import ENGINES
from tests.faults.warm import Warm

FOUNDRY = ENGINES["llm-foundry"]


class WarmFoundry(Warm):
    """A process that has LLM Foundry; every rank of a start is a process of its own."""

    def __init__(self) -> None:
        super().__init__(worker_python(FOUNDRY), "tests.foundry.warm_worker")

    def start(
        self,
        directory: Path,
        name: str,
        arguments: Arguments,
        ranks: int,
        kill: tuple[int, int] | None = None,
    ) -> TrainingOutcome:
        """One training; what it printed is in a file of its name."""
        told = {} if kill is None else {"SEATRIAL_DRILL_KILL": f"{kill[0]}:{kill[1]}"}
        words = FOUNDRY.command_line(arguments)
        return self.begin(directory / f"{name}.log", words, told, ranks)
