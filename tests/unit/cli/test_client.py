# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The SDK's functions: one per command, and overrides as a list and as a mapping."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

import seatrial
from seatrial.checkpoints.retention import Policy
from seatrial.engines.megatron.checkpoint_names import NAMING
from seatrial.sdk import weights
from tests.unit.checkpoints.made import make_checkpoint
from tests.unit.cli.every_command import leaves
from tests.unit.planning.search.asked import OPEN

FUNCTIONS = {
    "calibrate": "calibrate",
    "catalog check": "Catalog",
    "catalog list": "Catalog",
    "catalog show": "Catalog",
    "check": "check",
    "checkpoints copy": "copy_checkpoint",
    "checkpoints export": "export_weights",
    "checkpoints try": "generate_text",
    "checkpoints import": "import_weights",
    "checkpoints list": "list_checkpoints",
    "checkpoints pin": "pin_checkpoint",
    "checkpoints prune": "prune_checkpoints",
    "checkpoints resume-verdict": "resume_verdict",
    "checkpoints verify": "verify_checkpoints",
    "data estimate": "estimate_data",
    "data inspect": "inspect_data",
    "data prepare": "prepare_data",
    "data verify": "verify_data",
    "delete": "delete",
    "diagnose": "diagnose",
    "doctor": "doctor",
    "engines install": "install_engine",
    "engines list": "list_engines",
    "engines settings": "engine_settings",
    "explain": "explain",
    "forward": "forward",
    "images build": "build_image",
    "images list": "list_images",
    "images push": "push_images",
    "images save": "save_images",
    "init": "starter",
    "launch": "launch",
    "list": "list_runs",
    "logs": "logs",
    "plan": "plan_page",
    "recipes copy": "recipe",
    "recipes list": "recipe_names",
    "recipes show": "recipe",
    "rehearse": "rehearse",
    "render": "render",
    "report": "report",
    "run": "run_pipeline",
    "schema": "json_schema",
    "site": "site",
    "spec upgrade": "upgrade_spec",
    "sweep": "run_variants",
    "status": "status",
    "stop": "stop",
    "validate": "validate",
    "wait": "wait",
    "watch": "history",
}
"""The function or class of the SDK that does what a command does."""
OF_OPTIONS = {
    "checkpoints pin --off": "unpin_checkpoint",
    "data prepare --on": "prepare_data_on_cluster",
    "plan --what-if": "sweep_plans",
    "render --diff": "render_diff",
    "sweep --plan": "plan_variants",
}
"""The same for options that have their own function."""


def test_every_command_has_a_function_in_the_sdk() -> None:
    commands = dict(leaves())
    assert set(FUNCTIONS) == set(commands)
    for call, function in {**FUNCTIONS, **OF_OPTIONS}.items():
        assert function in seatrial.__all__, call
        assert callable(getattr(seatrial, function))
    for call in OF_OPTIONS:
        name, _, option = call.rpartition(" ")
        assert option in [given for each in commands[name].params for given in each.opts]


def test_the_docstring_of_the_package_names_every_function() -> None:
    document = seatrial.__doc__ or ""
    for name in seatrial.__all__:
        if name.islower() and not name.startswith("_"):
            assert f"{name}(" in document or f"{name}." in document, name


