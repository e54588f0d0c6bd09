# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The matrix of model types: what each is proven to do (`make models`).

A run of each type is planned from its config.json and rehearsed as a user would do it; the last
column starts from weights that transformers wrote. Every cell is the result of its test, and is
recorded.
"""

import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from seatrial.checkpoints.exchange.weight_map import config_of_model
from seatrial.cli.init import app
from seatrial.engine_process.process import worker_python
from seatrial.engine_process.weights import compare_logits, import_weights
from seatrial.engines.megatron.checkpoint_names import NAMING
from seatrial.huggingface.config import HubModel
from seatrial.rehearsal.drills import DrillName, Result
from seatrial.sdk.plan import plan
from seatrial.sdk.rehearse import rehearse
from seatrial.spec.model import Activation, Architecture
from tests.conftest import MEGATRON
from tests.engine.conftest import FIGURES
from tests.engine.model_types import FAMILIES
from tests.engine.test_export_families import BAR, arguments_of

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(3600)]

CELLS = FIGURES.with_name("model-cells.jsonl")
"""One JSON line a cell; docs/tools/recorded_tables.py makes the page of them."""
DRILLS = {
    "rehearse": DrillName.TRAIN,
    "resume": DrillName.KILL,
    "reshard": DrillName.RESHARD,
    "export": DrillName.EXPORT,
}


def record(model_type: str, cell: str, said: str, *, ok: bool) -> None:
    """Record a cell, and fail if it failed."""
    CELLS.parent.mkdir(exist_ok=True)
    line = {"model_type": model_type, "cell": cell, "ok": ok, "said": said}
    with CELLS.open("a") as stream:
        stream.write(json.dumps(line, ensure_ascii=False) + "\n")
    print(f"{model_type:12} {cell:9} {'ok' if ok else 'FAILED'}  {said}")
    assert ok, said


def spec_of(model_type: str, directory: Path) -> Path:
    """A run of two ranks with the tiny model of a type."""
    model = FAMILIES[model_type].model_dump(mode="json", exclude_none=True)
    spec: dict[str, Any] = {
        "apiVersion": "seatrial.dev/v1alpha1",
        "name": model_type.replace("_", "-"),
        "model": {"dimensions": model},
        "data": {"mock": True},
        "training": {
            "steps": 100,
            "sequence_length": 64,
            "global_batch_size": 8,
            "precision": "fp32",
            "learning_rate": {"peak": 0.003},
        },
        "parallelism": {"tp_size": 1, "pp_size": 2, "cp_size": 1},
        "cluster": {"profile": "onprem", "node_type": "onprem-8xh100", "nodes": 1},
        "checkpoints": {"location": "/data/checkpoints"},
    }
    file = directory / "run.yaml"
    file.write_text(json.dumps(spec))
    return file


def write_config_json(file: Path, model_type: str, architecture: Architecture) -> None:
    """Write a config.json of a type as an export has it."""
    # The engine's unfused kernels compute exact GELU.
    exact = architecture.activation is Activation.GELU
    model = HubModel(model_type, architecture, 0.02, exact)
    file.write_text(json.dumps(config_of_model(model, {}, "float32", {})))


def published(architecture: Architecture) -> Architecture:
    """The model as far as a config.json can describe it."""
    moe = architecture.moe
    if moe is None:
        return architecture
    # How fast a bias changes is a setting of training.
    changes: dict[str, Any] = {"moe": moe.model_dump(exclude={"bias_update_rate"})}
    if all(map(moe.has_experts, range(architecture.layers))):
        # No layer has a dense block.
        changes["ffn_hidden_size"] = moe.expert_ffn_hidden_size
    return architecture.replace(**changes)


@pytest.mark.parametrize("model_type", FAMILIES)
def test_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model_type: str) -> None:
    write_config_json(tmp_path / "config.json", model_type, FAMILIES[model_type])
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["--model", "./config.json", "--profile", "onprem"])
    assert done.exit_code == 0, done.output
    made = plan("run.yaml")
    assert made.spec.model.huggingface == "config.json"
    said = f"{made.model.parameters:,} parameters"
    ok = made.model.architecture == published(FAMILIES[model_type])
    record(model_type, "plan", said, ok=ok)


@cache
def rehearsed(file: Path) -> dict[DrillName, Result]:
    """Rehearse once; the drills of a rehearsal continue from each other."""
    report = rehearse(file, drills=tuple(DRILLS.values()), seed=7).report
    return {result.drill: result for result in report.results}


@pytest.fixture(scope="module")
def specs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A spec of each type."""
    return {name: spec_of(name, tmp_path_factory.mktemp(name)) for name in FAMILIES}


@pytest.mark.parametrize("cell", DRILLS)
@pytest.mark.parametrize("model_type", FAMILIES)
def test_drill(specs: dict[str, Path], model_type: str, cell: str) -> None:
    result = rehearsed(specs[model_type])[DRILLS[cell]]
    record(model_type, cell, result.said, ok=result.ok and result.judged)


MAKE = """
import sys, torch, transformers
torch.manual_seed(7)
target = sys.argv[1]
config = transformers.AutoConfig.from_pretrained(target)
model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
centred = config.model_type == "nemotron"
for name, parameter in model.named_parameters():
    # Fresh norms and biases are ones and zeros, which would hide that one took another's place.
    norm = ("norm" in name or "ln_" in name) and name.endswith("weight") and not centred
    torch.nn.init.normal_(parameter, float(norm), 0.1)
for name, buffer in model.named_buffers():
    if "correction" in name:
        torch.nn.init.normal_(buffer, 0.0, 0.1)
model.save_pretrained(target)
"""
"""Makes weights of a config.json as transformers writes them."""


@pytest.mark.parametrize("model_type", FAMILIES)
def test_import(tmp_path: Path, model_type: str) -> None:
    # transformers has no multi-token prediction.
    architecture = FAMILIES[model_type].replace(mtp_layers=0)
    (tmp_path / "hub").mkdir()
    write_config_json(tmp_path / "hub/config.json", model_type, architecture)
    words = [worker_python(MEGATRON), "-c", MAKE, str(tmp_path / "hub")]
    subprocess.run(words, check=True, capture_output=True)
    import_weights(tmp_path / "hub", tmp_path / "saved", engine=MEGATRON)
    logits = compare_logits(
        tmp_path / "saved" / NAMING.directory_name(0),
        tmp_path / "hub",
        arguments_of(architecture),
        engine=MEGATRON,
    )
    said = f"largest difference of a logit {logits.largest:.1e}"
    record(model_type, "import", said, ok=logits.largest <= BAR)
