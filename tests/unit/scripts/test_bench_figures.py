# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0

import sys
from pathlib import Path
from typing import Any

import pytest

from scripts.bench.corpora import Corpus
from scripts.bench.figures import STAGES, Best, Figure, caveat, figures, table
from scripts.bench.measured import measure


def corpus(name: str, megabytes: float) -> Corpus:
    return Corpus(name, (), Path("run.yaml"), int(megabytes * 1e6))


def run(cpu: float, wall: float = 1.0, found: object = None) -> dict[str, Any]:
    return {"cpu": cpu, "wall": wall, "memory": 1 << 20, "found": found}


def measured() -> dict[str, Figure]:
    forms = {
        "tiny": corpus("english-tiny", 0.02),
        "slice": corpus("english-slice", 80),
        "full": corpus("english", 320),
    }
    prepared = {"phases": {"preparing": 1.0}}
    runs = {
        "baseline english-tiny": [run(10), run(12)],
        "baseline english-slice": [run(99), run(90)],
        "local x1 english-tiny": [run(1, 1.0, prepared)],
        "local x2 english-tiny": [run(2, 1.0, prepared)],
        "local x2 english-slice": [run(3, 2.0, prepared)],
        "local x1 english": [run(5, 9.0, prepared)],
        "local x2 english": [run(6, 5.0, prepared)],
        "stages english": [run(9, 9.0, dict.fromkeys(STAGES, 1.0))],
        "bare english": [run(9, 9.0, {"cpu": 3.2, "tokens": 80e6, "text_bytes": 310e6})],
    }
    return {f.name: f for f in figures(runs, {"english": forms})}


def test_the_baseline_is_carried_over_from_its_slice() -> None:
    found = measured()
    # The best of two rounds: 10 CPU-s of start-up, 80 CPU-s for 80 MB; so 330 for all of it.
    assert found["english: CPU of baseline / ours, with start-up"].value == pytest.approx(330 / 6)
    assert found["english: CPU of baseline / ours, after start-up"].value == pytest.approx(80)


def test_ratios_leave_the_start_up_out() -> None:
    found = measured()
    bare = found["english: CPU of ours after start-up / bare encode"]
    assert bare.value == pytest.approx(4 / 3.2)
    assert bare.met
    assert found["english: wall of 1 / 2 workers, after start-up"].value == pytest.approx(2)


def test_a_figure_below_its_bar_is_printed_as_such() -> None:
    lines = table([Figure("speed", 24, "×", 25), Figure("memory", 1, "MiB", at_most=2)])
    assert "≥ 25  NOT MET" in lines
    assert lines.endswith("met")


def test_cpu_of_grandchildren_counts() -> None:
    burn = "import time\nwhile time.process_time() < 0.3: pass"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}])"
    assert measure([sys.executable, "-c", code]).cpu >= 0.3


def test_a_program_that_fails_ends_the_benchmark_with_its_words() -> None:
    with pytest.raises(SystemExit, match="sorry"):
        measure([sys.executable, "-c", "raise SystemExit('sorry')"])


@pytest.mark.parametrize(
    ("rounds", "others", "words"),
    [(3, 0.1, ""), (1, 0.1, "1 of 3 rounds"), (3, 1.5, "1.5 of 2 cores")],
)
def test_figures_that_are_not_final_say_so(rounds: int, others: float, words: str) -> None:
    found = caveat(
        {"runs": {"a": [1] * rounds}, "machine": {"cores": 2, "cores_of_others": others}}
    )
    assert words in found
    assert bool(found) == bool(words)


def test_stages_are_those_of_one_run() -> None:
    found = [(1, 1, 5, 1, 8), (2, 2, 3, 0, 7)]
    runs = [run(9, 9.0, dict(zip(STAGES, values, strict=True))) for values in found]
    assert Best({"stages english": runs}).stages("english")["decompressing"] == 2
