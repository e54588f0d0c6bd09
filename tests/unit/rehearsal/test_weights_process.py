# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What is made of a worker's answers; a shell script stands in for the worker."""

import json
import math
from pathlib import Path

import pytest

from seatrial.checkpoints.exchange.export_plan import EXPORT_RECORD
from seatrial.codes.exchange import ExchangeCode
from seatrial.engine_process.weights import (
    Logits,
    WeightsError,
    compare_logits,
    export_weights,
    import_weights,
    prove_export,
    refuse_other_logits,
)
from seatrial.engines.engine import Arguments
from seatrial.engines.megatron.checkpoint_names import NAMING
from seatrial.engines.registry import ENGINES
from seatrial.errors import FindingsError, UsageError
from seatrial.findings import Finding, Severity, Where
from seatrial.sdk.weights import generate_text
from tests.conftest import MEGATRON, resolved
from tests.unit.checkpoints.made import make_checkpoint

FOUNDRY = ENGINES["llm-foundry"]


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file whose lines the worker prints, and who they are printed for."""
    script, lines = tmp_path / "worker", tmp_path / "lines"
    script.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/words\ncat {lines}\n')
    script.chmod(0o755)
    monkeypatch.setenv("SEATRIAL_WORKER_PYTHON", str(script))
    return lines


def test_progress_and_result(worker: Path, tmp_path: Path) -> None:
    told = [
        {"doing": "verifying", "done": 5, "total": 9},
        {"doing": "writing", "done": 3, "total": 4},
        {"result": {"class": "LlamaForCausalLM"}},
    ]
    worker.write_text("a warning of torch\n" + "\n".join(map(json.dumps, told)))
    seen: list[tuple[str, int, int]] = []
    done = export_weights(
        "saved", "iter_1", Path("out"), lambda *words: seen.append(words), engine=MEGATRON
    )
    assert done == {"class": "LlamaForCausalLM"}
    assert seen == [("verifying", 5, 9), ("writing", 3, 4)]
    words = (tmp_path / "words").read_text().split()
    assert words == ["-m", "seatrial.worker.weights.export", "saved", "iter_1", "out"]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A checkpoint with its record."""
    make_checkpoint(tmp_path / "saved", 40, size=500)
    return tmp_path / "saved" / NAMING.directory_name(40)


def test_nothing_of_a_damaged_checkpoint_is_loaded(worker: Path, saved: Path) -> None:
    worker.write_text(told_of(0.0))
    shard = next(saved.glob("*.distcp"))
    shard.write_bytes(shard.read_bytes()[:-1])
    with pytest.raises(FindingsError, match=shard.name):
        compare_logits(saved, Path("out"), {}, engine=FOUNDRY)
    assert not (saved.parents[1] / "words").exists()


def test_an_engine_reads_its_own_checkpoints_in_its_own_environment(
    worker: Path, saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEATRIAL_LLM_FOUNDRY_PYTHON", str(tmp_path / "worker"))
    monkeypatch.setenv("SEATRIAL_WORKER_PYTHON", "/none/python")
    worker.write_text(told_of(2e-7))
    export_weights("saved", "ba9", Path("out"), engine=FOUNDRY)
    words = (tmp_path / "words").read_text().split()
    assert words == ["-m", "seatrial.worker.weights.export", "saved", "ba9", "out"]
    settings: Arguments = {"model.name": "mpt_causal_lm", "max_seq_len": 32}
    assert compare_logits(saved, Path("out"), settings, engine=FOUNDRY).equal
    words = (tmp_path / "words").read_text().split()
    assert words[:2] == ["-m", "seatrial.worker.weights.compare_logits"]


def test_the_model_of_llm_foundry_alone_is_built_for_its_logits() -> None:
    given: Arguments = {"max_seq_len": 32, "optimizer.lr": 1e-3, "model.d_model": 64}
    mpt: Arguments = {"model.name": "mpt_causal_lm", "model.attn_config.rope": True}
    made = FOUNDRY.one_rank_arguments({**given, **mpt})
    assert "optimizer.lr" not in made
    assert made["model.attn_config.attn_impl"] == "torch"
    assert made["model.attn_config.rope_impl"] == "hf"
    hub = FOUNDRY.one_rank_arguments({**given, "model.name": "hf_causal_lm"})
    assert hub["model.use_flash_attention_2"] is False
    assert not [name for name in hub if "attn_config" in name]


def test_findings_come_through_whole(worker: Path) -> None:
    finding = Finding(
        "ST-EXCHANGE-002", Severity.ERROR, Where(file="c.json"), "no.", "yarn", "Use another."
    )
    worker.write_text(json.dumps({"findings": [finding.to_dict()]}))
    with pytest.raises(FindingsError) as refused:
        import_weights(Path("hub"), Path("out"), engine=MEGATRON)
    assert refused.value.findings == (finding,)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ('{"failed": "No space left on device"}', "No space left on device"),
        ("Traceback\nMemoryError: 3 GiB\n", "MemoryError: 3 GiB"),
        ("", "no output"),
    ],
)
def test_a_worker_without_an_answer(worker: Path, lines: str, said: str) -> None:
    worker.write_text(lines)
    with pytest.raises(WeightsError, match=" failed: ") as failed:
        import_weights(Path("hub"), Path("out"), engine=MEGATRON)
    assert said in str(failed.value)


