# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Every model type goes to transformers and back, and both models say the same.

The engine trains a tiny model of each type. Its export is loaded by stock transformers, without
remote code; the logits of the two must be equal within rounding. The import of the export must
contain the same tensors, bit for bit.
"""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from seatrial.checkpoints.exchange.safetensors_file import Placed, placed_tensors
from seatrial.engine_process.weights import (
    Logits,
    compare_logits,
    export_weights,
    import_weights,
)
from seatrial.engines.megatron.checkpoint_names import NAMING
from seatrial.engines.megatron.command_line import Arguments
from seatrial.engines.megatron.hub_model import flags_of_model
from seatrial.engines.megatron.trial import CPU_ARGUMENTS
from seatrial.spec.model import Architecture
from tests.conftest import MEGATRON
from tests.engine.conftest import Figure
from tests.engine.model_types import FAMILIES
from tests.engine.toy import DENSE, start

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1200)]

STEPS = 4
BAR = 1e-5
"""Largest difference of a logit, both in fp32."""
SHORT = ("qwen3", "deepseek_v3")
"""The types that every run of the suite proves; the others are slow."""


def arguments_of(model: Architecture) -> Arguments:
    """A training that moves all weights, from weights at which attention matters."""
    return {
        **DENSE,
        **flags_of_model(model),
        # A vocabulary that needs padding.
        "padded-vocab-size": 128,
        "train-iters": STEPS,
        "save-interval": STEPS,
        "lr": 5e-3,
        "init-method-std": 0.1,
        **CPU_ARGUMENTS,
    }


@dataclass(frozen=True)
class Exported:
    """A trained model and its export."""

    arguments: Arguments
    checkpoint: Path
    weights: Path

    def logits(self, weights: Path | None = None) -> Logits:
        """Compare the engine's logits with those of weights in transformers."""
        return compare_logits(
            self.checkpoint, weights or self.weights, self.arguments, engine=MEGATRON
        )


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Exported]:
    """Trains a type once and exports it."""
    done: dict[str, Exported] = {}

    def export(model_type: str) -> Exported:
        if model_type not in done:
            directory = tmp_path_factory.mktemp(model_type)
            arguments = arguments_of(FAMILIES[model_type])
            saved, weights = directory / "saved", directory / "exported"
            start(directory, "training", {**arguments, "save": str(saved)})
            checkpoint = saved / NAMING.directory_name(STEPS)
            export_weights(str(saved), checkpoint.name, weights, engine=MEGATRON)
            done[model_type] = Exported(arguments, checkpoint, weights)
        return done[model_type]

    return export


def slow_except(names: tuple[str, ...], every: Any) -> list[Any]:
    """Mark all but some types as slow."""
    return [name if name in names else pytest.param(name, marks=pytest.mark.slow) for name in every]


@pytest.mark.parametrize("model_type", slow_except(SHORT, FAMILIES))
def test_an_export_says_what_the_engine_says(
    exported: Callable[[str], Exported], tmp_path: Path, model_type: str, figure: Figure
) -> None:
    one = exported(model_type)
    config = json.loads((one.weights / "config.json").read_text())
    assert config["model_type"] == model_type
    logits = one.logits()
    print(model_type, logits)
    figure("families", model_type, f"{logits.largest:.1e}", f"{logits.largest_logit:.1f}")
    assert logits.largest <= BAR
    assert logits.same_choice == logits.tokens
    # And back.
    import_weights(one.weights, tmp_path / "imported", engine=MEGATRON)
    again = tmp_path / "again"
    directory = NAMING.directory_name(0)
    export_weights(str(tmp_path / "imported"), directory, again, engine=MEGATRON)
    assert equal_tensors(one.weights, again) > 10
    checkpoint = tmp_path / "imported" / directory
    back = compare_logits(checkpoint, one.weights, one.arguments, engine=MEGATRON)
    assert back.largest == logits.largest


def equal_tensors(one: Path, other: Path) -> int:
    """Compare all tensors of two directories, bit for bit; return how many there are."""
    ours, theirs = placed_tensors(one), placed_tensors(other)
    assert ours.keys() == theirs.keys()
    for name, placed in ours.items():
        assert content(placed) == content(theirs[name]), name
    return len(ours)


def content(placed: Placed) -> bytes:
    with placed.file.open("rb") as stream:
        stream.seek(placed.offset)
        return stream.read(placed.tensor.size)


Change = Callable[[str, bytes], tuple[str, bytes]]
"""Returns the tensor whose place a tensor takes, and its own value."""


def rewritten(weights: Path, target: Path, change: Change) -> Path:
    """A copy of an export in which a tensor takes another's place or value."""
    shutil.copytree(weights, target)
    places = placed_tensors(weights)
    for name, placed in places.items():
        taken, data = change(name, content(placed))
        if taken != name:
            data = content(places[taken])
        with (target / placed.file.name).open("r+b") as stream:
            stream.seek(placed.offset)
            stream.write(data)
    return target


def swap(name: str, data: bytes) -> tuple[str, bytes]:
    """Gate and up in each other's place."""
    swapped = {"gate_proj": "up_proj", "up_proj": "gate_proj"}
    for one, other in swapped.items():
        if f".mlp.{one}." in name:
            return name.replace(one, other), data
    return name, data


def ones_in(part: str) -> Change:
    """A norm as if it were missing."""
    one = b"\x00\x00\x80\x3f"
    return lambda name, data: (name, one * (len(data) // 4) if part in name else data)


def zeros_in(part: str) -> Change:
    """A bias as if it were missing."""
    return lambda name, data: (name, bytes(len(data)) if part in name else data)


CONTROLS: dict[str, tuple[str, Any]] = {
    "gate and up swapped": ("qwen3", swap),
    "q_norm missing": ("qwen3", ones_in(".q_norm.")),
    "theta doubled": ("qwen3", {"rope_theta": 20000.0}),
    "no expert bias": ("deepseek_v3", zeros_in("e_score_correction_bias")),
    "rotary parts not interleaved": ("deepseek_v3", {"rope_interleave": False}),
    "router weights not scaled": ("deepseek_v3", {"routed_scaling_factor": 1.0}),
    "latent norm missing": ("deepseek_v3", ones_in("q_a_layernorm")),
    "sinks missing": ("gpt_oss", zeros_in(".sinks")),
    "full attention": ("mistral", {"sliding_window": None}),
    "rotary positions in all layers": ("smollm3", {"no_rope_layers": [1] * 4}),
}


@pytest.mark.parametrize(
    "control", slow_except(("gate and up swapped", "q_norm missing"), CONTROLS)
)
def test_a_wrong_export_is_found(
    exported: Callable[[str], Exported], tmp_path: Path, control: str
) -> None:
    model_type, change = CONTROLS[control]
    one = exported(model_type)
    wrong = tmp_path / "wrong"
    if callable(change):
        rewritten(one.weights, wrong, change)
    else:
        shutil.copytree(one.weights, wrong)
        config = json.loads((wrong / "config.json").read_text())
        (wrong / "config.json").write_text(json.dumps(config | change))
    logits = one.logits(wrong)
    print(control, logits)
    assert logits.largest > 10 * BAR
