# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What Muon changes in memory, time and checkpoints."""

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.planning.layout import Layout
from seatrial.planning.memory.estimate import every_stage
from seatrial.planning.planner import plan_run
from seatrial.planning.resolve import resolve_basis
from seatrial.planning.saving.run_saves import muon_parameters
from seatrial.planning.saving.size import checkpoint_bytes
from seatrial.planning.search.problem import problem_of
from seatrial.planning.timing.error_bars import workload_digest
from seatrial.planning.timing.optimizer_update import update_flops
from seatrial.planning.timing.quantities import quantities
from seatrial.planning.timing.traffic import stage_counts
from seatrial.rendering.resources import saved_bytes
from seatrial.spec.parallelism import Sharding
from seatrial.spec.training import Precision
from tests.unit.planning.memory.test_estimate import GPT, workload
from tests.unit.planning.search.asked import opened
from tests.unit.planning.timing.workloads import EXPERTS
from tests.unit.planning.timing.workloads import workload as timed

WORDS = 50_304 * 2048


def test_matrices_have_one_moment_and_embeddings_have_two() -> None:
    adam, muon = (
        every_stage(workload(GPT, sharding=Sharding.NONE, muon_steps=steps)).fullest
        for steps in (0, 5)
    )
    inside = adam.optimizer // 12 - WORDS - 2048 * 2048 - 2 * 2048
    assert adam.optimizer - muon.optimizer == pytest.approx(4 * inside, rel=1e-6)
    assert (muon.weights, muon.gradients) == (adam.weights, adam.gradients)
    assert muon.activations == adam.activations


def test_ranks_share_whole_matrices() -> None:
    two, many = (
        every_stage(workload(GPT, dp_size=dp, sharding=Sharding.OPTIMIZER, muon_steps=5)).fullest
        for dp in (2, 1024)
    )
    assert two.optimizer > 12 * WORDS
    # One rank has all states of the embedding, however many ranks there are.
    assert many.optimizer == 12 * WORDS
    stages = every_stage(
        workload(GPT, dp_size=1024, pp_size=4, sharding=Sharding.OPTIMIZER, muon_steps=5)
    ).stages
    assert stages[1].optimizer < 12 * WORDS / 100


def test_the_update_makes_matrices_orthogonal() -> None:
    adam, muon = timed(Layout()), timed(Layout(), muon_steps=5)
    assert quantities(adam).optimizer_flops == 0
    layers, hidden = adam.model.layers, adam.model.hidden_size
    # Four square matrices in attention, two with four times the width.
    each = 4 * 2 * hidden**3 * 3 + 2 * 2 * hidden**3 * 9
    assert quantities(muon).optimizer_flops == 5 * layers * each
    assert quantities(muon).optimizer_bytes < quantities(adam).optimizer_bytes
    counts = stage_counts(muon)
    for layout, share in ((Layout(tp_size=2), 2), (Layout(dp_size=4), 4)):
        assert update_flops(timed(layout, muon_steps=5), counts) * share == update_flops(
            muon, counts
        )
    spread = timed(Layout(dp_size=8, ep_size=8), EXPERTS, muon_steps=5)
    whole = timed(Layout(), EXPERTS, muon_steps=5)
    assert 8 * quantities(spread).optimizer_flops == pytest.approx(
        quantities(whole).optimizer_flops
    )


def test_a_checkpoint_has_one_moment_of_a_matrix() -> None:
    assert checkpoint_bytes(1000, Precision.BF16, 900) == 14_000 - 3600
    assert checkpoint_bytes(1000, Precision.FP32, 900) == 12_000 - 3600


def test_a_spec_with_muon_is_planned_with_muon(catalog: Catalog) -> None:
    muon = "training.optimizer={name: muon, muon: {newton_schulz_steps: 7}}"
    assert problem_of(resolve_basis(opened(), catalog)).muon_steps == 0
    assert problem_of(resolve_basis(opened(muon), catalog)).muon_steps == 7
    usual = "training.optimizer.name=muon"
    assert problem_of(resolve_basis(opened(usual), catalog)).muon_steps == 5
    plan = plan_run(resolve_basis(opened(usual), catalog)).plan
    model = plan.model.architecture
    outside = (plan.model.padded_vocab_size + model.max_positions) * model.hidden_size
    assert muon_parameters(plan) == plan.model.parameters - outside
    adam = plan_run(resolve_basis(opened(), catalog)).plan
    fewer = saved_bytes(adam) - saved_bytes(plan)
    assert fewer == pytest.approx(4 * muon_parameters(plan), rel=0.01)
    assert muon_parameters(adam) == 0


def test_digests_of_workloads_with_adam_do_not_change() -> None:
    assert workload_digest(timed(Layout())) != workload_digest(timed(Layout(), muon_steps=5))
    assert workload_digest(timed(Layout())) == ADAM


ADAM = "sha256:576eff73cdca5c767e28b340f4dd92f742bfdcface7566cd87276366fe0a3caa"
"""As it was before there was another optimizer."""
