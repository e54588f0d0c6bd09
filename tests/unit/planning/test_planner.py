# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Filling what is auto: where values come from, what is said when nothing fits."""

from pathlib import Path

import pytest

from seatrial.catalog.catalog import Catalog, Kind
from seatrial.engines.megatron.command_line import engine_arguments
from seatrial.errors import FindingsError
from seatrial.planning.choices import LAYOUT_FIELDS, SAVES
from seatrial.planning.memory.breakdown import MemoryFit
from seatrial.planning.plan import Origin
from seatrial.planning.planner import plan_run
from seatrial.planning.resolve import resolve_basis
from seatrial.planning.run_budget import budget_of, duration_of
from seatrial.planning.saving.interval import Losses
from seatrial.planning.search.verdicts import lost_time, verdicts
from seatrial.recipes.shipped import recipe, recipe_names
from seatrial.rehearsal.twin import TwinData, twins
from seatrial.spec.loader import load
from seatrial.spec.parallelism import Sharding
from tests.conftest import loaded as written
from tests.conftest import plan_spec
from tests.unit.planning.search.asked import asked, opened


def refusals(catalog: Catalog, *overrides: str) -> list[str]:
    """What is said of an open spec that cannot be planned."""
    with pytest.raises(FindingsError) as caught:
        plan_run(resolve_basis(opened(*overrides), catalog))
    return [f"{f.code} {f.where.field}: {f.rule} {f.fix}" for f in caught.value.findings]


def test_every_open_field_is_filled_and_says_by_whom(catalog: Catalog) -> None:
    run = plan_run(resolve_basis(opened(), catalog))
    assert {*LAYOUT_FIELDS, SAVES} - set(run.choices) == {"parallelism.ep_size"}
    origins = run.plan.origins
    assert origins["parallelism.tp_size"] is Origin.PLANNER
    assert origins["parallelism.recompute"] is Origin.PLANNER
    assert origins["checkpoints.every_steps"] is Origin.PLANNER
    assert origins["parallelism.ep_size"] is Origin.DEFAULT
    assert origins["training.global_batch_size"] is Origin.CATALOG
    assert run.plan.batch.global_batch_size == 512
    assert run.chosen is not None
    assert run.chosen.memory.verdict is MemoryFit.FITS


def test_a_filled_plan_is_the_plan_of_the_numbers_written_out(catalog: Catalog) -> None:
    run = plan_run(resolve_basis(opened(), catalog))
    numbers = [f"{field}={str(value).lower()}" for field, value in run.choices.items()]
    assert plan_spec(opened(*numbers), catalog).digest == run.plan.digest


def test_a_spec_without_auto_resolves_as_before(catalog: Catalog) -> None:
    run = plan_run(resolve_basis(written(), catalog), alternatives=True)
    assert run.choices == {}
    assert run.plan == plan_spec(written(), catalog)
    assert not run.searched
    assert run.outcome is not None


@pytest.mark.parametrize("name", recipe_names())
def test_recipes_can_be_planned(catalog: Catalog, name: str) -> None:
    path = recipe(name).path
    run = plan_run(resolve_basis(load(path), catalog))
    assert run.plan == plan_spec(load(path), catalog)
    assert (run.chosen is None) == (run.plan.machines.accelerator == "")


@pytest.mark.parametrize("name", recipe_names())
def test_recipes_can_be_left_to_the_planner(catalog: Catalog, name: str) -> None:
    loaded = load(recipe(name).path, ("parallelism={}", "training.micro_batch_size=auto"))
    run = plan_run(resolve_basis(loaded, catalog))
    if run.chosen is not None:
        assert run.chosen.memory.verdict is not MemoryFit.DOES_NOT_FIT


def test_azures_defaults_are_refused_with_the_reason(catalog: Catalog) -> None:
    lines = refusals(
        catalog, "model.preset=175b", "parallelism.tp_size=8", "parallelism.pp_size=16"
    )
    assert lines == [
        "ST-LAYOUT-001 cluster.nodes: 16 ranks are not divisible by tp 8 × pp 16 = 128. Use "
        "nodes in multiples of 16, or parallelism.pp_size=2."
    ]


def test_a_given_value_that_no_layout_keeps_is_named(catalog: Catalog) -> None:
    assert refusals(catalog, "parallelism.tp_size=3")[0].startswith(
        "ST-LAYOUT-003 parallelism.tp_size: 32 attention heads are not divisible by tp_size 3."
        " Use tp_size 1, 2, 4 or 8."
    )
    assert refusals(catalog, "training.global_batch_size=7", "parallelism.pp_size=1")[0].startswith(
        "ST-BATCH-002 training.global_batch_size: 7 sequences are not divisible by"
    )


