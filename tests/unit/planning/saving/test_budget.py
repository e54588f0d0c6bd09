# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What the checkpoints of a run take in all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.catalog.catalog import Catalog, Kind
from seatrial.catalog.storage import StoragePrice
from seatrial.planning.saving.save_budget import SavedRun, save_budget
from seatrial.planning.saving.size import kept_checkpoints, too_large, usd_per_month, volume_bytes
from seatrial.spec.checkpoints import CheckpointsSpec
from seatrial.spec.training import Precision

TIB = 1 << 40
GIB = 1 << 30

RUN = SavedRun(
    parameters=7_470_000_000,
    precision=Precision.BF16,
    nodes=2,
    node_bandwidth=50e9,
    steps=71_526,
    step_seconds=42.8,
    between_failures=9 * 86_400.0,
)


def test_the_newest_the_permanent_and_the_one_in_progress() -> None:
    kept = kept_checkpoints(1000, 100, 3, 500)
    # While step 1000 is written: 700, 800 and 900 are the newest, 500 is permanent.
    assert (kept.latest, kept.permanent, kept.in_progress, kept.total) == (3, 1, 1, 5)
    assert kept_checkpoints(1000, 100, 3, None).total == 4
    assert kept_checkpoints(100, 100, 3, None).total == 1


@given(
    steps=st.integers(1, 3000),
    every=st.integers(1, 400),
    last=st.integers(1, 5),
    permanent=st.none() | st.integers(1, 1000),
)
def test_the_count_is_that_of_a_run_that_is_played_through(
    steps: int, every: int, last: int, permanent: int | None
) -> None:
    lying: list[int] = []
    most = 0
    for step in [*range(every, steps, every), steps]:
        most = max(most, len(lying) + 1)
        lying.append(step)
        latest = lying[-last:]
        lying = [n for n in lying if n in latest or (permanent and n % permanent == 0)]
    assert kept_checkpoints(steps, every, last, permanent).total == most


def test_a_volume_comes_in_the_steps_of_its_tier(catalog: Catalog) -> None:
    tier = catalog.storage("amlfs-125")
    assert volume_bytes(TIB, tier) == 16 * TIB
    assert volume_bytes(17 * TIB, tier) == 32 * TIB
    assert volume_bytes(5, catalog.storage("azure-blob")) == 5
    assert not too_large(4096 * TIB, tier)
    assert too_large(4097 * TIB, tier)


def test_capacity_costs_what_the_catalog_says(catalog: Catalog) -> None:
    tier = catalog.storage("fsx-lustre-250")
    price = StoragePrice(
        usd_per_gib_month=0.2, as_of="2026-10", region="us-east-1", source="a made-up price"
    )
    assert usd_per_month(10 * GIB, tier.model_copy(update={"price": price})) == pytest.approx(2.0)
    assert usd_per_month(10 * GIB, tier.model_copy(update={"price": None})) is None


def test_the_budget_of_a_run(catalog: Catalog) -> None:
    tier = catalog.storage("fsx-lustre-1000")
    budget = save_budget(RUN, CheckpointsSpec(), tier, volume=5 * TIB)
    assert budget.size == 14 * RUN.parameters
    assert budget.write_seconds == pytest.approx(budget.size / 5e9)
    assert budget.every_steps == budget.best_every_steps
    assert budget.every_steps is not None
    # sqrt(2 x 20.9 s x 9 days) is 95 minutes.
    assert budget.every_steps * RUN.step_seconds / 60 == pytest.approx(95, abs=1)
    assert budget.lost is not None
    assert 0.004 < budget.lost.total < 0.01
    assert budget.kept is not None
    assert budget.capacity == 4 * budget.size
    assert budget.volume >= budget.capacity


def test_a_chosen_interval_is_kept_and_priced(catalog: Catalog) -> None:
    spec = CheckpointsSpec(every_steps=10, keep_every_steps=10_000)
    budget = save_budget(RUN, spec, catalog.storage("fsx-lustre-125"))
    assert budget.every_steps == 10
    assert budget.best_every_steps is not None
    assert budget.best_every_steps > 10
    assert budget.lost is not None
    assert budget.lost.saving > 0.1
    assert budget.kept is not None
    assert budget.kept.permanent == 7


def test_an_unknown_bandwidth_leaves_the_interval_to_the_user(catalog: Catalog) -> None:
    run = SavedRun(10**9, Precision.BF16, 2, None, 1000, 1.0, 1e6)
    budget = save_budget(run, CheckpointsSpec(), catalog.storage("azure-blob"))
    assert budget.write_seconds is None
    assert budget.every_steps is None
    assert budget.lost is None
    assert budget.capacity == 4 * budget.size
    # Failures are known where the time of a save is not.
    given = save_budget(run, CheckpointsSpec(every_steps=100), catalog.storage("azure-blob"))
    assert given.lost is not None
    assert given.lost.saving == 0.0
    assert given.lost.failures > 0.0


def test_every_tier_of_the_catalog_has_a_budget(catalog: Catalog) -> None:
    tiers = {name: catalog.storage(name) for name in catalog.names(Kind.STORAGE)}
    result = [save_budget(RUN, CheckpointsSpec(), tier) for tier in tiers.values()]
    # A quarter of the bandwidth for each TiB takes four times as long on as large a volume.
    slow = save_budget(RUN, CheckpointsSpec(), tiers["fsx-lustre-250"], volume=12 * TIB)
    fast = save_budget(RUN, CheckpointsSpec(), tiers["fsx-lustre-1000"], volume=12 * TIB)
    assert slow.write_seconds == pytest.approx(4 * (fast.write_seconds or 0))
    assert all(budget.available for budget in result)


def test_a_tier_that_does_not_come_so_large_is_said_so(catalog: Catalog) -> None:
    huge = SavedRun(10**15, Precision.BF16, 1000, None, 1000, 1.0, 1e6)
    assert not save_budget(huge, CheckpointsSpec(), catalog.storage("amlfs-500")).available
