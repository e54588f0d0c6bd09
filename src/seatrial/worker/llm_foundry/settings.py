# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The settings on the command line: LLM Foundry's, and ours that stand among them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

OURS = "worker"
"""The section that LLM Foundry does not know."""


@dataclass(frozen=True, slots=True)
class Mock:
    """Made-up data and a tokenizer that the worker writes before it trains."""

    directory: Path
    vocab_size: int
    """Entries of the tokenizer."""
    sequence_length: int
    """Tokens of a sample."""
    samples: int
    """Samples of training data; none are written for 0."""
    seed: int
    """From which tokens are drawn."""


def read(words: list[str]) -> tuple[Any, Mock | None]:
    """LLM Foundry's settings, and what is to be made up, if anything."""
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
