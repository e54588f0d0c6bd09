# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The search finds what trying everything finds, and emits nothing that a rule forbids."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.errors import FindingsError
from seatrial.planning.choices import Choice
from seatrial.planning.memory.breakdown import MemoryFit
from seatrial.planning.memory.estimate import memory
from seatrial.planning.plan import Plan
from seatrial.planning.planner import plan_run
from seatrial.planning.resolve import resolve_basis
from seatrial.planning.search.candidates import Priced, SearchOutcome
from seatrial.planning.search.choose import candidate_of, choices_of, constants_of
from seatrial.planning.search.problem import SearchProblem
from seatrial.planning.search.search import AS_FAST, search
from seatrial.planning.search.space import stage_ends
from seatrial.planning.timing.step_time import step_time
from seatrial.spec.parallelism import Recompute, Sharding
from tests.unit.planning.search.asked import ODD_LAYERS, SMALL_MOE, asked, opened

Sizes = tuple[int, ...]


def found(problem: SearchProblem) -> SearchOutcome:
    """The answer of the search."""
    constants = constants_of(problem)
    assert problem.hardware is not None
    assert constants is not None
    return search(problem, problem.hardware, constants)


def legal_plans(catalog: Catalog, overrides: tuple[str, ...], eps: Sizes) -> Iterator[Plan]:
    """Every plan that resolving accepts, by trying all: no rule of the search's own is used."""
    basis = resolve_basis(opened(*overrides), catalog)
    sizes = product(
        (1, 2, 4, 8), (1, 2, 4, 8), (1, 2, 3, 4, 6, 9, 12, 18), eps, (1, 2, 4, 8, 16, 32)
    )
    for tp, pp, vp, ep, micro in sizes:
        for split in (True, False) if tp > 1 else (False,):
            choices: dict[str, Choice] = {
                "parallelism.tp_size": tp,
                "parallelism.pp_size": pp,
                "parallelism.vp_size": vp,
                "parallelism.cp_size": 1,
                "parallelism.ep_size": ep,
                "parallelism.sequence_parallel": split,
                "parallelism.sharding": "optimizer",
                "parallelism.recompute": "none",
                "training.micro_batch_size": micro,
                "checkpoints.every_steps": 1,
            }
            try:
                yield plan_run(basis, kept=choices).plan
            except FindingsError:
                continue


def best_of_all(
    catalog: Catalog, problem: SearchProblem, overrides: tuple[str, ...], eps: Sizes
) -> Priced:
    """The fastest of all legal plans that fit, with every way to shard and to recompute."""
    constants = constants_of(problem)
    assert problem.hardware is not None
    assert constants is not None
    best: Priced | None = None
    for plan in legal_plans(catalog, overrides, eps):
        for sharding, recompute in product(
            (Sharding.NONE, Sharding.OPTIMIZER), list(Recompute)[1:]
        ):
            candidate = candidate_of(plan)
            shape = replace(candidate.shape, sharding=sharding)
            candidate = replace(candidate, shape=shape, recompute=recompute)
            workload = problem.workload(candidate, problem.hardware)
            need = memory(workload)
            if need.verdict is not MemoryFit.FITS:
                continue
            priced = Priced(candidate, workload, need, step_time(workload, constants))
            if best is None or priced.rate > best.rate:
                best = priced
    assert best is not None
    return best


CASES = {
    "dense on a node": (
        "model.preset=gpt3-1.3b",
        "cluster.nodes=1",
        "training.global_batch_size=64",
    ),
    "memory is short": (
        "model.preset=gpt3-7.5b",
        "cluster.nodes=1",
        "training.global_batch_size=32",
    ),
    "few micro-batches": (
        "model.preset=gpt3-7.5b",
        "cluster.nodes=1",
        "training.global_batch_size=8",
    ),
    "experts": (SMALL_MOE, "cluster.nodes=1", "training.global_batch_size=32"),
}


@pytest.mark.parametrize("case", CASES)
def test_the_search_finds_what_trying_everything_finds(catalog: Catalog, case: str) -> None:
    overrides = CASES[case]
    problem = asked(catalog, *overrides)
    eps = (1, 2, 4, 8) if problem.model.moe else (1,)
    best = best_of_all(catalog, problem, overrides, eps)
    chosen = found(problem).best
    assert chosen is not None
    # Uneven stages, which are not tried here, may be better still.
    assert chosen.rate >= best.rate / (1 + AS_FAST)


def test_what_counts_as_a_layer_is_kept(catalog: Catalog) -> None:
    problem = asked(
        catalog,
        "model.preset=llama3-405b",
        "cluster.node_type=p5.48xlarge",
        "cluster.nodes=64",
        "parallelism.pp_size=8",
        "parallelism.embedding_as_layer=true",
        "parallelism.loss_as_layer=true",
    )
    shapes = [p.candidate.shape for p in found(problem).ranked]
    assert 8 in {shape.layout.vp_size for shape in shapes}
    for shape in shapes:
        first, *middle, last = (len(stage.layers) for stage in shape.stages)
        assert (first, set(middle), last) == (15, {16}, 15)


