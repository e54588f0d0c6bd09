# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Random runs before the static check and before the engine's own validation: do they agree?

    python -m tests.engine.agreement.compare [--draws 5000] [--fresh 20] [--write]
    python -m tests.engine.agreement.compare --options [--draws 600] [--write]

Each draw is a run of random fields of the spec; in six of ten a single field is then set to
something else. The static check must accept nothing that the engine refuses. Where it refuses what
the engine accepts, each rule that is responsible has a reason (tests/engine/agreement/reasons.py).
`--fresh N` asks N of the questions in processes of their own. `--write` puts the figures into
docs/check-figures.md. `--options` draws healthy runs with any performance options that the rules
allow; `--write` then records in docs/figures/options.json which of them the engine accepted, which
`make options` shows. Needs the worker extra (SEATRIAL_WORKER_PYTHON).
"""

import json
import os
import subprocess
import sys
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from docs.tools.page_parts import ROOT, put, table
from seatrial.catalog.catalog import Catalog
from seatrial.engine_process.package_path import python_path
from seatrial.engine_process.process import worker_python
from seatrial.planning.options import NAMES
from tests.conftest import MEGATRON
from tests.engine.agreement.asking import Question, static_errors
from tests.engine.agreement.drawing import COMBINED, SCHEDULES, combined, drawn
from tests.engine.agreement.reasons import REASONS

PAGE = ROOT / "docs/check-figures.md"
OPTION_FILE = ROOT / "docs/figures/options.json"
DRAWS = 5000
FRESH = 20
ENGINE_SIDE = "tests.engine.agreement.engine_side"


@dataclass(frozen=True, slots=True)
class Compared:
    """What both sides said of a draw."""

    number: int
    field: str
    """What was changed; empty for a healthy run."""
    value: Any
    errors: tuple[str, ...]
    accepted: bool | None
    """Whether the engine accepts; nothing where it cannot be asked on this host."""
    reason: str
    options: tuple[str, ...] = ()
    """The performance options that are on; none for a run without a plan."""

    @property
    def missed(self) -> bool:
        """Whether the static check accepts what the engine refuses."""
        return self.accepted is False and not self.errors

    @property
    def stricter(self) -> bool:
        """Whether the static check refuses what the engine accepts."""
        return self.accepted is True and bool(self.errors)


class Engine:
    def __init__(self) -> None:
        path = os.pathsep.join((python_path(), str(ROOT)))
        self.process = subprocess.Popen(
            [worker_python(MEGATRON), "-m", ENGINE_SIDE],
            env=os.environ | {"PYTHONPATH": path, "PYTHONWARNINGS": "ignore"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=ROOT,
        )

    def request(self, question: Question | str) -> dict[str, Any]:
        self.send(question)
        return self.answer()

    def send(self, question: Question | str) -> None:
        """Give it one line; the caller may do something else before it reads the answer."""
        if self.process.stdin is None:
            raise RuntimeError("the engine's process has no pipe to it")
        line = question if isinstance(question, str) else asdict(question)
        self.process.stdin.write(json.dumps(line) + "\n")
        self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        if self.process.stdout is None:
            raise RuntimeError("the engine's process has no pipe from it")
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError("the engine's process ended")
        found: dict[str, Any] = json.loads(answer)
        return found

    def end(self) -> None:
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.process.wait(timeout=60)
        if self.process.stdout is not None:
            self.process.stdout.close()


@contextmanager
def engine() -> Iterator[Engine]:
    started = Engine()
    try:
        yield started
    finally:
        started.end()


def compare(numbers: Iterable[int]) -> Iterator[Compared]:
    """Put draws before both sides."""
    catalog = Catalog()
    with engine() as asked:
        for number in numbers:
            several = COMBINED <= number < SCHEDULES
            draw = combined(number, catalog) if several else drawn(number)
            errors, question = static_errors(draw, catalog)
            answer = asked.request(question)
            field, value = (draw.change.field, draw.change.value) if draw.change else ("", None)
            accepted, reason = answer["accepted"], answer["reason"]
            yield Compared(number, field, value, errors, accepted, reason, question.options)


def asked_fresh(numbers: Iterable[int]) -> Iterator[tuple[int, bool | None, str]]:
    catalog = Catalog()
    for number in numbers:
        question = static_errors(drawn(number), catalog)[1]
        with engine() as asked:
            answer = asked.request(question)
        yield number, answer["accepted"], answer["reason"]


def unexplained(found: Iterable[Compared]) -> list[str]:
    """Rules that refuse what the engine accepts, without a reason."""
    codes = {code for compared in found if compared.stricter for code in compared.errors}
    return sorted(codes - REASONS.keys())


def main() -> int:
    parser = ArgumentParser(description="Compare the static check with the engine's validation.")
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--fresh", type=int, default=0)
    parser.add_argument("--options", action="store_true")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    first = COMBINED if given.options else 0
    found = list(compare(range(first, first + given.draws)))
    _tell(found)
    if given.options:
        if given.write:
            write_options(found)
        return 1 if any(c.missed for c in found) or unexplained(found) else 0
    chosen = range(0, given.draws, max(1, given.draws // given.fresh)) if given.fresh else ()
    differing = 0
    for number, accepted, reason in asked_fresh(chosen):
        together = (found[number].accepted, found[number].reason)
        if (accepted, reason) != together:
            differing += 1
            print(f"draw {number}: {together} in one process, {(accepted, reason)} alone")
    if given.write:
        write(found, given.fresh, differing)
    return 1 if any(c.missed for c in found) or unexplained(found) or differing else 0


def write(found: list[Compared], fresh: int, differing: int) -> None:
    codes = Counter(code for c in found if c.stricter for code in c.errors)
    rows = [(f"`{code}`", str(count), REASONS.get(code, "")) for code, count in codes.most_common()]
    counts = table(("draws", "number"), _counts(found, fresh, differing))
    stricter = table(("rule", "draws", "why the check rejects what the engine accepts"), rows)
    put(PAGE, {"agreement": counts, "stricter": stricter})


def write_options(found: list[Compared]) -> None:
    """Record, for each option, what the engine says of runs that the check accepts and have it."""
    words = {True: "accepted", False: "refused", None: "not validated"}
    answers = {name: dict.fromkeys(words.values(), 0) for name in NAMES}
    for compared in found:
        for name in compared.options if not compared.errors else ():
            answers[name][words[compared.accepted]] += 1
    command = f"python -m tests.engine.agreement.compare --options --draws {len(found)} --write"
    content = {"command": command, "draws": len(found), "options": answers}
    OPTION_FILE.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _counts(found: list[Compared], fresh: int, differing: int) -> list[tuple[str, str]]:
    both = sum(c.accepted is True and not c.errors for c in found)
    rows = [
        ("drawn", len(found)),
        ("of these with a field changed", sum(bool(c.field) for c in found)),
        ("accepted by both", both),
        ("rejected by both", sum(c.accepted is False and bool(c.errors) for c in found)),
        ("rejected by the static check alone", sum(c.stricter for c in found)),
        ("rejected by the engine alone", sum(c.missed for c in found)),
        ("not validated by the engine without a GPU", sum(c.accepted is None for c in found)),
    ]
    counted = [(name, f"{number:,}") for name, number in rows]
    if fresh:
        counted.append(
            (f"of {fresh} validated again in separate processes, different", f"{differing}")
        )
    return counted


def _tell(found: list[Compared]) -> None:
    for name, number in _counts(found, 0, 0):
        print(f"{number:>6}  {name}")
    for compared in [c for c in found if c.missed][:20]:
        changed = f"{compared.field}={compared.value}"
        print(f"  MISSED draw {compared.number} {changed}: {compared.reason[:160]}")
    for code, count in Counter(c for f in found if f.stricter for c in f.errors).most_common():
        print(f"  {count:>5}  {code}  {REASONS.get(code, 'NO REASON')}")
    for reason, count in Counter(c.reason[:100] for c in found if c.accepted is None).most_common(
        5
    ):
        print(f"  {count:>5}  not validated: {reason}")


if __name__ == "__main__":
    sys.exit(main())
