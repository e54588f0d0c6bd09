# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Score predictions that were recorded before the planner had seen the runs.

    python -m backtest.prequential

Each file in `data/prequential` is named after a month and the commit whose `seatrial plan` made the
predictions. It is never edited: a later commit that predicts the same or other runs adds a file.
An error is predicted over measured step time, less one; the range is the one that nine of ten runs
should lie in, as the plan of that run printed it. A row of a run with another engine than Megatron
or LLM Foundry names it in its note.
"""

import csv
import re
from argparse import ArgumentParser
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from seatrial.planning.timing.constants import GENERATIONS, generation

RECORDS = Path(__file__).parent / "data" / "prequential"
_RANGE = re.compile(r"stated nine of ten ±(\d+)%")
_MEMORY = re.compile(r"measured \(([+-][\d.]+)%\)(?:; stated memory ±(\d+)%)?")
_ENGINE = re.compile(r"(?:engine|measured with) (llm-foundry|nanotron)")
_EXPERTS = re.compile(r"moe|mixtral|deepseek|moonlight|gpt-oss|grok|grug|-a\d+b")
"""Names of mixtures of experts."""


@dataclass(frozen=True, slots=True)
class RecordedPrediction:
    """One published run and what the recorded commit predicted for it."""

    source: str
    engine: str
    error: float | None
    """None if the commit could not plan the run, or if the run itself ran out of memory."""
    stated: float | None
    """Half-width of the range that the plan printed, relative to the prediction."""
    kind: str
    """`dense` or `experts`."""
    generation: str
    """Generation of the GPU, such as `hopper`."""
    memory_error: float | None
    """Predicted over measured peak of memory, less one; None if not published."""
    memory_stated: float | None
    """Error bar of the memory, relative to the prediction; None if it was not recorded."""

    @property
    def is_inside(self) -> bool:
        """True if the measured time lies inside the printed range."""
        return self.error is not None and self.stated is not None and abs(self.error) <= self.stated


@dataclass(frozen=True, slots=True)
class Score:
    """How a group of recorded predictions did."""

    group: str
    rows: int
    scored: int
    inside: int
    median_error: float

    def __str__(self) -> str:
        share = f"{self.inside:>3} of {self.scored:>3} inside"
        return f"{self.group:<36}{self.rows:>4} rows  {share}  median {self.median_error:.1%}"


def read_record(path: Path) -> list[RecordedPrediction]:
    with path.open(newline="") as stream:
        return [_prediction(row) for row in csv.DictReader(stream)]


def _prediction(row: dict[str, str]) -> RecordedPrediction:
    note = row["note"]
    stated, engine, memory = _RANGE.search(note), _ENGINE.search(note), _MEMORY.search(note)
    return RecordedPrediction(
        row["source"],
        engine[1] if engine else "megatron",
        float(row["error"]) if row["error"] else None,
        int(stated[1]) / 100 if stated else None,
        "experts" if _EXPERTS.search(row["model"]) else "dense",
        GENERATIONS[generation(row["gpu"].lower())],
        float(memory[1]) / 100 if memory else None,
        int(memory[2]) / 100 if memory and memory[2] else None,
    )


def score(group: str, predictions: Iterable[RecordedPrediction]) -> Score:
    """Count how many predictions lie inside their own ranges, and the median error."""
    rows = list(predictions)
    errors = [abs(row.error) for row in rows if row.error is not None]
    inside = sum(row.is_inside for row in rows)
    return Score(group, len(rows), len(errors), inside, median(errors) if errors else float("nan"))


def scores(predictions: list[RecordedPrediction]) -> Iterator[Score]:
    yield score("all", predictions)
    for engine in sorted({row.engine for row in predictions}):
        yield score(engine, (row for row in predictions if row.engine == engine))
    megatron = [row for row in predictions if row.engine == "megatron"]
    for kind in sorted({row.kind for row in megatron}):
        yield score(f"megatron, {kind}", (row for row in megatron if row.kind == kind))
    for name in (name for name in GENERATIONS if any(row.generation == name for row in megatron)):
        yield score(f"megatron, {name}", (row for row in megatron if row.generation == name))
    for source in sorted({row.source for row in predictions}):
        yield score(source, (row for row in predictions if row.source == source))


def memory_line(predictions: Iterable[RecordedPrediction]) -> str | None:
    """Return the scores of the memory in words; None if no row has a measured one."""
    rows = [row for row in predictions if row.memory_error is not None]
    if not rows:
        return None
    errors = sorted(row.memory_error or 0.0 for row in rows)
    stated = [row for row in rows if row.memory_stated is not None]
    inside = sum(abs(row.memory_error or 0.0) <= (row.memory_stated or 0.0) for row in stated)
    return (
        f"memory: {len(rows)} rows, {inside} of {len(stated)} inside their stated range, "
        f"errors {errors[0]:+.0%} to {errors[-1]:+.0%}"
    )


def print_and_record(rows: Sequence[Mapping[str, Any]], description: str | None) -> None:
    """Print predictions, and keep them in a new file if the command line has `--record NAME`."""
    parser = ArgumentParser(description=description)
    parser.add_argument("--record", metavar="NAME", help="name of the file in data/prequential")
    asked = parser.parse_args()
    for row in rows:
        print(
            f"{row['source']:<38}{row['model']:<17}{row['gpu']:<11}{row['gpus']:>6}"
            f"{row['published_value']:>10}{row['predicted']:>10}{row['error']:>9}"
            f"  {row['memory_verdict']}"
        )
    if asked.record:
        with (RECORDS / asked.record).open("x", newline="") as stream:
            writer = csv.DictWriter(stream, [*rows[0]], lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


def main() -> None:
    for path in sorted(RECORDS.glob("*.csv")):
        print(f"Predictions by commit {path.stem.rpartition('-')[2]} ({path.name})")
        predictions = read_record(path)
        for line in scores(predictions):
            print(f"  {line}")
        for engine in sorted({row.engine for row in predictions}):
            of_engine = memory_line(row for row in predictions if row.engine == engine)
            if of_engine:
                print(f"  {engine}, {of_engine}")


if __name__ == "__main__":
    main()
