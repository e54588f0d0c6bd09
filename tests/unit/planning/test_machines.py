# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The machines of a plan: of a profile, or of a host, where a script stands in for nvidia-smi."""

from pathlib import Path

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.catalog.node_types import detected_gpus
from seatrial.errors import FindingsError
from seatrial.planning.plan import Origin
from seatrial.planning.planner import PlannedRun, plan_run
from seatrial.planning.resolve import resolve_basis
from tests.conftest import loaded

HOST = (
    "model={preset: gpt2-large}",
    "cluster={profile: local, processes_per_node: 2}",
    "parallelism={tp_size: 1, pp_size: 1}",
)


def planned(catalog: Catalog, *overrides: str) -> PlannedRun:
    return plan_run(resolve_basis(loaded(*HOST, *overrides), catalog))


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program on the path that prints the lines of a file as nvidia-smi does."""
    names = tmp_path / "names"
    program = tmp_path / "nvidia-smi"
    program.write_text(f'#!/bin/sh\n[ "$1" = --query-gpu=name ] && cat {names}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr("seatrial.planning.resolve.detected_gpus", detected_gpus)
    return names


def test_named_gpus_have_memory_and_step_time(catalog: Catalog) -> None:
    run = planned(catalog, "cluster.accelerator=h100-80gb")
    assert run.plan.machines.accelerator == "h100-80gb"
    assert catalog.node_type(run.plan.machines.node_type).gpus == 2
    assert run.problem.hardware is not None
    assert run.problem.hardware.gpus_per_node == 2


def test_gpus_are_detected(catalog: Catalog, smi: Path) -> None:
    smi.write_text("NVIDIA A100-SXM4-80GB\n" * 4)
    plan = planned(catalog).plan
    assert plan.machines.accelerator == "a100-80gb"
    assert plan.machines.processes_per_node == 2
    assert catalog.node_type(plan.machines.node_type).gpus == 4
    assert plan.origins["cluster.accelerator"] is Origin.HOST


def test_detected_gpus_can_be_left_unused(catalog: Catalog, smi: Path) -> None:
    smi.write_text("NVIDIA A100-SXM4-80GB\n")
    assert planned(catalog, "cluster.accelerator=none").plan.machines.accelerator == ""


def test_an_unknown_gpu_is_reported(catalog: Catalog, smi: Path) -> None:
    smi.write_text("NVIDIA GeForce RTX 9990\n")
    plan = planned(catalog).plan
    assert plan.machines.accelerator == ""
    (finding,) = [one for one in plan.findings if one.where.field == "cluster.accelerator"]
    assert "RTX 9990" in finding.rule
    assert "catalog" in finding.fix


def test_a_driver_that_fails_counts_as_no_gpu(catalog: Catalog, smi: Path) -> None:
    (smi.parent / "nvidia-smi").write_text("#!/bin/sh\necho broken; exit 9\n")
    assert planned(catalog).plan.machines.accelerator == ""


def test_the_number_of_gpus_is_required(catalog: Catalog) -> None:
    with pytest.raises(FindingsError) as caught:
        planned(catalog, "cluster={profile: local, accelerator: h100-80gb}")
    assert "processes_per_node" in caught.value.findings[0].fix


@pytest.mark.parametrize("field", ["accelerator=h100-80gb", "container=podman"])
def test_fields_of_a_host_do_not_apply_to_a_cluster(catalog: Catalog, field: str) -> None:
    with pytest.raises(FindingsError) as caught:
        plan_run(resolve_basis(loaded(f"cluster.{field}"), catalog))
    assert [one.where.field for one in caught.value.findings] == [f"cluster.{field.split('=')[0]}"]


def test_the_profile_names_what_it_has(catalog: Catalog) -> None:
    with pytest.raises(FindingsError) as caught:
        plan_run(
            resolve_basis(loaded("cluster.profile=gke", "cluster.storage.tier=gcs-fuse"), catalog)
        )
    (finding,) = caught.value.findings
    assert finding.code == "ST-PLAN-003"
    assert finding.rule == "clusters with the profile gke have no p4d.24xlarge."
    assert finding.fix.startswith("Use one of: a2-highgpu-8g")
