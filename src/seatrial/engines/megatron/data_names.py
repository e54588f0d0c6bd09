# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""How the engine is told which data and which tokenizer to use."""

from pathlib import Path

from seatrial.planning.plan import Plan
from seatrial.spec.addresses import tokenizer_name


def data_path(plan: Plan) -> tuple[str, ...] | None:
    """The blend of prepared data, as weight and path in turn."""
    sources = plan.spec.data.sources or ()
    if not sources or any(source.prepared is None for source in sources):
        return None
    words = []
    for source in sources:
        if source.weight is not None:
            words.append(f"{source.weight:g}")
        words.append(str(source.prepared))
    return tuple(words)


def blend_file(plan: Plan) -> str | None:
    """The blend that `seatrial data prepare` writes when sources are raw text."""
    sources = plan.spec.data.sources
    raw = sources is not None and any(source.prepared is None for source in sources)
    return f"{plan.data_location}/blend.txt" if raw else None


_TOKENIZER_FILES = {".model": "GPTSentencePieceTokenizer", ".tiktoken": "TikTokenizer"}
"""Which of the engine's tokenizers reads a file of that ending; Hugging Face's read the rest."""


def tokenizer_type(plan: Plan) -> str:
    """The engine's class for the plan's tokenizer."""
    if not plan.model.tokenizer:
        return "NullTokenizer"
    return _TOKENIZER_FILES.get(Path(plan.model.tokenizer).suffix, "HuggingFaceTokenizer")


def tokenizer(plan: Plan) -> str | None:
    """The tokenizer's name on the Hub, or its path; Hugging Face's loader wants a directory."""
    name = tokenizer_name(plan.model.tokenizer)[0]
    if name.endswith("/tokenizer.json"):
        return name.removesuffix("/tokenizer.json")
    return name or None