def test_what_does_not_fit_says_what_is_nearest_and_what_would(catalog: Catalog) -> None:
    (line,) = refusals(catalog, "model.preset=gpt3-175b")
    assert line.startswith(
        "ST-PLAN-011 cluster.nodes: no layout fits on 16 × a100-40gb: the nearest layout,"
    )
    nodes = int(line.split("Use at least ")[1].split()[0])
    fitting = plan_run(
        resolve_basis(opened("model.preset=gpt3-175b", f"cluster.nodes={nodes}"), catalog)
    )
    assert fitting.chosen is not None
    assert fitting.chosen.memory.verdict is MemoryFit.FITS
    # One fewer is refused, or is said to be a risk.
    fewer = opened("model.preset=gpt3-175b", f"cluster.nodes={nodes - 1}")
    try:
        found = verdicts(fewer, plan_run(resolve_basis(fewer, catalog)))
        codes = [finding.code for finding in found if finding.code != "ST-TIME-001"]
    except FindingsError as error:
        codes = [finding.code for finding in error.findings]
    assert codes in (["ST-PLAN-011"], ["ST-PLAN-012"])


def test_a_given_layout_that_does_not_fit_is_an_error_with_a_way_out(catalog: Catalog) -> None:
    given = written("parallelism.tp_size=1", "parallelism.sequence_parallel=false")
    (finding,) = verdicts(given, plan_run(resolve_basis(given, catalog)))
    assert finding.code == "ST-PLAN-011"
    assert finding.rule.startswith("the layout does not fit: stage 0 needs ")
    assert finding.fix == ("Set parallelism and micro_batch_size to auto, for which a layout fits.")


def test_the_batch_keeps_the_published_tokens(catalog: Catalog) -> None:
    run = plan_run(
        resolve_basis(opened("model.preset=llama2-7b", "training.sequence_length=2048"), catalog)
    )
    assert run.plan.batch.tokens_per_step == 1024 * 4096
    odd = plan_run(resolve_basis(opened("model.preset=llama2-7b", "cluster.nodes=3"), catalog))
    assert odd.plan.batch.global_batch_size == pytest.approx(1024, rel=1 / 8)
    assert odd.plan.origins["training.global_batch_size"] is not Origin.YOU


def test_a_host_without_gpus_divides_as_little_as_it_can(catalog: Catalog) -> None:
    local = "cluster={profile: local, processes_per_node: 4}"
    run = plan_run(resolve_basis(opened("model.preset=gpt3-125m", local), catalog))
    assert (run.plan.layout.dp_size, run.plan.layout.world_size) == (4, 4)
    assert run.chosen is None
    assert run.outcome is None
    divided = plan_run(
        resolve_basis(opened("model.preset=gpt3-125m", local, "parallelism.tp_size=2"), catalog)
    )
    assert (divided.plan.layout.tp_size, divided.plan.layout.dp_size) == (2, 2)


def test_llm_foundry_is_not_cut(catalog: Catalog) -> None:
    run = plan_run(resolve_basis(opened("model.preset=mpt-7b", "engine.name=llm-foundry"), catalog))
    assert run.plan.layout.dp_size == run.plan.layout.world_size
    assert run.plan.sharding in (Sharding.NONE, Sharding.FSDP)


def test_saves_divide_what_is_kept_for_good(catalog: Catalog) -> None:
    run = plan_run(resolve_basis(opened("checkpoints.keep_every_steps=5000"), catalog))
    assert 5000 % run.plan.save_every_steps == 0


def test_saves_lose_least_among_what_divides(catalog: Catalog) -> None:
    run = plan_run(resolve_basis(opened("checkpoints.keep_every_steps=30014"), catalog))
    # 30,014 = 2 × 43 × 349. 15,007 loses least of all, but puts more than two hours at risk.
    lost = {}
    for every in (43, 86, 349):
        fixed = opened("checkpoints.keep_every_steps=30014", f"checkpoints.every_steps={every}")
        saves = budget_of(plan_run(resolve_basis(fixed, catalog)), catalog).saves
        assert saves is not None
        assert saves.budget.lost is not None
        lost[every] = saves.budget.lost.total
    assert run.plan.save_every_steps == min(lost, key=lambda every: lost[every]) == 349


def test_what_is_kept_after_the_end_does_not_change_the_saves(catalog: Catalog) -> None:
    kept = plan_run(resolve_basis(opened("checkpoints.keep_every_steps=1000000007"), catalog))
    assert (
        kept.plan.save_every_steps
        == plan_run(resolve_basis(opened(), catalog)).plan.save_every_steps
        > 100
    )


def test_a_short_run_is_not_told_to_save_after_its_end(catalog: Catalog) -> None:
    loaded = opened("training.tokens=3M")
    run = plan_run(resolve_basis(loaded, catalog))
    saves = budget_of(run, catalog).saves
    assert saves is not None
    assert run.plan.length.steps == saves.budget.best_every_steps == run.plan.save_every_steps
    (finding,) = lost_time(loaded, run, saves)
    assert finding.fix.startswith("Accept this lost time")


