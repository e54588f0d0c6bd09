# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The files of a tokenizer beside exported weights, where it can be had without a network."""

from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from seatrial.checkpoints.setup import Setup

KIND = "HuggingFaceTokenizer"
"""Megatron's name for tokenizers that transformers loads."""


def tokenizer_of(setup: Setup) -> str:
    """The kind and the name of a run's tokenizer; LLM Foundry names no kind, having one."""
    return f"{KIND} {setup.tokenizer}".strip() if setup.by_composer else setup.tokenizer


def save_tokenizer(tokenizer: str, target: Path) -> dict[str, Any]:
    """Save a run's tokenizer into a directory, and its special tokens; nothing where it is not had.

    `tokenizer` is the engine's kind, and a name of the Hub or a path.
    """
    kind, _, name = tokenizer.partition(" ")
    if kind != KIND or not name:
        return {}
    try:
        loaded = AutoTokenizer.from_pretrained(name, local_files_only=True)
        loaded.save_pretrained(target)
    except Exception:
        # Not on this host, or of a kind that cannot be saved: the reference alone stays.
        return {}
    return {"bos_token_id": loaded.bos_token_id, "eos_token_id": loaded.eos_token_id}
