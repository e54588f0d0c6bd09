# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Real saves of Composer: listed, verified, pruned, and exported with the gate of logits.

The gate is that of Megatron's exports: LLM Foundry's own model and torch's loader on one side,
transformers without code of a repository on the other, both in fp32, on the same drawn tokens,
within 1e-4.
"""

import json
import os
import struct
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from seatrial.checkpoints.verification import read_record
from seatrial.engine_process.weights import LOGITS_BAR, compare_logits, export_weights
from seatrial.engines.engine import Arguments, Trial
from seatrial.engines.llm_foundry.checkpoints import SHARDED
from seatrial.errors import FindingsError
from seatrial.storage.location import LocalPlace
from tests.foundry.conftest import Figure
from tests.foundry.test_training import twin
from tests.foundry.warm import FOUNDRY, WarmFoundry

pytestmark = [pytest.mark.engine, pytest.mark.timeout(7200)]

ROOT = Path(__file__).parents[2]
STEPS = 6
SHORT: Arguments = {
    "max_duration": f"{STEPS}ba",
    "save_interval": "2ba",
    # A rate at which so few steps move the weights.
    "optimizer.lr": 5e-3,
    "scheduler.t_warmup": "1ba",
    "max_seq_len": 32,
}
ALIBI: Arguments = {
    "model.no_bias": True,
    "model.attn_config.alibi": True,
    # Not a power of two, for which ALiBi has slopes of another kind.
    "model.n_heads": 6,
    "model.d_model": 96,
    "model.attn_config.clip_qkv": 0.5,
    "model.attn_config.softmax_scale": 0.3,
}
ROTATED: Arguments = {
    "model.no_bias": True,
    "model.norm_type": "low_precision_rmsnorm",
    "model.tie_word_embeddings": False,
    "model.ffn_config.ffn_type": "mptglu",
    "model.ffn_config.ffn_act_fn.name": "silu",
    "model.attn_config.rope": True,
    "model.attn_config.rope_impl": "hf",
    "model.attn_config.rope_theta": 500000,
    "model.attn_config.attn_type": "grouped_query_attention",
    "model.attn_config.kv_n_heads": 2,
    "model.n_heads": 4,
    "model.d_model": 64,
}
LLAMA = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-6,
    "rope_theta": 500000.0,
}


@dataclass(frozen=True)
class Case:
    """A training whose weights are exported."""

    model: str
    sharding: str
    kind: str
    settings: Arguments
    hub: bool = False


CASES = (
    Case("MPT, its defaults", "fsdp", "GPT2LMHeadModel", {}),
    Case("MPT, its defaults", "none", "GPT2LMHeadModel", {}),
    Case("MPT, ALiBi, clipped", "fsdp", "MptForCausalLM", ALIBI),
    Case("MPT, ALiBi, clipped", "none", "MptForCausalLM", ALIBI),
    Case("MPT, rotation, grouped heads", "fsdp", "LlamaForCausalLM", ROTATED),
    Case("hf_causal_lm, Llama", "fsdp", "LlamaForCausalLM", {}, hub=True),
    Case("hf_causal_lm, Llama, tied", "none", "LlamaForCausalLM", {}, hub=True),
)


def arguments_of(case: Case, directory: Path) -> Arguments:
    """What LLM Foundry is told for a short training on two ranks."""
    trial = Trial(str(directory), str(directory / "saved"), True)
    told = FOUNDRY.trial_arguments(twin("aks-mpt-125m", case.sharding), trial) | SHORT
    if case.hub:
        told = {name: value for name, value in told.items() if not name.startswith("model.")}
        told |= hub_model(directory, int(str(told["worker.mock.vocab_size"])), "tied" in case.model)
    told |= case.settings
    return {name: value for name, value in told.items() if "eval" not in name} | {
        "eval_interval": 0
    }


def hub_model(directory: Path, vocabulary: int, tied: bool) -> Arguments:
    """A model of Hugging Face's own code, as a repository of the Hub would describe it."""
    config = LLAMA | {"vocab_size": vocabulary, "tie_word_embeddings": tied}
    (directory / "hub").mkdir()
    (directory / "hub" / "config.json").write_text(json.dumps(config))
    return {
        "model.name": "hf_causal_lm",
        "model.pretrained_model_name_or_path": str(directory / "hub"),
        "model.pretrained": False,
        "model.init_device": "cpu",
        "model.use_flash_attention_2": False,
    }


