# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Random runs before the static check and before the engine's own validation: do they agree?

    python -m scripts.check_agreement [--draws 5000] [--minutes 5] [--fresh 20] [--write] [--anew]

Each draw is a run of random fields of the spec; in six of ten a single field is then set to
something else. The static check must accept nothing that the engine refuses. Where it refuses what
the engine accepts, each rule that is responsible has a reason (scripts/agreement/reasons.py).
Answers are kept in build/agreement.jsonl: stopped by `--minutes`, the next call goes on. `--anew`
begins again; what the engine was asked before in the same words it is not asked again. `--fresh N`
asks N of the questions in processes of their own. `--write` puts the figures into
docs/check-figures.md. Needs the worker extra (SEATRIAL_WORKER_PYTHON).
"""

import hashlib
import json
import os
import subprocess
import sys
import time
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from scripts.agreement.asking import Question, static_errors
from scripts.agreement.drawing import drawn
from scripts.agreement.reasons import REASONS
from scripts.checking.figures_page import put_table
from seatrial.catalog.catalog import Catalog
from seatrial.rehearsal.worker_process import python_path, worker_python

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "build" / "agreement.jsonl"
KEPT_FRESH = ROOT / "build" / "agreement-fresh.jsonl"
DRAWS = 5000
FRESH = 20
ENGINE_SIDE = "scripts.agreement.engine_side"


@dataclass(frozen=True, slots=True)
class Compared:
    """What both sides said of a draw."""

    number: int
    """The draw."""
    field: str
    """What was changed; empty for a healthy run."""
    value: Any
    """What it was changed to."""
    errors: tuple[str, ...]
    """The codes of the static check's errors."""
    accepted: bool | None
    """Whether the engine accepts; nothing where it cannot be asked on this host."""
    reason: str
    """What the engine said."""
    question: str
    """The digest of what it was asked."""

    @property
    def missed(self) -> bool:
        """Whether the static check accepts what the engine refuses."""
        return self.accepted is False and not self.errors

    @property
    def stricter(self) -> bool:
        """Whether the static check refuses what the engine accepts."""
        return self.accepted is True and bool(self.errors)


