# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Compare the layouts that the planner chooses with published tuned configurations.

    python -m backtest.tuned_layouts   # a line for each configuration, half a minute

The model, GPU, precision, sequence length and batch are those of the published configuration. Both
layouts are predicted with the planner's options, on nodes as a launch gets them: NVLink does not
leave a node. Layers that do not divide evenly are spread over the published stages.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from backtest.rows import spread
from backtest.tuned_options import basis_of, configurations, layout_of
from seatrial.catalog.catalog import Catalog
from seatrial.planning.memory.breakdown import MemoryFit
from seatrial.planning.memory.estimate import every_stage
from seatrial.planning.planner import PlannedRun, plan_run
from seatrial.planning.search.candidates import Candidate, Priced, Shape
from seatrial.planning.search.explain import WITHIN_NOISE, causes, room, times
from seatrial.planning.timing.step_time import step_time
from seatrial.spec.parallelism import Recompute, Sharding


@dataclass(frozen=True, slots=True)
class Compared:
    """A published configuration beside the planner's."""

    model: str
    machines: str
    theirs: Priced
    ours: Priced
    spans_nodes: bool
    """True if the published layout needs NVLink between nodes."""

    @property
    def ratio(self) -> float:
        """How many times as fast the planner's layout is predicted to be."""
        return self.theirs.time.total / self.ours.time.total

    @property
    def is_equal(self) -> bool:
        return words(self.theirs.candidate) == words(self.ours.candidate)

    @property
    def phrase(self) -> str:
        """Why the layouts differ; empty if there is no explanation."""
        if self.is_equal:
            return "equal"
        reasons = [*self._excluded()]
        if self.ratio < 1 - WITHIN_NOISE and not reasons:
            return ""
        return "; ".join([*reasons, self._speed()])

    def _excluded(self) -> Iterator[str]:
        """Return why the planner does not choose the published layout, besides its speed."""
        need = self.theirs.memory
        if self.spans_nodes:
            yield "theirs needs NVLink between nodes, which pods do not get"
        if need.verdict is MemoryFit.DOES_NOT_FIT:
            yield f"theirs needs {room(need)}"
        elif need.verdict is MemoryFit.RISKY and self.ours.memory.verdict is MemoryFit.FITS:
            yield f"theirs might not fit ({room(need)})"
        across = self.theirs.sends_copies_across and not self.ours.sends_copies_across
        if across and not self.spans_nodes:
            yield "ours keeps experts inside a node"
        stages = self.theirs.candidate.shape.stages
        if len({len(chunk) for stage in stages for chunk in stage.chunks}) > 1:
            yield "theirs needs a custom pipeline layout"

    def _speed(self) -> str:
        """Return how the predicted times compare."""
        wins = self.ratio > 1
        slower, faster = (self.theirs, self.ours) if wins else (self.ours, self.theirs)
        if abs(self.ratio - 1) < WITHIN_NOISE:
            return "predicted equally fast"
        found = " and ".join(cause.saved for cause in causes(slower, faster))
        title, ratio = ("ours", self.ratio) if wins else ("theirs", 1 / self.ratio)
        return f"by prediction, {title} {times(ratio)} from {found}"


def compared(row: dict[str, str], catalog: Catalog) -> Compared:
    """Plan a published configuration, and predict both layouts."""
    run = plan_run(basis_of(row, catalog))
    if run.chosen is None or run.constants is None:
        raise SystemExit(f"{row['model']} on {row['node_type']} has no prediction.")
    theirs = _priced(row, run)
    layout, per_node = theirs.candidate.shape.layout, run.plan.machines.processes_per_node
    widest = max(layout.tp_size * layout.cp_size, layout.ep_size * layout.etp_size)
    return Compared(
        row["model"],
        f"{row['gpus']} {row['gpu']}, {row['precision']}",
        theirs,
        run.chosen,
        run.problem.groups_within_node and widest > per_node,
    )


def _priced(row: dict[str, str], run: PlannedRun) -> Priced:
    """Predict the published layout with the planner's options."""
    layout = layout_of(row)
    stages = spread(run.plan.model.architecture.layers, layout.pp_size, layout.vp_size)
    split = row["sequence_parallel"] == "true"
    shape = Shape(layout, stages, None, None, split, Sharding.OPTIMIZER)
    candidate = Candidate(
        shape, int(row["micro_batch"]), int(row["global_batch"]), Recompute(row["recompute"])
    )
    if run.problem.hardware is None or run.constants is None:
        raise SystemExit(f"{row['node_type']} has no GPUs.")
    workload = run.problem.workload(candidate, run.problem.hardware)
    time = step_time(workload, run.constants)
    return Priced(candidate, workload, every_stage(workload), time)


def words(candidate: Candidate) -> str:
    """Return a layout, micro-batch and recomputation: `tp 4 · pp 2, mb 1, recompute none`."""
    sizes = candidate.shape.layout.words("tp", "pp", "vp", "cp", "ep", always=("tp", "pp"))
    return f"{sizes}, mb {candidate.micro_batch_size}, recompute {candidate.recompute}"


def layout_rows(found: list[Compared]) -> Iterator[tuple[str, ...]]:
    """Return a line for each configuration."""
    for each in found:
        yield (
            each.model,
            each.machines,
            words(each.theirs.candidate),
            words(each.ours.candidate),
            f"{each.theirs.time.total:.2f} s",
            f"{each.ours.time.total:.2f} s",
            each.phrase or "NOT EXPLAINED",
        )


HEAD = (
    *("model", "GPUs", "published layout", "our layout"),
    *("published, predicted", "ours, predicted", "difference"),
)


def comparisons() -> list[Compared]:
    """Return every published configuration beside the planner's."""
    catalog = Catalog()
    return [compared(row, catalog) for row in configurations()]


def main() -> None:
    """Print the comparison; exit with 1 if a difference has no explanation."""
    found = comparisons()
    for line in layout_rows(found):
        print(" | ".join(line))
    if any(not each.phrase for each in found):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