def test_a_killed_worker_wanted_memory(worker: Path, tmp_path: Path) -> None:
    (tmp_path / "worker").write_text("#!/bin/sh\necho loading\nkill -9 $$\n")
    with pytest.raises(WeightsError, match="too little memory"):
        import_weights(Path("hub"), Path("out"), engine=MEGATRON)


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    weights = tmp_path / "weights"
    weights.mkdir()
    (weights / EXPORT_RECORD).write_text(json.dumps({"step": 40, "checkpoint": "saved/iter_40"}))
    return weights


def told_of(largest: float | None, largest_logit: float = 5.0) -> str:
    said = {"largest": largest, "tokens": 64, "vocabulary": 128, "same_choice": 64}
    return json.dumps({"result": said | {"largest_logit": largest_logit}})


def test_an_export_within_the_bar_says_so_in_its_record(
    worker: Path, exported: Path, saved: Path
) -> None:
    worker.write_text(told_of(2e-7))
    told = prove_export(saved, exported, resolved())
    assert told["logits"].pop("says").startswith("a logit in transformers is 2e-07 from")
    gate = {"equal": True, "largest_difference": 2e-7, "tokens": 64}
    assert told == {"step": 40, "checkpoint": "saved/iter_40", "logits": gate}
    assert json.loads((exported / EXPORT_RECORD).read_text())["step"] == 40
    refuse_other_logits(told, exported)
    # What was never compared is not judged.
    refuse_other_logits({"step": 40}, exported)


@pytest.mark.parametrize(
    ("largest", "said"),
    [
        (0.5, "is 5e-01 from the engine's, and at most 1e-04 is rounding"),
        (None, "vocabulary in transformers differs"),
        (math.nan, "are NaN: the training has diverged"),
    ],
)
def test_an_export_beyond_the_bar_is_none(
    worker: Path, exported: Path, saved: Path, largest: float | None, said: str
) -> None:
    worker.write_text(told_of(largest))
    prove_export(saved, exported, resolved())
    # Whoever comes later reads it in the record.
    told = json.loads((exported / EXPORT_RECORD).read_text())
    with pytest.raises(FindingsError, match="Do not use this export of saved/iter") as refused:
        refuse_other_logits(told, exported)
    assert refused.value.findings[0].code == ExchangeCode.OTHER_LOGITS
    assert said in str(refused.value)


def test_the_bar_is_1e_4_and_grows_with_logits_that_are_large() -> None:
    assert Logits(1e-3, 1, 1, 1, largest_logit=100.0).equal
    assert not Logits(1.01e-3, 1, 1, 1, largest_logit=100.0).equal
    assert not Logits(1.01e-4, 1, 1, 1, largest_logit=10.0).equal
    assert Logits(1e-4, 1, 1, 1).equal
    assert not Logits(1.01e-4, 1, 1, 1).equal


def test_arguments_of_a_large_layout_become_those_of_one_rank() -> None:
    given = {"tensor-model-parallel-size": 8, "bf16": True, "micro-batch-size": 2, "swiglu": True}
    made = MEGATRON.one_rank_arguments({**given, "global-batch-size": 512})
    assert made["tensor-model-parallel-size"] == 1
    assert made["bf16"] is None
    assert (made["global-batch-size"], made["swiglu"]) == (2, True)


@pytest.fixture
def export(tmp_path: Path) -> Path:
    directory = tmp_path / "weights"
    directory.mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        (directory / name).touch()
    return directory


def test_a_prompt_is_handed_to_the_worker_as_one_word(
    worker: Path, export: Path, tmp_path: Path
) -> None:
    told = {"text": "Once upon a time", "tokens": 2, "class": "LlamaForCausalLM"}
    worker.write_text(json.dumps({"result": told}))
    assert generate_text(export, "Once $(id) upon", tokens=2, temperature=0, seed=3) == told
    words = (tmp_path / "words").read_text()
    assert words == (f"-m seatrial.worker.weights.generate {export} Once $(id) upon 2 0 3\n")


@pytest.mark.parametrize(
    ("missing", "says"),
    [
        ("config.json", "has no config.json, so it is not an export. Export a checkpoint first"),
        ("model.safetensors", "has no weights in safetensors files"),
        ("tokenizer.json", "has no tokenizer, so it cannot read a prompt"),
    ],
)
def test_what_is_no_export_is_refused_before_the_worker_starts(
    export: Path, missing: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEATRIAL_WORKER_PYTHON", "/nowhere")
    (export / missing).unlink()
    with pytest.raises(UsageError, match=says):
        generate_text(export, "Once")
