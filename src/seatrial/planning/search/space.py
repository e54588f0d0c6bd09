# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The valid layouts of a problem, according to the rules that also apply to specs.

A rule about two or three degrees is checked once for each combination, not for every layout.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache, partial

from seatrial.codes.planning import PlanCode
from seatrial.findings import Finding, Severity, Where
from seatrial.planning import batch_rules, layout_rules
from seatrial.planning.layout import Layout
from seatrial.planning.layout_rules import Reporter
from seatrial.planning.plan import Batch
from seatrial.planning.search.candidates import Shape
from seatrial.planning.search.problem import SearchProblem
from seatrial.planning.stages import Stage
from seatrial.spec.parallelism import ParallelismSpec, Sharding
from seatrial.spec.pipeline_layout import parse_layout
from seatrial.spec.scalars import AUTO


@dataclass(slots=True)
class Probe:
    """A reporter that records broken rules and ignores warnings."""

    findings: list[Finding] = field(default_factory=list)
    """The broken rules."""

    def error(self, code: PlanCode, field_name: str, rule: str, value: object, fix: str) -> None:
        """Record a broken rule."""
        where = Where(field=field_name)
        self.findings.append(Finding(code, Severity.ERROR, where, rule, str(value), fix))

    def warning(self, code: PlanCode, field_name: str, rule: str, value: object, fix: str) -> None:
        """Ignore a warning: the estimated time includes its cost."""


def holds(rule: Callable[[Reporter], object]) -> bool:
    """Return True if a rule of layouts or batches is not broken."""
    probe = Probe()
    rule(probe)
    return not probe.findings


LARGEST_MICRO_BATCH = 128
"""Maximum micro-batch size; no run in the back-test has a larger one."""
LEAST_CONTEXT = 4096
"""Minimum tokens per rank if a sequence is split; there are no published timings with fewer."""
Ends = tuple[int | None, int | None]


def divisors(number: int, most: int) -> list[int]:
    """Return the divisors of a number up to a limit."""
    return [n for n in range(1, min(number, most) + 1) if number % n == 0]


def _chosen(given: int | str, possible: list[int]) -> list[int]:
    """Return the value in the spec, or every possible value if it is `auto`."""
    return possible if given == AUTO else [int(given)]


def shapes(problem: SearchProblem, sharding: Sharding) -> Iterator[Shape]:
    """Return every valid shape with a sharding; the number of chunks changes fastest."""
    # Computed once, because it iterates over all layers, and a scaled model has thousands.
    output, etp = problem.output_layers, problem.given.etp_size
    for tp in tensor_parallel_sizes(problem):
        for cp in _context_parallel_sizes(problem, tp):
            split = _sequence_parallel(problem, tp, cp)
            if split is None:
                continue
            for pp in _pipeline_sizes(problem, tp, cp, sharding):
                for ep in _expert_parallel_sizes(problem, tp, cp, pp):
                    layout = Layout(
                        tp_size=tp, cp_size=cp, pp_size=pp, ep_size=ep, etp_size=etp
                    ).spread_over(problem.world_size)
                    if _spans_nodes(problem, layout):
                        continue
                    for own, stages in _staged(problem, layout, output):
                        chunked = replace(layout, vp_size=len(stages[0].chunks))
                        yield Shape(chunked, stages, *own, split, sharding)


def _spans_nodes(problem: SearchProblem, layout: Layout) -> bool:
    """Return True if a group of the layout needs NVLink between nodes."""
    rule = partial(layout_rules.check_node_links, layout=layout, per_node=problem.per_node)
    return problem.groups_within_node and not holds(rule)


