# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A model of each series by its name, from a new spec to a plan and its check."""

import json
from pathlib import Path

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from seatrial.catalog.catalog import Catalog
from seatrial.checks.check import check
from seatrial.cli.check import app as check_app
from seatrial.cli.init import app
from seatrial.errors import FindingsError
from seatrial.findings import Severity
from seatrial.huggingface.locate import delivered_name
from seatrial.planning.plan_record import inputs_of
from seatrial.planning.resolve import resolve_basis
from seatrial.rendering.attempt import Attempt
from seatrial.rendering.context import scene_of
from seatrial.rendering.spec_config import catalog_environment, spec_config
from seatrial.sdk.plan import plan
from seatrial.spec.loader import load
from seatrial.spec.model import ModelSpec
from tests.unit.huggingface.published import PUBLISHED

SERIES = {
    "gpt2": 1,
    "llama-3.2-1b": 1,
    "tinyllama-1.1b": 1,
    "smollm3-3b": 1,
    "mistral-7b-v0.1": 1,
    "mixtral-8x7b": 8,
    "qwen2-0.5b": 1,
    "qwen2.5-0.5b": 1,
    "qwen3-0.6b": 1,
    "qwen3-30b-a3b": 4,
    "phi-4": 2,
    "nemotron-4-15b": 4,
    "starcoder2-7b": 1,
    "deepseek-v2-lite": 2,
    "deepseek-v3": 128,
    "moonlight-16b-a3b": 2,
    "kimi-k2": 256,
    "glm-4.5-air": 16,
    "gpt-oss-20b": 4,
}
"""A model of each series, and the number of nodes of eight H100 on which it fits."""


def planned(directory: Path, model: str, nodes: int) -> Path:
    """Write a spec with `init` and check it; the errors fail the test."""
    file = directory / "run.yaml"
    done = CliRunner().invoke(
        app, [str(file), "--model", model, "--profile", "eks", "--nodes", str(nodes)]
    )
    assert done.exit_code == 0, done.output
    verdict = check(file.read_text(), str(file), Catalog())
    wrong = [found for found in verdict.findings if found.severity is Severity.ERROR]
    assert not wrong, [finding.one_line() for finding in wrong]
    assert verdict.situation is not None
    return file


@pytest.mark.parametrize("model", SERIES)
def test_a_model_of_each_series_is_planned_and_checked(tmp_path: Path, model: str) -> None:
    planned(tmp_path, model, SERIES[model])


@pytest.mark.parametrize("model", ["qwen3-0.6b", "gpt-oss-20b", "smollm2-135m", "kimi-k2"])
def test_a_model_by_its_file_is_planned_and_checked(tmp_path: Path, model: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps(PUBLISHED[model]))
    text = planned(tmp_path, str(tmp_path / "config.json"), SERIES.get(model, 4)).read_text()
    assert f"model: {{huggingface: {tmp_path / 'config.json'}}}" in text
    assert "sequence_length: 4096" in text
    assert ("init_std: 0.0416667" in text) == (model == "smollm2-135m")


def test_a_plan_records_what_was_read_of_a_file(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(PUBLISHED["qwen3-0.6b"]))
    spec = load(planned(tmp_path, str(config), 1))
    before = resolve_basis(spec, Catalog())
    same = resolve_basis(spec, Catalog())
    assert inputs_of(before, None) == inputs_of(same, None)
    # The same dimensions in another file are another file.
    config.write_text(json.dumps(PUBLISHED["qwen3-0.6b"], indent=1))
    after = resolve_basis(spec, Catalog())
    assert inputs_of(after, None).changed_since(inputs_of(before, None)) == ["the catalog"]
    assert before.preset is not None
    assert "@sha256:" in before.preset[0]
    assert before.architecture == after.architecture


