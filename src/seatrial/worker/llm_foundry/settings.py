# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The settings on the command line: LLM Foundry's, and the worker's own section."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from seatrial.dataprep.output.tokenizer_copy import copied_path

CONFIG = "config.json"
OURS = "worker"
"""The section that is not part of LLM Foundry's settings."""


@dataclass(frozen=True, slots=True)
class Mock:
    """Mock data and a mock tokenizer that the worker writes before it trains."""

    directory: Path
    vocab_size: int
    """Size of the tokenizer's vocabulary."""
    sequence_length: int
    """Tokens per sample."""
    samples: int
    """Number of training samples; 0 for no data."""
    seed: int
    """Seed for the random tokens."""


def use_copy(configured: Any, copy: str) -> None:
    """Load the tokenizer, and the configuration of a Hub model, from the data set's copy."""
    named = configured.tokenizer.name
    configured.tokenizer.name = copied_path(copy, named)
    configured.tokenizer.get("kwargs", {}).pop("revision", None)
    model = configured.get("model", {})
    if model.get("pretrained_model_name_or_path") == named and Path(copy, CONFIG).is_file():
        model.pretrained_model_name_or_path = copy


def read(words: list[str]) -> tuple[Any, Mock | None]:
    """Return LLM Foundry's settings, and the data to generate, if any."""
    settings = OmegaConf.from_cli(words)
    ours = settings.pop(OURS, None)
    if ours is None:
        return settings, None
    mock = Mock(
        Path(ours.mock.directory),
        int(ours.mock.vocab_size),
        int(settings.max_seq_len),
        int(ours.mock.get("samples", 0)),
        int(settings.seed),
    )
    return settings, mock
