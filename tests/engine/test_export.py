# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Weights go to Hugging Face's format and come from it, and both models say the same.

The gate is the logits: the engine's own model and loader on one side, transformers' on the other,
both in fp32, on the same drawn tokens, within 1e-4.
"""

import json
import shutil
import subprocess
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path

import pytest

from seatrial.checkpoints.commit import commit, read_back
from seatrial.checkpoints.exchange.safetensors_file import placed_tensors
from seatrial.checkpoints.naming import METADATA
from seatrial.checkpoints.starts import claim
from seatrial.checkpoints.verification import verify
from seatrial.engine_process.process import worker_python
from seatrial.engine_process.weights import (
    LOGITS_BAR,
    Logits,
    compare_logits,
    export_weights,
    import_weights,
)
from seatrial.engines.megatron.checkpoint_names import NAMING
from seatrial.engines.megatron.checkpoints import COMMON
from seatrial.engines.megatron.command_line import Arguments
from seatrial.engines.megatron.hub_model import arguments_of_model
from seatrial.errors import FindingsError
from seatrial.storage.location import LocalPlace
from tests.conftest import MEGATRON
from tests.engine.conftest import Figure
from tests.engine.toy import DENSE, LLAMA, SHARDED, start
from tests.unit.checkpoints.exchange import models
from tests.unit.checkpoints.made import archive, flip, metadata, record

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1200)]

STEPS = 6
# A vocabulary that needs padding, and a rate at which six steps move the weights.
SHORT: Arguments = {
    "train-iters": STEPS,
    "save-interval": STEPS,
    "lr": 5e-3,
    "vocab-size": 101,
    "make-vocab-size-divisible-by": 64,
}
GPT2: Arguments = {**DENSE, **SHORT}
GROUPED: Arguments = {**LLAMA, **SHORT, "rotary-base": 500000, "kv-channels": 32}
MIXTRAL: Arguments = {
    **LLAMA,
    **SHORT,
    "num-experts": 4,
    "moe-router-topk": 2,
    "moe-ffn-hidden-size": 96,
    "moe-router-load-balancing-type": "aux_loss",
    "moe-aux-loss-coeff": 1e-2,
    "moe-token-dispatcher-type": "alltoall",
}
# Everything else that a config.json of Llama can say.
BIASED: Arguments = {
    **GROUPED,
    "disable-bias-linear": None,
    "untie-embeddings-and-output-weights": None,
    "use-rope-scaling": True,
    "rope-scaling-factor": 4.0,
    "norm-epsilon": 1e-6,
}


@dataclass(frozen=True)
class Case:
    """A training whose weights are exported."""

    model: str
    layout: str
    arguments: Arguments
    processes: int = 1
    cut: Arguments | None = None


CUT: Arguments = {
    "tensor-model-parallel-size": 2,
    "pipeline-model-parallel-size": 2,
    "sequence-parallel": True,
}
EXPERTS: Arguments = {"expert-model-parallel-size": 2, "expert-tensor-parallel-size": 1}
SMALL = (
    Case("GPT-2", "one rank", GPT2),
    Case("Llama, grouped heads", "one rank", GROUPED),
    Case("Mixtral", "one rank", MIXTRAL),
)
LARGE = (
    Case("Llama, tied, biases, scaled rotation", "one rank", BIASED),
    Case("GPT-2", "tp 2 · pp 2", GPT2, 4, CUT),
    Case("Llama, grouped heads", "tp 2 · pp 2", GROUPED, 4, CUT),
    Case("Llama, bf16, distributed optimizer", "dp 2", {**GROUPED, "bf16": True}, 2, SHARDED),
    Case("Mixtral", "tp 2 · pp 2 · ep 2", MIXTRAL, 4, {**CUT, **EXPERTS}),
)


def trained(directory: Path, case: Case) -> Path:
    """The checkpoint of a short training."""
    arguments = {**case.arguments, **(case.cut or {}), "save": str(directory / "saved")}
    start(directory, "training", arguments, case.processes)
    return directory / "saved"


def gate(saved: Path, case: Case, exported: Path, figure: Figure) -> Logits:
    """Export a checkpoint and compare; the measured row is recorded."""
    told = export_weights(str(saved), NAMING.directory_name(STEPS), exported, engine=MEGATRON)
    assert told["vocabulary"] == 101
    assert told["padding_left_out"] > 0
    logits = compare_logits(
        saved / NAMING.directory_name(STEPS), exported, case.arguments, engine=MEGATRON
    )
    print(case.model, case.layout, logits)
    figure("exports", case.model, case.layout, f"{logits.largest:.1e}")
    return logits


@pytest.mark.slow
@pytest.mark.parametrize("case", SMALL, ids=lambda case: f"{case.model} {case.layout}")
def test_an_export_says_what_the_engine_says(tmp_path: Path, case: Case, figure: Figure) -> None:
    logits = gate(trained(tmp_path, case), case, tmp_path / "exported", figure)
    assert logits.largest <= LOGITS_BAR
    assert logits.vocabulary == 101


@pytest.mark.slow
@pytest.mark.parametrize("case", LARGE, ids=lambda case: f"{case.model} {case.layout}")
def test_an_export_of_another_layout(tmp_path: Path, case: Case, figure: Figure) -> None:
    logits = gate(trained(tmp_path, case), case, tmp_path / "exported", figure)
    assert logits.largest <= LOGITS_BAR


@pytest.mark.slow
def test_a_damaged_checkpoint_is_not_exported(tmp_path: Path) -> None:
    saved = trained(tmp_path, SMALL[0])
    shard = next((saved / NAMING.directory_name(STEPS)).glob("*.distcp"))
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)
    with pytest.raises(FindingsError) as refused:
        export_weights(
            str(saved), NAMING.directory_name(STEPS), tmp_path / "exported", engine=MEGATRON
        )
    assert [finding.code for finding in refused.value.findings] == ["ST-CHECKPOINT-007"]
    assert not (tmp_path / "exported").exists()


def test_a_model_without_a_class_is_refused_before_the_verification(tmp_path: Path) -> None:
    arguments = arguments_of_model(models.LLAMA) | {"normalization": "LayerNorm"}
    directory = tmp_path / NAMING.directory_name(STEPS)
    directory.mkdir()
    items = [archive([{"args": Namespace(**arguments)}]), archive({}, b"weights")]
    names = ["__0_i1_0.distcp", "__1_i1_0.distcp"]
    for name, item in zip(names, items, strict=True):
        (directory / name).write_bytes(item)
    places = zip([COMMON, "layer"], names, items, strict=True)
    (directory / METADATA).write_bytes(metadata({k: (n, 0, len(i)) for k, n, i in places}))
    claim(LocalPlace(tmp_path), "1", 0)
    shards = [read_back(directory / name) for name in names]
    commit(LocalPlace(tmp_path), shards, record(STEPS))
    flip(directory / names[1])
    with pytest.raises(FindingsError) as refused:
        export_weights(str(tmp_path), directory.name, tmp_path / "exported", engine=MEGATRON)
    (finding,) = refused.value.findings
    assert finding.code == "ST-EXCHANGE-001"
    assert "does not support norm: layernorm" in finding.rule
    assert not (tmp_path / "exported").exists()


MAKE = """
import sys, torch, transformers
kind, target = sys.argv[1:3]
torch.manual_seed(7)
shared = dict(vocab_size=101, initializer_range=0.1)
llama = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=4, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=64, **shared)
configs = {
    "llama": lambda: transformers.LlamaConfig(head_dim=32, rms_norm_eps=1e-6, **llama),
    "mixtral": lambda: transformers.MixtralConfig(
        num_local_experts=4, num_experts_per_tok=2, **llama),
    "gpt2": lambda: transformers.GPT2Config(
        n_embd=64, n_layer=4, n_head=4, n_positions=64, **shared),
}
model = transformers.AutoModelForCausalLM.from_config(configs[kind](), dtype=torch.float32)
for name, parameter in model.named_parameters():
    # Fresh norms and biases are ones and zeros, which would hide that one took another's place.
    torch.nn.init.normal_(parameter, float("norm" in name or "ln_" in name), 0.1)
