# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The work at risk between two saves, by default and as the user sets it."""

import random

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.errors import FindingsError
from seatrial.planning.planner import PlannedRun, plan_run
from seatrial.planning.resolve import resolve_basis
from seatrial.planning.run_budget import budget_of
from seatrial.planning.saving.run_saves import MOST_AT_RISK
from seatrial.planning.search.verdicts import lost_time
from seatrial.recipes.shipped import recipe, recipe_names
from seatrial.spec.loader import loads
from tests.unit.planning.search.asked import OPEN

HOUR = 3600.0
MODELS = ("gpt3-125m", "gpt3-1.3b", "gpt3-7.5b", "llama2-7b", "llama2-13b", "llama2-70b")
MACHINES = (
    ("eks", "p4d.24xlarge", ("fsx-lustre-125", "fsx-lustre-1000")),
    ("hyperpod-eks", "ml.p5.48xlarge", ("fsx-lustre-250",)),
    ("aks", "Standard_ND96isr_H100_v5", ("amlfs-40", "amlfs-500", "azure-blob")),
)


def planned(catalog: Catalog, *overrides: str, text: str = OPEN) -> PlannedRun:
    """The plan of the open spec, or of another one, with overrides."""
    return plan_run(resolve_basis(loads(text, "run.yaml", overrides), catalog))


def at_risk(run: PlannedRun, catalog: Catalog) -> float | None:
    """Hours of work between two saves; None without GPUs."""
    saves = budget_of(run, catalog).saves
    if saves is None or run.chosen is None:
        return None
    assert saves.at_risk == pytest.approx(run.plan.save_every_steps * run.chosen.time.total)
    return saves.at_risk / HOUR


def random_spec(generator: random.Random) -> list[str]:
    """Overrides for a random model, cluster and length, with everything else left open."""
    profile, node_type, tiers = generator.choice(MACHINES)
    nodes, tier = generator.choice((4, 8, 16, 32)), generator.choice(tiers)
    changes = [
        f"model.preset={generator.choice(MODELS)}",
        f"training.tokens={generator.choice((1, 20, 150, 2000))}B",
        f"cluster={{profile: {profile}, node_type: {node_type}, "
        f"nodes: {nodes}, storage: {{tier: {tier}}}}}",
    ]
    if generator.random() < 0.5:
        changes.append(f"cluster.failures_per_gpu_year={generator.choice((0.01, 1, 100))}")
    if generator.random() < 0.3:
        changes.append(f"checkpoints.keep_every_steps={generator.choice((1000, 5000, 7919))}")
    return changes


def test_recipes_and_random_specs_risk_at_most_two_hours(catalog: Catalog) -> None:
    risks: dict[str, float] = {}
    for name in recipe_names():
        for change in ((), ("checkpoints.every_steps=auto",)):
            risk = at_risk(planned(catalog, *change, text=recipe(name).text), catalog)
            if risk is not None:
                risks[" ".join((name, *change))] = risk
    generator = random.Random(26)  # noqa: S311
    planned_specs = 0
    while planned_specs < 200:
        changes = random_spec(generator)
        try:
            run = planned(catalog, *changes)
        except FindingsError:
            # Too large for these machines.
            continue
        risk = at_risk(run, catalog)
        assert risk is not None
        risks[" ".join(changes)] = risk
        planned_specs += 1
    where = max(risks, key=lambda name: risks[name])
    print(f"largest default risk: {risks[where]:.2f} hours, {where}")  # noqa: T201
    assert risks[where] <= MOST_AT_RISK / HOUR == 2.0


@pytest.mark.parametrize(
    ("field", "hours"),
    [("every_minutes=30", 0.5), ("every_hours=6", 6.0), ("every_hours=0.25", 0.25)],
)
def test_an_interval_can_be_given_as_a_time(catalog: Catalog, field: str, hours: float) -> None:
    run = planned(catalog, f"checkpoints.{field}")
    assert run.chosen is not None
    risk = at_risk(run, catalog)
    assert risk is not None
    # Whole steps, rounded down.
    assert hours - run.chosen.time.total / HOUR < risk <= hours
    assert run.plan.origins["checkpoints.every_steps"] == "you"


def test_a_timed_interval_divides_the_permanent_one(catalog: Catalog) -> None:
    run = planned(catalog, "checkpoints={every_hours: 6, keep_every_steps: 1000}")
    risk = at_risk(run, catalog)
    assert risk is not None
    assert 3.0 < risk <= 6.0
    assert 1000 % run.plan.save_every_steps == 0


def test_a_short_run_saves_at_its_end(catalog: Catalog) -> None:
    run = planned(catalog, "checkpoints.every_hours=500", "training={steps: 20}")
    assert run.plan.save_every_steps == 20


@pytest.mark.parametrize(
    ("checkpoints", "both"),
    [
        ("{every_steps: 100, every_hours: 1}", "every_steps or every_hours"),
        ("{every_steps: 100, every_minutes: 10}", "every_steps or every_minutes"),
        ("{every_minutes: 30, every_hours: 1}", "every_minutes or every_hours"),
    ],
)
def test_intervals_exclude_each_other(catalog: Catalog, checkpoints: str, both: str) -> None:
    with pytest.raises(FindingsError) as caught:
        planned(catalog, f"checkpoints={checkpoints}")
    assert [finding.fix for finding in caught.value.findings] == [f"Keep {both}, not both."]


def test_without_gpus_an_interval_is_given_in_steps(catalog: Catalog) -> None:
    local = ("cluster={profile: local, processes_per_node: 2}", "model.preset=gpt3-125m")
    with pytest.raises(FindingsError) as caught:
        planned(catalog, *local, "checkpoints.every_minutes=10")
    (finding,) = caught.value.findings
    assert finding.fix == "Use checkpoints.every_steps instead."
    assert finding.value == "10"


def test_fields_that_are_not_set_change_no_digest(catalog: Catalog) -> None:
    assert "every_hours" not in str(planned(catalog).plan.to_dict())
    assert "every_hours" in str(planned(catalog, "checkpoints.every_hours=1").plan.to_dict())


def test_a_loss_that_the_limit_causes_names_the_interval_that_loses_least(
    catalog: Catalog,
) -> None:
    overrides = (
        "cluster.nodes=16",
        "model.preset=llama2-70b",
        "cluster.storage.tier=fsx-lustre-125",
    )
    loaded = loads(OPEN, "run.yaml", overrides)
    run = plan_run(resolve_basis(loaded, catalog))
    (finding,) = lost_time(loaded, run, budget_of(run, catalog).saves)
    assert "Save less often: checkpoints.every_hours=" in finding.fix


def test_a_measured_throughput_replaces_that_of_the_tier(catalog: Catalog) -> None:
    def write(storage: str) -> tuple[float | None, bool]:
        cluster = f"{{profile: onprem, node_type: onprem-8xh100, nodes: 4, storage: {storage}}}"
        saves = budget_of(planned(catalog, f"cluster={cluster}"), catalog).saves
        assert saves is not None
        assert saves.write_seconds[saves.tier] == saves.budget.write_seconds
        return saves.budget.write_seconds, saves.assumed

    assert write("{claim: shared}") == (None, True)
    slow, assumed = write("{claim: shared, write_gb_s: 2}")
    assert slow is not None
    assert not assumed
    fast, _ = write("{claim: shared, write_gb_s: 4}")
    assert fast == pytest.approx(slow / 2)
