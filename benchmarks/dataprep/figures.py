# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""From measurements to figures, each beside the bar that it is held to."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.dataprep.corpora import Corpus

ROUNDS = 3
QUIET = 0.25
"""Cores that other programs may keep busy before wall times can no longer be compared.

Ray's own processes count as others, because nobody waits for them: about 0.1 over a benchmark.
"""

Runs = Mapping[str, list[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Figure:
    """A number and what it should be."""

    name: str
    value: float
    unit: str
    """Its unit; × for a ratio."""
    at_least: float | None = None
    """The bar, where more is better."""
    at_most: float | None = None
    """The bar, where less is better."""

    @property
    def met(self) -> bool | None:
        """Whether the bar is met; nothing when there is none."""
        if self.at_least is not None:
            return self.value >= self.at_least
        return self.value <= self.at_most if self.at_most is not None else None


class Best:
    def __init__(self, runs: Runs) -> None:
        self._runs = runs

    def __contains__(self, name: str) -> bool:
        return name in self._runs

    def cpu(self, name: str) -> float:
        return min(float(run["cpu"]) for run in self._runs[name])

    def wall(self, name: str) -> float:
        return min(float(run["wall"]) for run in self._runs[name])

    def memory(self, name: str) -> int:
        return max(int(run["memory"]) for run in self._runs[name])

    def found(self, name: str, key: str) -> float:
        return min(float(run["found"][key]) for run in self._runs[name])

    def phases(self, name: str) -> dict[str, float]:
        """Wall time of the phases in the quickest run."""
        quickest = min(self._runs[name], key=lambda run: float(run["wall"]))
        return dict(quickest["found"]["phases"])


def figures(
    runs: Runs, corpora: Mapping[str, Mapping[str, Corpus]], *, judged: bool = True
) -> list[Figure]:
    """All figures that the measurements give; those of a few megabytes are held to no bar."""
    best = Best(runs)
    found: list[Figure] = []
    for part in ("english", "multilingual"):
        if part in corpora:
            found += _of_part(best, part, corpora[part])
    if "ray x2 repeated" in best:
        found += _of_ray(best, runs, corpora["repeated"]["full"])
    return found if judged else [replace(f, at_least=None, at_most=None) for f in found]


def _of_part(best: Best, part: str, forms: Mapping[str, Corpus]) -> list[Figure]:
    """The figures of English, or of the other languages."""
    full, cut = forms["full"].megabytes, forms["slice"].megabytes
    tiny, whole, cut_name = f"{part}-tiny", part, forms["slice"].name
    base_start, base_cut = best.cpu(f"baseline {tiny}"), best.cpu(f"baseline {cut_name}")
    # The baseline on all of it, from its start-up and its rate on the slice.
    base_rate = cut / (base_cut - base_start)
    base_full = base_start + full / base_rate
    start, ours, one = (
        best.cpu(f"local {name}") for name in (f"x2 {tiny}", f"x2 {whole}", f"x1 {whole}")
    )
    start_one = best.cpu(f"local x1 {tiny}")
    bare = best.found(f"bare {whole}", "cpu")
    text = best.found(f"bare {whole}", "text_bytes") / 1e6
    rate = full / (ours - start)
    rows = [
        Figure(f"{part}: JSON lines", full, "MB"),
        Figure(f"{part}: tokens", best.found(f"bare {whole}", "tokens") / 1e6, "M"),
        Figure(f"{part}: baseline, start-up", base_start, "CPU-s"),
        Figure(f"{part}: baseline, after start-up ({cut:.0f} MB)", base_rate, "MB/CPU-s"),
        Figure(f"{part}: ours, start-up", start, "CPU-s"),
        Figure(f"{part}: ours, whole, 2 workers", ours, "CPU-s"),
        Figure(f"{part}: ours, after start-up", rate, "MB/CPU-s"),
        Figure(f"{part}: bare encode", text / bare, "MB text/CPU-s"),
        Figure(f"{part}: CPU of baseline / ours, with start-up", base_full / ours, "×", 25),
        Figure(f"{part}: CPU of baseline / ours, after start-up", rate / base_rate, "×", 42),
        Figure(
            f"{part}: CPU of ours after start-up / bare encode",
            (one - start_one) / bare,
            "×",
            at_most=1.5,
        ),
    ]
    if cut_name != whole:
        ratio = base_cut / best.cpu(f"local x2 {cut_name}")
        rows.append(
            Figure(f"{part}: the same on the {cut:.0f} MB alone, with start-up", ratio, "×")
        )
    if part == "english":
        # The other corpus is a few tasks only.
        rows += _of_workers(best, part, tiny)
    memory = best.memory(f"local x2 {whole}") / 2**20
    rows.append(Figure(f"{part}: largest process", memory, "MiB", at_most=1024))
    return rows


def _of_workers(best: Best, part: str, tiny: str) -> list[Figure]:
    walls = [best.wall(f"local x{workers} {part}") for workers in (1, 2)]
    starts = [best.wall(f"local x{workers} {tiny}") for workers in (1, 2)]
    phases = [best.phases(f"local x{workers} {part}") for workers in (1, 2)]
    after = (walls[0] - starts[0]) / (walls[1] - starts[1])
    rows = [
        Figure(f"{part}: wall of 1 / 2 workers, after start-up", after, "×", 1.8),
        Figure(f"{part}: wall of 1 / 2 workers, whole", walls[0] / walls[1], "×"),
    ]
    rows += [
        Figure(f"{part}: wall, {phase}, {workers + 1} workers", seconds, "s")
        for workers in (0, 1)
        for phase, seconds in phases[workers].items()
    ]
    return rows


def _of_ray(best: Best, runs: Runs, corpus: Corpus) -> list[Figure]:
    pool = best.wall("local x2 repeated")
    ray = min(float(run["wall"]) - run["found"]["ray_start"] for run in runs["ray x2 repeated"])
    return [
        Figure("repeated 6 times: JSON lines", corpus.megabytes, "MB"),
        Figure("repeated 6 times: wall of the pool", pool, "s"),
        Figure("repeated 6 times: Ray's start", best.found("ray x2 repeated", "ray_start"), "s"),
        Figure(
            "repeated 6 times: wall of Ray without its start / pool", ray / pool, "×", at_most=1.25
        ),
    ]


def caveat(result: Mapping[str, Any]) -> str:
    """What keeps the figures from being final; empty when nothing does."""
    reasons = []
    rounds = min(len(runs) for runs in result["runs"].values())
    if rounds < ROUNDS:
        reasons.append(f"{rounds} of {ROUNDS} rounds")
    others, cores = float(result["machine"]["cores_of_others"]), result["machine"]["cores"]
    if others > QUIET:
        reasons.append(f"other programs kept {others:.1f} of {cores} cores busy meanwhile")
    if not reasons:
        return ""
    return (
        f"Provisional: {' and '.join(reasons)}. Ratios of wall times (workers, Ray) then say "
        "nothing, whatever stands beside them, and those of CPU times little near their bar."
    )


def table(found: list[Figure]) -> str:
    lines = [f"{'':58} {'measured':>10} {'':14} {'target':>8}"]
    for figure in found:
        bar = ""
        if figure.met is not None:
            sign = "≥" if figure.at_least is not None else "≤"
            bar = f"{sign} {figure.at_least if figure.at_least is not None else figure.at_most:g}"
        verdict = {None: "", True: "met", False: "NOT MET"}[figure.met]
        digits = 3 if abs(figure.value) < 1 else 2 if abs(figure.value) < 100 else 0
        value = f"{figure.value:,.{digits}f}"
        lines.append(f"{figure.name:58} {value:>10} {figure.unit:14} {bar:>8}  {verdict}".rstrip())
    return "\n".join(lines)


def page_text(result: Mapping[str, Any], found: list[Figure]) -> str:
    machine, note = result["machine"], caveat(result)
    packages = ", ".join(f"{name} {text}" for name, text in machine["packages"].items())
    rounds = max(len(runs) for runs in result["runs"].values())
    head = f"{machine['cores']} cores of {machine['cpu']}, Python {machine['python']}, {packages}."
    load = f"Best of {rounds}; other programs kept {machine['cores_of_others']:.2f} cores busy."
    return f"{head} {load}{f'\n\n**{note}**' if note else ''}\n\n```text\n{table(found)}\n```"
