# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Options that differ from those of the fitted runs change the constants and the error bar."""

from dataclasses import replace
from typing import Any

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.planning.engine_limits import EngineLimits
from seatrial.planning.layout import Layout
from seatrial.planning.options import Options
from seatrial.planning.planner import plan_run
from seatrial.planning.resolve import resolve_basis
from seatrial.planning.search.verdicts import verdicts
from seatrial.planning.timing.error_bars import time_error
from seatrial.planning.timing.option_effects import (
    EFFECTS,
    differing,
    fitted_options,
    with_options,
    without_data,
)
from seatrial.planning.timing.rates import Rates
from seatrial.planning.timing.step_time import step_time
from seatrial.planning.workload import Workload
from seatrial.spec.parallelism import Recompute, Sharding
from seatrial.spec.performance import CudaGraphs, MomentPrecision, TokenDispatcher
from seatrial.spec.training import Precision
from tests.conftest import loaded
from tests.unit.planning.timing.workloads import A100, CONSTANTS, EXPERTS, GPT3, workload

LIMITS = EngineLimits("made up", True, ((Sharding.OPTIMIZER,),), (Recompute.NONE,))
OTHER: dict[str, Any] = {
    "token_dispatcher": TokenDispatcher.DEEPEP,
    "cuda_graphs": CudaGraphs.LAYERS,
    "moments": MomentPrecision.BF16,
}


def on(accelerator: str, model: Any = EXPERTS, **changes: Any) -> Workload:
    """A workload on a GPU, with experts on 16 ranks, more than a node."""
    layout = Layout(tp_size=2, dp_size=8, pp_size=4, vp_size=2, ep_size=16)
    hardware = replace(A100, accelerator=accelerator)
    return workload(layout, model, hardware=hardware, **changes)


def switched(work: Workload, **options: Any) -> Workload:
    """The workload with the options of the fitted runs, but for some."""
    return replace(work, options=replace(fitted_options(work), **options))


@pytest.mark.parametrize("model", [EXPERTS, GPT3], ids=["experts", "dense"])
@pytest.mark.parametrize("gpu", ["h100-80gb", "b200", "gb300"])
def test_the_options_of_the_fitted_runs_change_nothing(gpu: str, model: Any) -> None:
    work = on(gpu, model)
    assert differing(switched(work)) == ()
    assert with_options(Rates(), switched(work)) == Rates()


@pytest.mark.parametrize("effect", EFFECTS, ids=lambda effect: effect.option)
def test_an_effect_that_is_undone_leaves_the_constants_as_they_were(effect: Any) -> None:
    """Where the constants are of runs with the option, it counts as where they are of others."""
    if effect.option not in ("expert_overlap", "token_dispatcher", "cuda_graphs"):
        return
    off = fitted_options(on("h100-80gb"))
    used = replace(off, **{effect.option: OTHER.get(effect.option, True)})
    there = with_options(Rates(), replace(on("h100-80gb"), options=used), off)
    back = with_options(there, replace(on("h100-80gb"), options=off), used)
    assert there != Rates()
    for name in Rates.__dataclass_fields__:
        assert getattr(back, name) == pytest.approx(getattr(Rates(), name)), name


@pytest.mark.parametrize(
    ("gpu", "precision", "graphs", "overlap"),
    [
        ("gb300", Precision.MXFP8, CudaGraphs.STEP, True),
        ("b300", Precision.NVFP4, CudaGraphs.STEP, True),
        ("gb300", Precision.BF16, CudaGraphs.LAYERS, False),
        ("b200", Precision.MXFP8, CudaGraphs.LAYERS, False),
        ("h100-80gb", Precision.BF16, CudaGraphs.NONE, False),
    ],
)
def test_the_newest_runs_with_experts_record_the_whole_step(
    gpu: str, precision: Precision, graphs: CudaGraphs, overlap: bool
) -> None:
    found = fitted_options(on(gpu, precision=precision))
    assert (found.cuda_graphs, found.expert_overlap) == (graphs, overlap)


def test_a_run_without_the_graphs_of_the_fitted_runs_takes_longer() -> None:
    work = on("gb300", precision=Precision.MXFP8)
    usual = step_time(switched(work), CONSTANTS).total
    layers = step_time(switched(work, cuda_graphs=CudaGraphs.LAYERS), CONSTANTS).total
    assert layers > 1.05 * usual
    none = step_time(switched(work, cuda_graphs=CudaGraphs.NONE), CONSTANTS).total
    assert none == pytest.approx(layers, rel=0.02)


def test_activations_on_the_host_take_time_only_if_the_transfer_is_slower() -> None:
    dense = replace(on("a100-80gb", GPT3), layout=Layout(tp_size=8, dp_size=8))
    usual = step_time(switched(dense), CONSTANTS).total
    few = step_time(switched(dense, activation_offload=1), CONSTANTS).total
    many = step_time(switched(dense, activation_offload=90), CONSTANTS).total
    assert few == pytest.approx(usual, rel=0.01)
    assert many > 1.05 * usual
    grace = replace(dense, hardware=replace(A100, accelerator="gb200"))
    assert step_time(switched(grace, activation_offload=90), CONSTANTS).total < many


def test_an_effect_without_data_widens_the_error_and_is_named() -> None:
    work = on("h100-80gb")
    usual = time_error(switched(work), CONSTANTS, LIMITS)
    off = switched(work, fused_layers=False, activation_offload=1)
    found = time_error(off, CONSTANTS, LIMITS)
    time = step_time(off, CONSTANTS).total
    change = 1 - step_time(switched(work), CONSTANTS).total / time
    assert found.nine_of_ten == pytest.approx(usual.nine_of_ten + change)
    assert found.median == pytest.approx(usual.median + change)
    (words,) = found.beyond
    assert words == (
        "fused layers off and activations of 1 layer on the host, whose effect of "
        f"{100 * change:.1f} % is assumed: no published run shows it"
    )


def test_an_effect_with_data_does_not_widen_the_error() -> None:
    work = on("gb300", precision=Precision.MXFP8)
    other = switched(work, cuda_graphs=CudaGraphs.NONE)
    assert (differing(other), without_data(other)) == (("cuda_graphs",), ())
    assert time_error(other, CONSTANTS, LIMITS) == time_error(switched(work), CONSTANTS, LIMITS)
    dense = on("gb300", GPT3)
    assert without_data(switched(dense, cuda_graphs=CudaGraphs.LAYERS)) == ("cuda_graphs",)


def test_the_plan_names_the_options_that_widen_its_error() -> None:
    spec = loaded("performance.fused_layers=false")
    found = verdicts(spec, plan_run(resolve_basis(spec, Catalog())))
    (note,) = [each for each in found if each.code == "ST-TIME-001"]
    assert "fused layers off" in note.rule
    assert "no published run shows" in note.rule
    assert note.fix.startswith("The error bar includes the extrapolation.")


def test_options_that_are_not_known_change_nothing() -> None:
    work = on("h100-80gb")
    assert work.options is None
    assert with_options(Rates(), work) == Rates()
    assert Options() != fitted_options(work)