def test_uneven_ends_are_as_good_as_any(catalog: Catalog) -> None:
    given = (ODD_LAYERS, "cluster.nodes=1", "training.global_batch_size=32")
    problem = asked(catalog, *given, "parallelism.tp_size=2", "parallelism.vp_size=1")
    chosen = max(
        (p for p in found(problem).ranked if p.candidate.shape.layout.pp_size == 4),
        key=lambda p: p.rate,
    )
    rates = []
    for first, last in product(range(1, 13), range(1, 13)):
        ends = (
            "parallelism.tp_size=2",
            "parallelism.vp_size=1",
            "parallelism.pp_size=4",
            f"parallelism.first_stage_layers={first}",
            f"parallelism.last_stage_layers={last}",
        )
        fixed = found(asked(catalog, *given, *ends)).best
        rates.append(fixed.rate if fixed else 0.0)
    assert max(rates) > 0
    assert chosen.rate >= 0.99 * max(rates)


@pytest.mark.parametrize(
    "overrides",
    [
        (),
        ("model.preset=llama3-405b", "cluster.node_type=p5.48xlarge", "cluster.nodes=64"),
        ("model.preset=mixtral-8x7b", "cluster.node_type=p5.48xlarge", "cluster.nodes=3"),
        ("model.preset=qwen3-30b-a3b", "cluster.node_type=p5.48xlarge"),
        ("model.preset=gpt3-7.5b", "cluster.nodes=7"),
        ("model.preset=mpt-7b", "engine.name=llm-foundry"),
        ("model.preset=llama3-8b", "training.sequence_length=8192", "cluster.nodes=5"),
    ],
    ids=lambda overrides: "-".join(overrides) or "as it is",
)
def test_every_emitted_layout_keeps_the_rules(catalog: Catalog, overrides: tuple[str, ...]) -> None:
    problem = asked(catalog, *overrides)
    outcome = found(problem)
    assert outcome.ranked
    for priced in outcome.ranked:
        basis = resolve_basis(opened(*overrides), catalog)
        plan = plan_run(basis, kept=choices_of(priced.candidate, basis)).plan
        assert plan.layout == priced.candidate.shape.layout
        assert plan.stages == priced.candidate.shape.stages


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("parallelism.tp_size", 8),
        ("parallelism.pp_size", 4),
        ("parallelism.vp_size", 3),
        ("parallelism.cp_size", 2),
        ("parallelism.sequence_parallel", False),
        ("parallelism.sharding", "none"),
        ("parallelism.recompute", "full"),
        ("parallelism.last_stage_layers", 6),
        ("training.micro_batch_size", 1),
        ("training.global_batch_size", 96),
        ("checkpoints.every_steps", 7),
    ],
)
def test_given_fields_are_kept(catalog: Catalog, field: str, value: int | bool | str) -> None:
    run = plan_run(resolve_basis(opened(f"{field}={str(value).lower()}"), catalog))
    section, _, key = field.partition(".")
    assert getattr(getattr(run.plan.spec, section), key) == value
    assert field not in run.choices
    known = {
        "parallelism.tp_size": run.plan.layout.tp_size,
        "parallelism.pp_size": run.plan.layout.pp_size,
        "parallelism.vp_size": run.plan.layout.vp_size,
        "parallelism.cp_size": run.plan.layout.cp_size,
        "training.micro_batch_size": run.plan.batch.micro_batch_size,
        "training.global_batch_size": run.plan.batch.global_batch_size,
    }
    assert known.get(field, value) == value


def test_the_ranking_is_by_tokens_per_second(catalog: Catalog) -> None:
    outcome = found(asked(catalog))
    rates = [priced.rate for priced in outcome.ranked]
    assert rates == sorted(rates, reverse=True)
    assert len({p.candidate.shape.degrees for p in outcome.ranked}) == len(rates)
    assert all(priced.memory.verdict is MemoryFit.FITS for priced in outcome.ranked)
    assert outcome.priced < outcome.legal


def test_what_might_fit_is_taken_only_where_nothing_fits(catalog: Catalog) -> None:
    problem = asked(catalog, "model.preset=gpt3-18.4b", "cluster.nodes=1")
    hardware = problem.hardware
    assert hardware is not None
    verdicts = set()
    for share in range(10, 40):
        tight = replace(hardware, memory_bytes=hardware.memory_bytes * share // 20)
        outcome = found(replace(problem, hardware=tight))
        if outcome.best:
            assert outcome.risky == (outcome.best.memory.verdict is MemoryFit.RISKY)
            verdicts.add(outcome.best.memory.verdict)
        else:
            assert outcome.lacking
            verdicts.add(MemoryFit.DOES_NOT_FIT)
    assert verdicts == set(MemoryFit)


def test_the_last_stage_gets_fewer_layers_with_multi_token_prediction(catalog: Catalog) -> None:
    plain = asked(catalog, ODD_LAYERS)
    more = asked(catalog, ODD_LAYERS.replace("layers: 15", "layers: 15, mtp_layers: 2"))
    # Two layers, their logits and the projections of their inputs.
    logits = plain.output_layers
    joined = 2 * 4096 / 128_000 * logits
    assert more.output_layers == pytest.approx(logits + 2 * (1 + logits + joined))
    layers = plain.model.layers
    first, last = stage_ends(layers, 3, more.output_layers)[-1]
    assert (first, last) == (7, 1)
    usual = stage_ends(layers, 3, plain.output_layers)[-1]
    assert usual[1] is not None
    assert usual[1] > 1