def test_checkpoints_are_verified_pinned_pruned_and_copied(tmp_path: Path) -> None:
    saved, copies = tmp_path / "saved", tmp_path / "copies"
    for step in (10, 20, 30, 40):
        make_checkpoint(saved, step, size=500)
    told: list[tuple[int, int]] = []
    verified = list(
        seatrial.verify_checkpoints(
            saved, watch=lambda _: nullcontext(lambda files, size: told.append((files, size)))
        )
    )
    assert [one.checkpoint.step for one in verified] == [40, 30, 20, 10]
    assert not any(one.findings or one.is_skipped for one in verified)
    assert told
    assert all(one.is_skipped for one in seatrial.verify_checkpoints(saved))
    with pytest.raises(seatrial.UsageError, match="no checkpoints in"):
        seatrial.verify_checkpoints(tmp_path)
    assert seatrial.pin_checkpoint(saved, step=10, why="first").pinned == "first"
    policy = Policy(last=1)
    planned = seatrial.prune_checkpoints(saved, policy=policy)
    assert [one.step for one in planned if not one.kept] == [20]
    assert len(seatrial.list_checkpoints(saved)) == 4
    assert seatrial.unpin_checkpoint(saved, step=10).pinned is None
    seatrial.prune_checkpoints(saved, policy=policy, delete=True)
    assert [one.step for one in seatrial.list_checkpoints(saved)] == [40, 30]
    assert seatrial.copy_checkpoint(saved, copies).step == 40
    assert [one.step for one in seatrial.list_checkpoints(copies)] == [40]


def test_weights_are_exported_from_a_directory_or_a_location(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_checkpoint(tmp_path / "saved", 10, size=500)
    make_checkpoint(tmp_path / "saved", 20, size=500)
    seen: list[tuple[str, str]] = []

    def export(place: str, directory: str, *_: Any, **__: Any) -> dict[str, Any]:
        seen.append((place, directory))
        return {"step": 1}

    monkeypatch.setattr(weights, "export_by_worker", export)
    monkeypatch.setattr(weights, "worker_python", lambda *_: "python")
    own = tmp_path / "saved" / NAMING.directory_name(10)
    assert seatrial.export_weights(own, tmp_path / "a") == {"step": 1, "is_new": True}
    seatrial.export_weights(tmp_path / "saved", tmp_path / "b")
    seatrial.export_weights(tmp_path / "saved", tmp_path / "c", step=10)
    place = str(tmp_path / "saved")
    assert seen == [(place, f"iter_{step:07}") for step in (10, 20, 10)]


def test_a_code_is_explained_by_its_short_form() -> None:
    found = seatrial.explain("batch-2")
    assert found.code == "ST-BATCH-002"
    assert found.why
    assert found.sources


def test_an_upgrade_writes_nothing_unless_asked_to(spec_file: Path) -> None:
    before = spec_file.read_text()
    assert seatrial.upgrade_spec(spec_file, write=True).changes == ()
    assert spec_file.read_text() == before


def test_overrides_are_a_list_or_a_mapping(spec_file: Path) -> None:
    listed = seatrial.plan(spec_file, ["cluster.nodes=4", "training.learning_rate.peak=1.0e-5"])
    mapped = seatrial.plan(spec_file, {"cluster.nodes": 4, "training.learning_rate.peak": 1e-5})
    assert listed == mapped
    assert mapped.schedule.peak == 1e-5
    other = seatrial.load_spec(
        spec_file, {"data.mock": None, "data.sources": [{"from": "/a: b"}], "description": "ä"}
    )
    assert other.data.sources is not None
    assert (other.data.sources[0].from_, other.description) == ("/a: b", "ä")


@pytest.mark.parametrize("overrides", ["cluster.nodes=4", [4], [("cluster.nodes", 4)]])
def test_other_overrides_are_refused_with_an_example(spec_file: Path, overrides: Any) -> None:
    with pytest.raises(seatrial.UsageError, match=r'Use \["cluster\.nodes=4"\] or \{'):
        seatrial.validate(spec_file, overrides)


def test_the_planner_fills_what_is_auto_and_writes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "open.yaml"
    file.write_text(OPEN)
    plan = seatrial.plan(file)
    assert plan.origins["parallelism.tp_size"] == "planner"
    assert plan.layout.world_size == 16
    assert list(tmp_path.iterdir()) == [file]
    checked = seatrial.validate(file)
    assert (checked.plan.digest, checked.findings) == (plan.digest, ())
    assert list(tmp_path.iterdir()) == [file]