class Engine:
    """A process that answers questions."""

    def __init__(self) -> None:
        """Start it."""
        path = os.pathsep.join((python_path(), str(ROOT)))
        self.process = subprocess.Popen(
            [worker_python(), "-m", ENGINE_SIDE],
            env=os.environ | {"PYTHONPATH": path, "PYTHONWARNINGS": "ignore"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=ROOT,
        )

    def ask(self, question: Question) -> dict[str, Any]:
        """What it says of one run."""
        if self.process.stdin is None or self.process.stdout is None:
            raise RuntimeError("the engine's process has no pipes")
        self.process.stdin.write(json.dumps(asdict(question)) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the engine's process ended at draw {question.number}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def end(self) -> None:
        """Let it end."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.process.wait(timeout=60)
        if self.process.stdout is not None:
            self.process.stdout.close()


Answer = tuple[bool | None, str]
"""Whether the engine accepts, and what it said."""


@contextmanager
def engine() -> Iterator[Engine]:
    """A process that answers questions, ended afterwards."""
    started = Engine()
    try:
        yield started
    finally:
        started.end()


def digest(question: Question) -> str:
    """What names a question, whichever draw asks it."""
    asked = (question.world_size, question.words, sorted(question.environment.items()))
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:16]


def compare(
    numbers: Iterable[int],
    deadline: float = float("inf"),
    known: dict[str, Answer] | None = None,
) -> Iterator[Compared]:
    """Put draws before both sides, until a time is reached; `known` are answers by question."""
    catalog, answers = Catalog(), dict(known or {})
    with ExitStack() as stack:
        asked: Engine | None = None
        for number in numbers:
            if time.monotonic() > deadline:
                return
            draw = drawn(number)
            errors, question = static_errors(draw, catalog)
            name = digest(question)
            if name not in answers:
                asked = asked or stack.enter_context(engine())
                answer = asked.ask(question)
                answers[name] = (answer["accepted"], answer["reason"])
            field, value = (draw.change.field, draw.change.value) if draw.change else ("", None)
            yield Compared(number, field, value, errors, *answers[name], name)


def asked_fresh(numbers: Iterable[int]) -> Iterator[tuple[int, bool | None, str]]:
    """What processes say that are asked once."""
    catalog = Catalog()
    for number in numbers:
        question = static_errors(drawn(number), catalog)[1]
        with engine() as asked:
            answer = asked.ask(question)
        yield number, answer["accepted"], answer["reason"]


def kept() -> list[Compared]:
    """The answers of earlier calls."""
    if not KEPT.exists():
        return []
    lines = (json.loads(line) for line in KEPT.read_text().splitlines())
    return [Compared(**line | {"errors": tuple(line["errors"])}) for line in lines]


def unexplained(found: Iterable[Compared]) -> list[str]:
    """Rules that refuse what the engine accepts, without a reason."""
    codes = {code for compared in found if compared.stricter for code in compared.errors}
    return sorted(codes - REASONS.keys())


def main() -> int:
    """Go on where the last call stopped; print and write what came of it."""
    given = _given()
    KEPT.parent.mkdir(exist_ok=True)
    found = kept()
    known = {one.question: (one.accepted, one.reason) for one in found}
    if given.anew:
        KEPT.unlink(missing_ok=True)
        found = []
    deadline = time.monotonic() + 60 * given.minutes
    with KEPT.open("a") as stream:
        for compared in compare(range(len(found), given.draws), deadline, known):
            found.append(compared)
            stream.write(json.dumps(asdict(compared)) + "\n")
    _tell(found)
    differing = _asked_again(found, given.fresh) if given.fresh else 0
    if given.write:
        write(found, given.fresh, differing)
    return 1 if any(c.missed for c in found) or unexplained(found) or differing else 0


def _asked_again(found: list[Compared], many: int) -> int:
    """How many of the answers differ from those of processes that are asked once."""
    step = max(1, len(found) // many)
    chosen = {found[number].question: number for number in range(0, many * step, step)}
    lines = KEPT_FRESH.read_text().splitlines() if KEPT_FRESH.exists() else []
    alone = {entry[0]: (entry[1], entry[2]) for entry in map(json.loads, lines)}
    with KEPT_FRESH.open("a") as stream:
        waiting = [number for question, number in chosen.items() if question not in alone]
        for number, accepted, reason in asked_fresh(waiting):
            alone[found[number].question] = (accepted, reason)
            stream.write(json.dumps((found[number].question, accepted, reason)) + "\n")
            stream.flush()
    differing = 0
    for question, number in chosen.items():
        together = (found[number].accepted, found[number].reason)
        if alone[question] != together:
            differing += 1
            _say(f"draw {number}: {together} in one process, {alone[question]} alone")
    _say(f"asked again in processes of their own: {len(chosen)}, {differing} differ")
    return differing


def write(found: list[Compared], fresh: int, differing: int) -> None:
    """Put the figures into the documentation."""
    put_table("agreement", ("draws", "number"), _counts(found, fresh, differing))
    codes = Counter(code for c in found if c.stricter for code in c.errors)
    rows = [(f"`{code}`", str(count), REASONS.get(code, "")) for code, count in codes.most_common()]
    put_table("stricter", ("rule", "draws", "why it refuses what the engine accepts"), rows)


def _counts(found: list[Compared], fresh: int, differing: int) -> list[tuple[str, str]]:
    """How often who said what."""
    both = sum(c.accepted is True and not c.errors for c in found)
    rows = [
        ("drawn", len(found)),
        ("of these with a field changed", sum(bool(c.field) for c in found)),
        ("accepted by both", both),
        ("refused by both", sum(c.accepted is False and bool(c.errors) for c in found)),
        ("refused by the static check alone", sum(c.stricter for c in found)),
        ("refused by the engine alone", sum(c.missed for c in found)),
        ("not judged by the engine without a GPU", sum(c.accepted is None for c in found)),
    ]
    counted = [(name, f"{number:,}") for name, number in rows]
    if fresh:
        counted.append(
            (f"of {fresh} asked again in a process of its own, differing", f"{differing}")
        )
    return counted


def _tell(found: list[Compared]) -> None:
    """Print what came of it."""
    for name, number in _counts(found, 0, 0):
        _say(f"{number:>6}  {name}")
    for compared in [c for c in found if c.missed][:20]:
        changed = f"{compared.field}={compared.value}"
        _say(f"  MISSED draw {compared.number} {changed}: {compared.reason[:160]}")
    for code, count in Counter(c for f in found if f.stricter for c in f.errors).most_common():
        _say(f"  {count:>5}  {code}  {REASONS.get(code, 'NO REASON')}")
    for reason, count in Counter(c.reason[:100] for c in found if c.accepted is None).most_common(
        5
    ):
        _say(f"  {count:>5}  not judged: {reason}")


def _given() -> Namespace:
    parser = ArgumentParser(description="Compare the static check with the engine's validation.")
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--fresh", type=int, default=0)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--anew", action="store_true")
    return parser.parse_args()


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