def tensor_parallel_sizes(problem: SearchProblem) -> list[int]:
    """Return the valid tp sizes: within the NVLink domain, with no group across nodes."""
    domain = problem.hardware.link_domain_gpus if problem.hardware else problem.per_node
    inside = [
        n
        for n in range(1, max(domain, problem.per_node) + 1)
        if problem.per_node % n == 0 or (n % problem.per_node == 0 and n <= domain)
    ]
    possible = inside if problem.limits.splits_model else [1]
    found = []
    for tp in _chosen(problem.given.tp_size, possible):
        layout = Layout(tp_size=tp, etp_size=problem.given.etp_size)
        if problem.world_size % tp == 0 and holds(
            partial(layout_rules.check_tensor_parallel, model=problem.model, layout=layout)
        ):
            found.append(tp)
    return found


def _context_parallel_sizes(problem: SearchProblem, tp: int) -> list[int]:
    """Return the cp sizes to try: powers of two, because sequences are split into 2 cp chunks."""
    ranks = problem.world_size // tp
    powers = [1 << n for n in range(problem.sequence_length.bit_length())]
    fine = [n for n in powers if n == 1 or problem.sequence_length // n >= LEAST_CONTEXT]
    possible = fine if problem.limits.splits_model else [1]
    return [cp for cp in _chosen(problem.given.cp_size, possible) if ranks % cp == 0]


def _sequence_parallel(problem: SearchProblem, tp: int, cp: int) -> bool | None:
    """Return True if the sequence is split across tp; None if neither choice is valid.

    Splitting costs no time and saves memory, so it is skipped only if it is invalid.
    """
    given = problem.given.sequence_parallel
    ways = (tp > 1, False) if given == AUTO else (given is True and tp > 1,)
    layout = Layout(tp_size=tp, cp_size=cp)
    for split in dict.fromkeys(ways):
        rule = partial(
            layout_rules.check_sequence,
            model=problem.model,
            length=problem.sequence_length,
            layout=layout,
            split=split,
        )
        if holds(rule):
            return split
    return None


def _pipeline_sizes(problem: SearchProblem, tp: int, cp: int, sharding: Sharding) -> list[int]:
    """Return the pp sizes that divide the ranks; the layers are checked per stage size."""
    ranks = problem.world_size // (tp * cp)
    # Megatron's FSDP has no pipeline stages.
    alone = not problem.limits.splits_model or sharding is Sharding.FSDP
    possible = [1] if alone else divisors(ranks, problem.model.layers)
    if problem.given.pipeline_layout is not None:
        stages = len(parse_layout(problem.given.pipeline_layout).stages)
        possible = divisors(stages, stages)
    found = []
    for pp in _chosen(problem.given.pp_size, possible):
        rule = partial(
            layout_rules.check_world,
            world_size=problem.world_size,
            per_node=problem.per_node,
            layout=Layout(tp_size=tp, cp_size=cp, pp_size=pp),
        )
        if holds(rule):
            found.append(pp)
    return found


def _expert_parallel_sizes(problem: SearchProblem, tp: int, cp: int, pp: int) -> list[int]:
    """Return the ep sizes that divide the experts and the ranks of a stage."""
    experts = problem.model.moe.experts if problem.model.moe else 1
    possible = divisors(experts, problem.world_size // pp)
    found = []
    for ep in _chosen(problem.given.ep_size, possible):
        rule = partial(
            layout_rules.check_experts,
            model=problem.model,
            world_size=problem.world_size,
            layout=Layout(
                tp_size=tp,
                cp_size=cp,
                pp_size=pp,
                ep_size=ep,
                etp_size=problem.given.etp_size,
            ),
        )
        if holds(rule):
            found.append(ep)
    return found


def _staged(
    problem: SearchProblem, layout: Layout, output_layers: float
) -> Iterator[tuple[Ends, tuple[Stage, ...]]]:
    """Return each division of the layers into stages, with the sizes of the first and last."""
    given = problem.given
    if given.pipeline_layout is not None:
        custom, pp = given.pipeline_layout, layout.pp_size
        vp = len(parse_layout(custom).stages) // pp
        stages = layout_rules.check_custom_stages(Probe(), problem.model, pp, vp, custom)
        if stages and given.vp_size in (AUTO, vp):
            yield (None, None), stages
        return
    ends: list[Ends] = [(given.first_stage_layers, given.last_stage_layers)]
    counted = given.embedding_as_layer, given.loss_as_layer
    # Uneven ends are tried only if the number of stages is also `auto`.
    if given.pp_size == AUTO and ends == [(None, None)] and not any(counted):
        ends = stage_ends(problem.model.layers, layout.pp_size, output_layers)
    for own in ends:
        for stages in _stagings(problem.model.layers, layout.pp_size, given.vp_size, own, counted):
            yield own, stages


@cache
def _stagings(
    layers: int, pp: int, vp: int | str, ends: Ends, counted: tuple[bool, bool]
) -> list[tuple[Stage, ...]]:
    """Return every valid division of stages into chunks, the fewest chunks first."""
    spec = ParallelismSpec(
        first_stage_layers=ends[0],
        last_stage_layers=ends[1],
        embedding_as_layer=counted[0],
        loss_as_layer=counted[1],
    )
    whole = layout_rules.check_stages(Probe(), layers, pp, 1, spec)
    if not whole:
        return []
    share = min(len(stage.chunks[0]) for stage in whole)
    if any(counted):
        share = (layers + sum(counted)) // pp
    cuts = _chosen(vp, divisors(share, share) if pp > 1 else [1])
    cut = (layout_rules.check_stages(Probe(), layers, pp, chunks, spec) for chunks in cuts)
    return [stages for stages in cut if stages]


@cache
def stage_ends(layers: int, pp: int, output_layers: float) -> list[Ends]:
    """Return the sizes of the first and last stage to try: even, and best balanced.

    The slowest stage determines the step time, and the last one also computes the logits, which
    cost as much as `output_layers`. Among all sizes with equal stages in between, the best balanced
    one is tried if it is better than even stages.
    """
    even: list[Ends] = [(None, None)] if layers % pp == 0 else []
    if pp == 1:
        return even
    best, pace = None, (layers / pp + output_layers if even else float("inf"), 0.0)
    for middle in range(1, layers + 1) if pp > 2 else (0,):
        both = layers - middle * (pp - 2)
        if both < 2:
            break
        last = min(max(1, round((both - output_layers) / 2)), both - 1)
        others = max(middle, both - last)
        slowest = max(others, last + output_layers)
        # If the last stage is the slowest in any case, the others are balanced for memory.
        if (slowest, others) < pace:
            best, pace = (both - last, last), (slowest, others)
    return [*even, best] if best else even


def batches(problem: SearchProblem, layout: Layout, tolerance: float) -> Iterator[tuple[int, int]]:
    """Return the valid micro-batch and global batch sizes, the smallest micro-batch first."""
    powers = [1 << n for n in range(LARGEST_MICRO_BATCH.bit_length())]
    for micro in _chosen(problem.micro_batch_size, powers):
        total = _global_batch(problem, layout, micro)
        if abs(total - problem.target_batch) > tolerance * problem.target_batch:
            continue
        rule = partial(
            batch_rules.check_batch,
            micro=micro,
            total=total,
            layout=layout,
            length=problem.sequence_length,
        )
        if holds(rule) and _early_batches_fit(problem, layout, micro, total):
            yield micro, total


def _early_batches_fit(problem: SearchProblem, layout: Layout, micro: int, total: int) -> bool:
    """True if the layout can also use the smaller batch sizes at the start of the run."""
    if not problem.early_batches:
        return True
    batch = Batch(micro, total, 0, 0)
    rule = batch_rules.check_early_batches
    return holds(lambda report: rule(report, problem.early_batches, batch, layout))


def _global_batch(problem: SearchProblem, layout: Layout, micro: int) -> int:
    """Return the global batch size in the spec, or the divisible one nearest to the target."""
    if problem.global_batch_size != AUTO:
        return int(problem.global_batch_size)
    unit = micro * layout.dp_size * (layout.pp_size if layout.vp_size > 1 else 1)
    return max(1, round(problem.target_batch / unit)) * unit