model.save_pretrained(target)
"""
IMPORTED = {
    "llama": {**GROUPED, "ffn-hidden-size": 96, "norm-epsilon": 1e-6, "rotary-base": 10000},
    "mixtral": {**MIXTRAL, "rotary-base": 1000000},
    "gpt2": {**GPT2, "no-bias-gelu-fusion": None},
}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Weights that transformers itself has written, of each class."""
    root = tmp_path_factory.mktemp("hub")
    for kind in IMPORTED:
        words = [worker_python(MEGATRON), "-c", MAKE, kind, str(root / kind)]
        subprocess.run(words, check=True, capture_output=True)
    return root


@pytest.mark.parametrize(
    "kind",
    [kind if kind == "gpt2" else pytest.param(kind, marks=pytest.mark.slow) for kind in IMPORTED],
)
def test_imported_weights_say_what_they_said(
    hub: Path, tmp_path: Path, kind: str, figure: Figure
) -> None:
    told = import_weights(hub / kind, tmp_path / "saved", engine=MEGATRON)
    checkpoint = tmp_path / "saved" / NAMING.directory_name(0)
    assert verify(LocalPlace(tmp_path / "saved"), checkpoint.name) == []
    logits = compare_logits(checkpoint, hub / kind, IMPORTED[kind], engine=MEGATRON)
    print(kind, logits)
    figure("exports", told["class"], "imported", f"{logits.largest:.1e}")
    assert logits.largest <= LOGITS_BAR
    # And back: every tensor, bit for bit.
    export_weights(str(tmp_path / "saved"), checkpoint.name, tmp_path / "again", engine=MEGATRON)
    one, other = placed_tensors(hub / kind), placed_tensors(tmp_path / "again")
    assert one.keys() == other.keys()
    for name, placed in one.items():
        pieces = []
        for part in (placed, other[name]):
            with part.file.open("rb") as stream:
                stream.seek(part.offset)
                pieces.append(stream.read(part.tensor.size))
        assert pieces[0] == pieces[1], name


