# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The search: valid layouts, pruned, and ranked by tokens per second per GPU.

Most layouts are pruned before their time is estimated:

- More recomputation saves memory and costs time, so for a layout and micro-batch, only the least
  recomputation that fits is estimated.
- A larger micro-batch needs more memory, so no larger one is tried after one that does not fit.
- Chunks keep more micro-batches in flight, so if one chunk per stage does not fit, more do not.
- Chunks only shorten the pipeline bubble, so they are skipped if the bubble of the plain schedule
  is smaller than the time that they would have to save.
"""

import heapq
from dataclasses import dataclass, field, replace

from seatrial.planning.memory.breakdown import Memory, MemoryFit
from seatrial.planning.memory.estimate import memory
from seatrial.planning.search.candidates import Candidate, Lacking, Priced, SearchOutcome, Shape
from seatrial.planning.search.problem import SearchProblem, allow_all
from seatrial.planning.search.space import batches, shapes
from seatrial.planning.timing.breakdown import TimePart
from seatrial.planning.timing.constants import TimingConstants
from seatrial.planning.timing.error_bars import time_error
from seatrial.planning.timing.step_time import StepTimer, interleaved_bubble
from seatrial.planning.workload import Hardware, Workload
from seatrial.spec.parallelism import Recompute, Sharding

BATCH_TOLERANCE = 1 / 8
"""Maximum relative distance of an `auto` global batch size from its target, if possible."""
ANY_BATCH = float("inf")
"""The tolerance if no layout is near the target: the nearest batch sizes that fit count."""
AS_FAST = 0.005
"""A gain that is not significant: for one combination of degrees, the search keeps the first
candidate, with the smaller micro-batch, fewer chunks and even stages."""
HOPELESS = 2.0
"""A layout that certainly fits is not worth it if it is slower by this factor."""
TOLD = 4
"""Number of layouts whose exact rank matters: the best, its comparisons, and one more."""
Degrees = tuple[int, int, int, int]
Form = tuple[int, ...]
"""The key of layouts that compete: the degrees, and the batch size if any size is allowed."""


def search(problem: SearchProblem, hardware: Hardware, constants: TimingConstants) -> SearchOutcome:
    """Return the valid layouts that fit, fastest first; if none fits, the layouts that might fit.

    A layout that might fit also wins if all layouts that certainly fit are far slower (`_weighed`).
    A layout whose experts are inside an NVLink domain wins if no other is clearly faster.
    """
    return prefer_experts_inside(_fastest(problem, hardware, constants), problem, constants)


def prefer_experts_inside(
    outcome: SearchOutcome, problem: SearchProblem, constants: TimingConstants
) -> SearchOutcome:
    """Return the outcome with a layout first whose experts are inside an NVLink domain.

    Only if the best layout sends every copy of a token across nodes, and is faster by no more than
    the error of the time. How fast this traffic is depends on the fabric and on other jobs.
    """
    best = outcome.best
    if best is None or not best.sends_copies_across:
        return outcome
    for position, found in enumerate(outcome.ranked):
        if found.sends_copies_across:
            continue
        off = time_error(found.workload, constants, problem.limits).median
        if best.rate > found.rate * (1 + off):
            break
        others = (*outcome.ranked[:position], *outcome.ranked[position + 1 :])
        return replace(outcome, ranked=(found, *others))
    return outcome


def _fastest(
    problem: SearchProblem, hardware: Hardware, constants: TimingConstants
) -> SearchOutcome:
    """Return the valid layouts, fastest first."""
    passes: list[_Pass] = []
    timer = StepTimer(problem.model, hardware, constants)
    for tolerance in (BATCH_TOLERANCE, ANY_BATCH):
        before: _Pass | None = None
        for options in shardings(problem):
            found = _Pass(problem, hardware, constants, timer, tolerance)
            found.run(options)
            if found.fitting:
                return _weighed(found.outcome(), before) if before else found.outcome()
            passes.append(found)
            before = found
    if not any(found.legal for found in passes) and problem.allows is not allow_all:
        # `check` reports why the engine rejects the options.
        return _fastest(replace(problem, allows=allow_all), hardware, constants)
    for found in passes:
        if found.risky:
            found.price_risky()
            return found.outcome()
    return next((found.outcome() for found in passes if found.lacking), passes[-1].outcome())


def _weighed(sure: SearchOutcome, before: "_Pass") -> SearchOutcome:
    """Return the layouts that certainly fit, or the preferred ones that might fit.

    A trial of a few steps takes minutes and shows whether a layout fits. So a layout whose estimate
    fits wins if it is faster by more than the error of the certain layout's time, and any layout
    that might fit wins if the certain one is far too slow.
    """
    if before.risky:
        before.price_risky()
    might = before.outcome()
    best, likely = sure.best, might.best
    if best is None or likely is None:
        return replace(sure, instead=might.lacking[0] if might.lacking else None)
    off = time_error(best.workload, before.constants, before.problem.limits).median
    worth = 1 + off if likely.memory.headroom >= 0 else HOPELESS
    if likely.rate > best.rate * worth:
        return replace(might, instead=best)
    return replace(sure, instead=likely)


def shardings(problem: SearchProblem) -> list[tuple[Sharding, ...]]:
    """Return the shardings to try in groups; the first group with a layout that fits wins.

    `_weighed` compares the second group with the first.
    """
    given = problem.given.sharding
    return list(problem.limits.shardings) if given is Sharding.AUTO else [(given,)]


def recomputes(problem: SearchProblem) -> tuple[Recompute, ...]:
    """Return the recomputation modes to try, from the fastest to the least memory."""
    given = problem.given.recompute
    return problem.limits.recomputes if given is Recompute.AUTO else (given,)


def off_target(problem: SearchProblem, batch: int) -> float:
    """Return the relative distance of a global batch size from the target."""
    return abs(batch - problem.target_batch) / problem.target_batch


@dataclass
class _Pass:
    """One pass over the valid layouts."""

    problem: SearchProblem
    hardware: Hardware
    constants: TimingConstants
    timer: StepTimer
    tolerance: float
    fitting: dict[Form, Priced] = field(default_factory=dict)
    risky: list[tuple[Candidate, Workload, Memory]] = field(default_factory=list)
    lacking: dict[Degrees, Lacking] = field(default_factory=dict)
    plain: dict[tuple[int, int], Priced] = field(default_factory=dict)
    told: float = 0.0
    nearest: float = ANY_BATCH
    legal: int = 0
    priced: int = 0

    def run(self, options: tuple[Sharding, ...]) -> None:
        """Consider every valid shape."""
        for sharding in options:
            hopeless: tuple[Degrees, int | None, int | None] | None = None
            before: tuple[Degrees, int | None, int | None] | None = None
            for shape in shapes(self.problem, sharding):
                key = (shape.degrees, shape.first_stage_layers, shape.last_stage_layers)
                whole = shape.layout.vp_size == 1
                if key != before:
                    self.plain.clear()
                    before = key
                if key != hopeless and not self.consider(shape) and whole:
                    hopeless = key

    def consider(self, shape: Shape) -> bool:
        """Estimate the candidates that fit; return False if even the smallest does not fit."""
        ways = [way for way in recomputes(self.problem) if self.problem.allows(shape, way)]
        if not ways:
            return True
        smallest = True
        for micro, total in batches(self.problem, shape.layout, self.tolerance):
            self.legal += 1
            if self.too_far(total):
                smallest = False
                continue
            wins = not self.cannot_win(shape, micro, total)
            if wins and not any(self.take(Candidate(shape, micro, total, way)) for way in ways):
                least = Candidate(shape, micro, total, ways[-1])
                return not smallest or self.might_fit(least)
            smallest = False
        return True

    def cannot_win(self, shape: Shape, micro: int, total: int) -> bool:
        """Return True if chunks cannot close the gap from the plain schedule to the best layouts.

        These are the best layout with the same degrees, and the few that are reported at the end.
        """
        plain = self.plain.get((micro, total))
        chunks = shape.layout.vp_size
        if plain is None or chunks == 1:
            return False
        bubble = plain.time.parts.get(TimePart.BUBBLE, 0.0)
        saved = bubble - interleaved_bubble(bubble, chunks)
        best = max(self.fitting[self.form(shape, total)].rate, self.told)
        return plain.rate * plain.time.total <= best * (plain.time.total - saved)

    def form(self, shape: Shape, total: int) -> Form:
        """Return the key of layouts that compete by speed: degrees, and batch if any is allowed."""
        return (*shape.degrees, total) if self.tolerance == ANY_BATCH else shape.degrees

    def too_far(self, total: int) -> bool:
        """Return True if a layout with a much nearer batch size fits, so that speed does not count.

        A larger batch is nearly always faster, so speed alone would choose the largest batch.
        """
        return off_target(self.problem, total) > (1 + self.nearest) * (1 + BATCH_TOLERANCE) - 1

    def might_fit(self, candidate: Candidate) -> bool:
        """Return True if the variant with the least memory might fit; otherwise record it."""
        need = memory(self.problem.workload(candidate, self.hardware))
        if need.verdict is not MemoryFit.DOES_NOT_FIT:
            return True
        degrees = candidate.shape.degrees
        known = self.lacking.get(degrees)
        if known is None or need.fullest.total < known.memory.fullest.total:
            self.lacking[degrees] = Lacking(candidate, need)
        return False

    def take(self, candidate: Candidate) -> bool:
        """Estimate a candidate if it fits; return True if it does."""
        workload = self.problem.workload(candidate, self.hardware)
        need = memory(workload)
        if need.verdict is MemoryFit.RISKY:
            self.risky.append((candidate, workload, need))
        if need.verdict is not MemoryFit.FITS:
            return False
        self.price(candidate, workload, need)
        return True

    def price(self, candidate: Candidate, workload: Workload, need: Memory) -> None:
        """Estimate the time, and keep the candidate if it is the best for its degrees."""
        self.priced += 1
        found = Priced(candidate, workload, need, self.timer.step_time(workload))
        if candidate.shape.layout.vp_size == 1:
            self.plain[candidate.micro_batch_size, candidate.global_batch_size] = found
        self.nearest = min(self.nearest, off_target(self.problem, candidate.global_batch_size))
        form = self.form(candidate.shape, candidate.global_batch_size)
        known = self.fitting.get(form)
        if known is None or found.rate > known.rate * (1 + AS_FAST):
            self.fitting[form] = found
            if found.rate > self.told and self.tolerance != ANY_BATCH:
                rates = heapq.nlargest(TOLD, (other.rate for other in self.fitting.values()))
                self.told = rates[-1] if len(rates) == TOLD else 0.0

    def price_risky(self) -> None:
        """Estimate candidates that might fit, preferably those whose own estimate fits."""
        likely = [entry for entry in self.risky if entry[2].headroom >= 0]
        for candidate, workload, need in likely or self.risky:
            self.price(candidate, workload, need)

    def outcome(self) -> SearchOutcome:
        ranked = sorted(self.best_of_degrees().values(), key=lambda found: -found.rate)
        fitting = {found.candidate.shape.degrees for found in self.fitting.values()}
        lacking = [found for degrees, found in self.lacking.items() if degrees not in fitting]
        lacking.sort(key=lambda found: found.memory.fullest.total)
        risky = bool(ranked) and ranked[0].memory.verdict is MemoryFit.RISKY
        return SearchOutcome(tuple(ranked), tuple(lacking), risky, self.legal, self.priced)

    def best_of_degrees(self) -> dict[Degrees, Priced]:
        """Return the fastest layout for each combination of degrees and the nearest batch sizes."""
        best: dict[Degrees, Priced] = {}
        for found in self.fitting.values():
            degrees = found.candidate.shape.degrees
            if self.too_far(found.candidate.global_batch_size):
                continue
            if degrees not in best or found.rate > best[degrees].rate * (1 + AS_FAST):
                best[degrees] = found
        return best
