# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Score the diagnosis on a set of recorded failures.

    python -m backtest.diagnosis tests/data/failures/first [--only-wrong]

A failure is right when its cause is the first that is named. A wrong first cause is a confident
one when it is named as certain or likely; `unknown` never is.
"""

import argparse
import hashlib
import tomllib
from dataclasses import dataclass
from pathlib import Path

from seatrial.monitoring.diagnosis.diagnosis import Diagnosis, diagnose
from seatrial.monitoring.diagnosis.evidence import Evidence, EvidenceKind, text_file
from seatrial.monitoring.diagnosis.knowledge import UNKNOWN, Certainty


@dataclass(frozen=True, slots=True)
class Score:
    """One failure, and what was said of it."""

    name: str
    cause: str
    diagnosis: Diagnosis

    @property
    def is_right(self) -> bool:
        return self.diagnosis.first == self.cause

    @property
    def is_confident(self) -> bool:
        """Whether the first cause was named as more than possible."""
        causes = self.diagnosis.causes
        return bool(causes) and causes[0].certainty is not Certainty.POSSIBLE


def scores(directory: Path) -> list[Score]:
    return [_score(case.parent) for case in sorted(directory.glob("*/case.toml"))]


def _score(directory: Path) -> Score:
    case = tomllib.loads((directory / "case.toml").read_text(encoding="utf-8"))
    files = tuple(
        text_file(
            entry["file"],
            (directory / entry["file"]).read_text(encoding="utf-8", errors="replace"),
            EvidenceKind(entry["kind"]),
        )
        for entry in case["evidence"]
    )
    return Score(case["id"], case["cause"], diagnose(Evidence(files)))


def frozen(directory: Path) -> bool:
    """Whether the set is as it was when it was frozen."""
    for line in (directory / "SHA256SUMS").read_text(encoding="utf-8").splitlines():
        digest, _, name = line.partition("  ")
        if hashlib.sha256((directory / name).read_bytes()).hexdigest() != digest:
            return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("set", type=Path)
    parser.add_argument("--only-wrong", action="store_true")
    chosen = parser.parse_args()
    found = scores(chosen.set)
    for score in found:
        if score.is_right and chosen.only_wrong:
            continue
        named = [f"{cause.key} ({cause.certainty})" for cause in score.diagnosis.causes[:3]]
        mark = "right" if score.is_right else "WRONG"
        print(f"{mark}  {score.name:<36} {score.cause:<28} {', '.join(named) or UNKNOWN}")
    right = sum(score.is_right for score in found)
    confident = sum(score.is_confident and not score.is_right for score in found)
    print(f"right cause first: {right} of {len(found)} ({right / len(found):.1%})")
    print(f"confident and wrong: {confident}")
    print(f"set unchanged since it was frozen: {'yes' if frozen(chosen.set) else 'NO'}")


if __name__ == "__main__":
    main()