@pytest.mark.slow
def test_the_bar_can_fail(hub: Path, tmp_path: Path) -> None:
    """The same weights with another base of rotation are found out."""
    import_weights(hub / "llama", tmp_path / "saved", engine=MEGATRON)
    shutil.copytree(hub / "llama", tmp_path / "other")
    config = tmp_path / "other" / "config.json"
    values = json.loads(config.read_text())
    values["rope_parameters"]["rope_theta"] = 20000.0
    config.write_text(json.dumps(values))
    checkpoint = tmp_path / "saved" / NAMING.directory_name(0)
    wrong = compare_logits(checkpoint, tmp_path / "other", IMPORTED["llama"], engine=MEGATRON)
    print("another base of rotation", wrong)
    assert not wrong.equal


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["llama", "mixtral"])
def test_a_run_starts_from_imported_weights(hub: Path, tmp_path: Path, kind: str) -> None:
    """In another layout, at step 1, with their loss; and a restart goes on from its own save."""
    import_weights(hub / kind, tmp_path / "imported", engine=MEGATRON)
    experts = EXPERTS if kind == "mixtral" else {}
    run: Arguments = {
        **IMPORTED[kind],
        **CUT,
        **experts,
        **SHARDED,
        "save": str(tmp_path / "saved"),
        "load": str(tmp_path / "saved"),
        "pretrained-checkpoint": str(tmp_path / "imported"),
        # The engine refuses to go on with another schedule, which would follow train-iters.
        "lr-decay-iters": STEPS + 2,
    }
    first = start(tmp_path, "first", run, 4)
    assert min(first.steps()) == 1
    once: Arguments = {**IMPORTED[kind], "train-iters": 1}
    alone = start(tmp_path, "alone", once | {"pretrained-checkpoint": run["pretrained-checkpoint"]})
    assert first.losses()[1] == pytest.approx(alone.losses()[1], rel=1e-6)
    fresh = start(tmp_path, "fresh", once)
    assert abs(first.losses()[1] - fresh.losses()[1]) > 0.1
    again = start(tmp_path, "again", {**run, "train-iters": STEPS + 2}, 4)
    assert sorted(again.steps()) == [STEPS + 1, STEPS + 2]
    log = (tmp_path / "first.log").read_text()
    assert "verified the checkpoint at step 0: resuming from it" in log
