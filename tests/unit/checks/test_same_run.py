# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The guard before `--fix` writes: which texts mean the same run, and which repairs it refuses."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from seatrial.catalog.catalog import Catalog, Kind
from seatrial.checks.repairs import repair as repairs
from seatrial.checks.repairs.fix import plan_fix
from seatrial.checks.repairs.repair import Broken
from seatrial.checks.repairs.same_run import differences
from seatrial.checks.repairs.yaml_edits import applied
from seatrial.checks.rule import Repair, RepairKind
from seatrial.errors import NotInCatalogError, UnreadableError
from seatrial.spec.fields import all_fields
from seatrial.spec.loader import load
from seatrial.spec.other_tool_names import SYNONYMS
from seatrial.spec.respelling import key_meant
from tests.unit.checks.examples import BASE

CONTINUED = f"""{BASE}initial_weights: {{huggingface: hf://meta-llama/Llama-2-7b-hf}}
"""


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("training:\n  stesp: 10\n", "training:\n  steps: 10\n"),
        ("traning: {steps: 10}\n", "training: {steps: 10}\n"),
        ("tp_size: 4\n", "parallelism: {tp_size: 4}\n"),
        ("training: {train_iters: 10}\n", "training: {steps: 10}\n"),
        ("training: {warmup_steps: 9}\n", "training: {learning_rate: {warmup: {steps: 9}}}\n"),
        ("initial_weights: {from: hf://a/b}\n", "initial_weights: {huggingface: hf://a/b}\n"),
        ("initial_weights: hf://a/b\n", "initial_weights: {huggingface: hf://a/b}\n"),
        (
            "initial_weights: {hf: 'https://huggingface.co/a/b'}\n",
            "initial_weights: {huggingface: hf://a/b}\n",
        ),
        ("training: {step: 10}\n", "training: {steps: 10}\n"),
        ("model: llama2-7b\n", "model: {preset: llama2-7b}\n"),
        ("parallelism: {tp_size: '4'}\n", "parallelism: {tp_size: 4}\n"),
        ("training: {sequence_length: 8k}\n", "training: {sequence_length: 8192}\n"),
        ("training: {precision: bfloat16}\n", "training: {precision: bf16}\n"),
        ("cluster: {nodeType: P5.48XLARGE}\n", "cluster: {node_type: p5.48xlarge}\n"),
        ("cluster: {env: {A: 1.10}}\n", "cluster: {env: {A: '1.10'}}\n"),
        ("data: {sources: [{prepard: /a.bin}]}\n", "data: {sources: [{prepared: /a}]}\n"),
        ("name: My_Run\n", "name: my-run\n"),
    ],
)
def test_another_spelling_means_the_same_run(wrong: str, right: str) -> None:
    assert differences(wrong, right) == []


@pytest.mark.parametrize(
    ("before", "after", "field"),
    [
        ("initial_weights: {from: hf://a/b}\n", "name: a\n", "initial_weights.huggingface"),
        ("parallelism: {dp_size: 8}\n", "parallelism: {tp_size: 8}\n", "parallelism.dp_size"),
        (
            "parallelism: {tp: 8, tp_size: 4}\n",
            "parallelism: {tp_size: 4}\n",
            "parallelism.tp_size",
        ),
        ("training: {precision: fp6}\n", "training: {precision: fp16}\n", "training.precision"),
        (
            "cluster: {node_type: p5.48xlage}\n",
            "cluster: {node_type: p5.48xlarge}\n",
            "cluster.node_type",
        ),
        ("cluster: {env: {A: 1.10}}\n", "cluster: {env: {A: '1.1'}}\n", "cluster.env.A"),
        ("cluster: {nodes: 2}\n", "cluster: {nodes: 2, fabric: none}\n", "cluster.fabric"),
        ("training: {max_tokens: 8}\n", "training: {tokens: 8}\n", "training.max_tokens"),
        (
            "model: {context_length: 8}\n",
            "training: {sequence_length: 8}\n",
            "model.context_length",
        ),
        (
            "training: {warmup: 9}\n",
            "training: {warmup: {steps: 9}}\n",
            "training.learning_rate.warmup",
        ),
        ("training: {run: other}\n", "continue_from: {run: other}\n", "continue_from.run"),
        ("monitoring: {project: a}\n", "monitoring: {wandb: {project: a}}\n", "monitoring.project"),
        ("cluster: {fabric: None}\n", "cluster: {fabric: none}\n", "cluster.fabric"),
        (
            "parallelism: {sharding: None}\n",
            "parallelism: {sharding: none}\n",
            "parallelism.sharding",
        ),
        (
            "initial_weights: {path: s3://a/b}\n",
            "initial_weights: {checkpoint: s3://a/b}\n",
            "initial_weights.path",
        ),
        (
            "initial_weights: 'https://huggingface.co/a/b/tree/main'\n",
            "name: a\n",
            "initial_weights",
        ),
        (
            "parallelism: {fast_stage_layers: 8}\n",
            "parallelism: {last_stage_layers: 8}\n",
            "parallelism.last_stage_layers",
        ),
        ("data: {tokenizer: gpt2}\n", "data: {tokenizer: hf://gpt2}\n", "data.tokenizer"),
    ],
)
def test_a_guess_is_another_run(before: str, after: str, field: str) -> None:
    assert field in {each.field for each in differences(before, after)}