def trained(directory: Path, case: Case, warm: WarmFoundry) -> Arguments:
    """Train and save twice; what LLM Foundry was told."""
    arguments = arguments_of(case, directory)
    outcome = warm.start(directory, "training", arguments, 2)
    assert outcome.code == 0, outcome.tail
    return arguments


def seatrial(*words: object) -> str:
    """What a command says, as a user starts it; it must end well."""
    done = subprocess.run(
        [sys.executable, "-m", "seatrial", *map(str, words)],
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.model} {case.sharding}")
def test_an_export_says_what_llm_foundry_says(
    case: Case, tmp_path: Path, warm: WarmFoundry, figure: Figure
) -> None:
    arguments = trained(tmp_path, case, warm)
    saved, last = tmp_path / "saved", FOUNDRY.checkpoint_naming.directory_name(STEPS)
    record, _ = read_record(LocalPlace(saved), last)
    assert record is not None
    assert (record.setup.checkpoint_format == SHARDED) == (case.sharding == "fsdp")
    told = export_weights(str(saved), last, tmp_path / "exported", engine=FOUNDRY)
    assert told["class"] == case.kind
    assert told["padding_left_out"] == 0
    logits = compare_logits(saved / last, tmp_path / "exported", arguments, engine=FOUNDRY)
    called = "2 ranks, FSDP" if case.sharding == "fsdp" else "2 ranks, one file"
    figure("exports", case.model, called, case.kind, f"{logits.largest:.1e}")
    assert logits.largest <= LOGITS_BAR
    assert logits.vocabulary == told["vocabulary"]


def test_the_gate_sees_one_number_that_is_another(tmp_path: Path, warm: WarmFoundry) -> None:
    case = CASES[0]
    arguments = trained(tmp_path, case, warm)
    checkpoint, exported = (
        tmp_path / "saved" / FOUNDRY.checkpoint_naming.directory_name(STEPS),
        tmp_path / "out",
    )
    export_weights(str(checkpoint.parent), checkpoint.name, exported, engine=FOUNDRY)
    file = exported / "model.safetensors"
    data = bytearray(file.read_bytes())
    # Behind the length of the header, and the header, come the numbers.
    first = 8 + int.from_bytes(data[:8], "little")
    data[first : first + 4] = struct.pack("<f", 1.0)
    file.write_bytes(data)
    assert compare_logits(checkpoint, exported, arguments, engine=FOUNDRY).largest > LOGITS_BAR


@pytest.mark.parametrize("sharding", ["fsdp", "none"])
def test_the_commands_take_a_real_save(sharding: str, tmp_path: Path, warm: WarmFoundry) -> None:
    trained(tmp_path, Case("MPT", sharding, "", {}), warm)
    saved = tmp_path / "saved"
    seen = json.loads(seatrial("checkpoints", "list", saved, "--json"))
    assert [one["step"] for one in seen["checkpoints"]] == [6, 4, 2]
    assert "step 6" in seatrial("checkpoints", "verify", saved)
    seatrial("checkpoints", "prune", saved, "--keep-last", "1", "--yes")
    # The last two that were verified always stay.
    assert sorted(path.name for path in saved.glob("ba*")) == ["ba4", "ba6"]
    said = seatrial("checkpoints", "export", saved, "--to", tmp_path / "exported")
    assert "step 6 is in" in said
    assert "GPT2LMHeadModel, float32" in said
    # One bit of a file of weights, and nothing is read any more.
    pattern = "*.distcp" if sharding == "fsdp" else "*.pt"
    file = next((saved / "ba6").glob(pattern))
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(FindingsError) as refused:
        export_weights(str(saved), "ba6", tmp_path / "again", engine=FOUNDRY)
    assert [finding.code for finding in refused.value.findings] == ["ST-CHECKPOINT-007"]
    assert not (tmp_path / "again").exists()