def test_relative_paths_of_model_and_data_start_at_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "specs").mkdir()
    (tmp_path / "config.json").write_text(json.dumps(PUBLISHED["gpt2"]))
    (tmp_path / "text.txt").write_text("text")
    monkeypatch.chdir(tmp_path)
    words = ["specs/run.yaml", "--model", "./config.json", "--data", "text.txt"]
    assert CliRunner().invoke(app, [*words, "--tokenizer", "hf://gpt2"]).exit_code == 0

    def found(spec: str) -> str:
        return CliRunner().invoke(check_app, [spec]).output

    assert "ST-DATA-011" not in found("specs/run.yaml")
    monkeypatch.chdir(tmp_path / "specs")
    assert "ST-HUB-004" in found("run.yaml")
    (tmp_path / "config.json").rename("config.json")
    assert "ST-DATA-011" in found("run.yaml")


def test_what_is_wrong_with_a_file_is_reported_at_its_field(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(PUBLISHED["qwen3-0.6b"]))
    file = planned(tmp_path, str(config), 1)
    config.write_text(json.dumps(PUBLISHED["qwen3-0.6b"] | {"attention_bias": True}))
    with pytest.raises(FindingsError) as error:
        resolve_basis(load(file), Catalog())
    (finding,) = error.value.findings
    assert (finding.code, finding.where.field) == ("ST-HUB-002", "model.huggingface")
    assert finding.rule.startswith("attention_bias in the config.json: ")


def test_what_the_engine_does_not_support_is_changed_in_a_copy_of_the_file(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(PUBLISHED["kimi-k2"]))
    file = planned(tmp_path, str(config), 256)
    # The engine rounds the limits of the ramp.
    scaling = {**PUBLISHED["kimi-k2"]["rope_scaling"], "truncate": False}
    config.write_text(json.dumps(PUBLISHED["kimi-k2"] | {"rope_scaling": scaling}))
    with pytest.raises(FindingsError) as error:
        plan(file)
    (finding,) = error.value.findings
    assert finding.where.field == "model.dimensions.rope_scaling.rounded"
    assert finding.fix.startswith("Use true. Change it in a copy of the config.json, and ")


def test_exact_gelu_needs_an_option_of_the_engine(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(PUBLISHED["gpt2"]))
    file = planned(tmp_path, str(config), 1)
    config.write_text(json.dumps(PUBLISHED["gpt2"] | {"activation_function": "gelu"}))
    with pytest.raises(FindingsError, match="exact GELU"):
        resolve_basis(load(file), Catalog())
    resolve_basis(load(file, ("engine.options.no-bias-gelu-fusion=true",)), Catalog())
    # A new spec has the option.
    file.unlink()
    spec = load(planned(tmp_path, str(config), 1)).spec
    assert spec.engine.options == {"no-bias-gelu-fusion": True}


def test_a_model_that_the_engine_changes_says_so(tmp_path: Path) -> None:
    basis = resolve_basis(load(planned(tmp_path, "deepseek-v2-lite", 2)), Catalog())
    notes = [finding for finding in basis.findings if finding.code == "ST-HUB-006"]
    assert [finding.severity for finding in notes] == [Severity.NOTE]
    assert "trainable norm" in notes[0].rule


@pytest.mark.parametrize(
    "address", [f"hf://Qwen/Qwen3-8B@{'0a' * 20}", "./models/small", "models/config.json"]
)
def test_an_address_is_a_name_with_a_commit_or_a_path(address: str) -> None:
    given = ModelSpec.model_validate({"huggingface": address}).huggingface
    assert given == address.removeprefix("hf://")


@pytest.mark.parametrize("address", ["Qwen/Qwen3-8B", "Qwen/Qwen3-8B@main", "hf://a/b@v1"])
def test_a_name_on_the_hub_needs_a_commit(address: str) -> None:
    with pytest.raises(ValidationError, match="has no commit"):
        ModelSpec.model_validate({"huggingface": address})


def test_pods_get_the_file_with_the_spec(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(PUBLISHED["qwen3-0.6b"]))
    file = planned(tmp_path, str(config), 1)
    catalog = Catalog()
    scene = scene_of(plan(file, catalog=catalog), catalog, Attempt(1))
    data = spec_config(scene)["data"]
    assert data[delivered_name(str(config))] == config.read_text()
    assert catalog_environment(scene) == {"SEATRIAL_CATALOG": "/etc/seatrial"}