def test_a_choice_of_the_planner_is_not_told_to_be_left_to_it(catalog: Catalog) -> None:
    loaded = opened("checkpoints.keep_every_steps=7")
    run = plan_run(resolve_basis(loaded, catalog))
    assert run.plan.save_every_steps == 7
    (finding,) = lost_time(loaded, run, budget_of(run, catalog).saves)
    assert "auto" not in finding.fix
    written = opened("checkpoints.keep_every_steps=7", "checkpoints.every_steps=1")
    own = plan_run(resolve_basis(written, catalog))
    (advice,) = lost_time(written, own, budget_of(own, catalog).saves)
    assert advice.fix == "Set checkpoints.every_steps to auto, or to 7."


def test_choices_of_another_spec_are_not_taken(catalog: Catalog) -> None:
    other = plan_run(resolve_basis(opened("cluster.nodes=3"), catalog))
    with pytest.raises(FindingsError):
        plan_run(resolve_basis(opened(), catalog), kept=other.choices)


@pytest.mark.parametrize("name", Catalog().names(Kind.MODELS))
def test_every_model_fits_somewhere(catalog: Catalog, name: str) -> None:
    engine = f"engine.name={catalog.model(name).engine}"
    overrides = (f"model.preset={name}", engine, "cluster.node_type=p5.48xlarge")
    run = plan_run(resolve_basis(opened(*overrides, "cluster.nodes=64"), catalog))
    assert run.chosen is not None
    assert run.chosen.memory.verdict is not MemoryFit.DOES_NOT_FIT


def test_a_gpu_that_nobody_measured_is_said(catalog: Catalog, tmp_path: Path) -> None:
    (tmp_path / "accelerators.toml").write_text(
        '[mi300x]\nlike = "h200-141gb"\ntitle = "Another GPU"\nsource = "made up here"\n'
    )
    (tmp_path / "node_types.toml").write_text('["p5.48xlarge"]\naccelerator = "mi300x"\n')
    own = Catalog([tmp_path])
    loaded = opened("cluster.node_type=p5.48xlarge")
    (finding,) = verdicts(loaded, plan_run(resolve_basis(loaded, own)))
    assert finding.code == "ST-PLAN-014"
    assert finding.rule.startswith("the step time is not fitted to published runs on mi300x")
    assert verdicts(opened(), plan_run(resolve_basis(opened(), catalog))) == []


def test_a_planned_run_can_be_rehearsed(catalog: Catalog) -> None:
    loaded = opened("cluster.nodes=5", "parallelism.tp_size=4")
    run = plan_run(resolve_basis(loaded, catalog))
    made = twins(loaded, run.plan, catalog, TwinData((), ""))
    assert made
    assert engine_arguments(run.plan)["tensor-model-parallel-size"] == 4


@pytest.mark.parametrize(
    ("overrides", "size"),
    [
        ((), 4),
        (("training.precision=fp16",), 2),
        (("training.precision=fp16", "engine.options.accumulate-allreduce-grads-in-fp32=true"), 4),
        (("engine.options.grad-reduce-in-bf16=true",), 2),
    ],
)
def test_gradients_are_as_wide_as_the_engine_keeps_them(
    catalog: Catalog, overrides: tuple[str, ...], size: int
) -> None:
    assert asked(catalog, *overrides).limits.gradient_bytes == size


def test_much_lost_time_is_said_with_what_would_save_it(catalog: Catalog) -> None:
    large = ("model.preset=llama3-405b", "cluster.node_type=p5.48xlarge", "cluster.nodes=2048")
    loaded = opened(*large, "checkpoints.every_steps=2", "training.tokens=15T")
    run = plan_run(resolve_basis(loaded, catalog))
    budget = budget_of(run, catalog)
    assert budget.duration is not None
    (finding,) = lost_time(loaded, run, budget.saves)
    assert finding.code == "ST-TIME-003"
    assert finding.value == f"{100 * (1 - budget.duration.training / budget.duration.total):.0f} %"
    assert finding.fix.startswith("Set checkpoints.every_steps to auto, or to ")
    best = opened(*large, "training.tokens=15T")
    chosen = plan_run(resolve_basis(best, catalog))
    (left,) = lost_time(best, chosen, budget_of(chosen, catalog).saves)
    assert "with cluster.storage.tier=fsx-lustre-1000" in left.fix
    small = plan_run(resolve_basis(opened(), catalog))
    assert lost_time(opened(), small, budget_of(small, catalog).saves) == []


def test_a_run_that_cannot_get_from_save_to_save_has_no_length() -> None:
    assert duration_of(100.0, Losses(0.0, 1.0)) is None
    length = duration_of(100.0, Losses(0.1, 0.1))
    assert length is not None
    assert length.total == pytest.approx(125.0)
    assert (length.saving, length.failures) == pytest.approx((12.5, 12.5))


def test_what_goes_beyond_the_fitted_runs_is_noted(catalog: Catalog) -> None:
    loaded = opened("cluster.nodes=12500", "training.global_batch_size=400000")
    found = [
        f
        for f in verdicts(loaded, plan_run(resolve_basis(loaded, catalog)))
        if f.code == "ST-TIME-001"
    ]
    assert "100,000 GPUs, fitted up to " in found[0].rule
    within = opened()
    codes = [finding.code for finding in verdicts(within, plan_run(resolve_basis(within, catalog)))]
    assert "ST-TIME-001" not in codes