LIES = (
    "initial_weights=null",
    "model.preset=gpt3-1.3b",
    "data.tokenizer=hf://meta-llama/Llama-2-7b-hf",
    "data.sources[0].prepared=/data/prepared/other_text_document",
    "cluster.fabric=none",
    "cluster.nodes=4",
    "cluster.node_type=p5.48xlarge",
    "cluster.env.NCCL_DEBUG=INFO",
    "training.precision=fp8",
    "training.steps=2000",
    "training.global_batch_size=256",
    "parallelism.tp_size=8",
    "engine.options.seed=1",
    "checkpoints.location=/data/elsewhere",
)


@pytest.mark.parametrize("lie", LIES)
def test_a_repair_that_claims_to_be_the_same_run_is_not_believed(
    lie: str, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lying(*_: object) -> Iterator[Repair]:
        yield Repair(RepairKind.SAME_RUN, (lie,))

    monkeypatch.setattr(repairs, "_proposed", lying)
    monkeypatch.setattr(repairs, "mends", lambda *_: True)
    text = CONTINUED.replace("name: example", "name: Example")
    assert applied(text, (lie,)) != text
    broken = Broken(text, "run.yaml", catalog)
    fix = plan_fix(broken, broken.again())
    assert fix.changes == ()
    assert fix.broken.text == text


def test_no_key_leaves_the_section_that_it_is_written_in() -> None:
    """Every field and every synonym, written into every section: none moves up or sideways."""
    sections = {
        tuple(0 if key == "[]" else key for key in path[:-1])
        for path in all_fields()
        if len(path) > 1
    }
    names = {str(path[-1]) for path in all_fields()} | set(SYNONYMS)
    moved = [
        (section, name, target)
        for section in sections
        for name in names
        for value in (1, "fp16", "hf://a/b")
        if (target := key_meant((*section, name), value)) and target[: len(section)] != section
    ]
    assert moved == []


def test_a_repair_cannot_be_made_without_its_kind() -> None:
    with pytest.raises(TypeError):
        Repair(overrides=("cluster.nodes=1",))  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("kind", "name", "meant"),
    [
        (Kind.PROFILES, "aws", "Did you mean eks or hyperpod-eks?"),
        (Kind.PROFILES, "azure", "Did you mean aks?"),
        (Kind.PROFILES, "gcp", "Did you mean gke?"),
        (Kind.PROFILES, "localhost", "Did you mean local?"),
        (Kind.MODELS, "7b", "Did you mean mpt-7b or qwen2-7b or gpt3-7.5b?"),
        (Kind.MODELS, "meta-llama/Llama-2-7b-xl", "Did you mean llama2-7b or "),
        (Kind.MODELS, "175B", "Did you mean gpt3-175b?"),
        (Kind.NODE_TYPES, "p5.48xlage", "Did you mean p5.48xlarge?"),
    ],
)
def test_a_name_of_the_catalog_that_people_try_leads_to_the_right_one(
    kind: Kind, name: str, meant: str, catalog: Catalog
) -> None:
    with pytest.raises(NotInCatalogError) as caught:
        catalog.canonical(kind, name)
    assert meant in str(caught.value)


def test_a_spec_with_the_other_ending_is_named(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(BASE)
    for wrong in ("run.yml", "runn.yaml"):
        with pytest.raises(UnreadableError) as caught:
            load(tmp_path / wrong)
        assert f"Did you mean {tmp_path / 'run.yaml'}?" in str(caught.value)
    with pytest.raises(UnreadableError) as caught:
        load(tmp_path / "elsewhere" / "other.yaml")
    assert "seatrial init" in str(caught.value)
