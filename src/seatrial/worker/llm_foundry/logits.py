# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""LLM Foundry's logits of a checkpoint: `python -m seatrial.worker.llm_foundry.logits`.

Takes the checkpoint's directory, which was verified, a file to write to, a seed, and the settings
of the model. The model is LLM Foundry's own, and torch loads the checkpoint, so that nothing of an
export's own reading is taken for granted.
"""

import logging
import sys
import warnings
from pathlib import Path
from typing import Any

SEQUENCES = 2
"""Sequences of drawn tokens."""
LONGEST = 256
"""Tokens of each, or as many as the run has: what a host remembers grows with their square."""


def main() -> None:
    """Load, compute, and write tokens and logits."""
    directory, target, seed, *words = sys.argv[1:]
    from seatrial.worker.llm_foundry.cpu import install  # noqa: PLC0415

    install()
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    from seatrial.worker.weights.progress import answer  # noqa: PLC0415

    answer(lambda tell: write_logits(Path(directory), Path(target), int(seed), words))


def write_logits(directory: Path, target: Path, seed: int, words: list[str]) -> dict[str, Any]:
    """Draw tokens, and write them with what LLM Foundry's model says of each."""
    import torch  # noqa: PLC0415

    from seatrial.worker.llm_foundry import settings  # noqa: PLC0415

    configured, _ = settings.read(words)
    model = _model(dict(configured.model)).eval()
    model.load_state_dict(_state(directory, model.state_dict()))
    generator = torch.Generator().manual_seed(seed)
    shape = (SEQUENCES, min(LONGEST, int(configured.max_seq_len)))
    tokens = torch.randint(model.config.vocab_size, shape, generator=generator)
    with torch.no_grad():
        logits = model({"input_ids": tokens}).logits
    torch.save({"tokens": tokens, "logits": logits.float().clone()}, target)
    return {"tokens": tokens.numel()}


def _model(settings: dict[str, Any]) -> Any:
    """LLM Foundry's model, as its training builds it."""
    from contextlib import nullcontext  # noqa: PLC0415

    from llmfoundry.utils.builders import build_composer_model  # noqa: PLC0415

    name = settings.pop("name")
    return build_composer_model(name=name, cfg=settings, tokenizer=None, init_context=nullcontext())


def _state(directory: Path, empty: dict[str, Any]) -> dict[str, Any]:
    """The model's tensors of a checkpoint, loaded by torch as Composer does."""
    from torch.distributed import checkpoint  # noqa: PLC0415

    from seatrial.checkpoints.naming import COMPOSER_FILE, METADATA  # noqa: PLC0415
    from seatrial.worker.checkpointing import safe_load  # noqa: PLC0415

    safe_load.install()
    if (directory / METADATA).is_file():
        state = {"state": {"model": empty}}
        checkpoint.load(state, checkpoint_id=str(directory), no_dist=True)
        return state["state"]["model"]
    found: dict[str, Any] = safe_load.load_archive(directory / COMPOSER_FILE)["state"]["model"]
    return found


if __name__ == "__main__":
    main()
