# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Detect a `tokenizer.json` without settings that name its end-of-document token or its class.

Data preparation works if exactly one token can be meant. Training does not guess: Hugging Face's
loader returns a tokenizer without an end token, and the engine fails with a TypeError. The loader
of LLM Foundry, transformers 4, also needs a class.
"""

from pathlib import Path

from seatrial.codes.data import InputCode
from seatrial.dataprep.tasks.task_list import TokenizerKind
from seatrial.dataprep.tokenizers.end_wording import (
    FILE,
    NO_CLASS_FIX,
    fix_of,
    no_class_rule,
    rule_of,
)
from seatrial.dataprep.tokenizers.identity import describe, end_text
from seatrial.dataprep.tokenizers.locations import locate
from seatrial.findings import Finding, Severity, Where

_CONFIG = "config.json"
_OTHERS = (_CONFIG, "special_tokens_map.json")
"""Other files in which the loader can find the end token: its own class, or an older format."""


def unstated_end(address: str) -> str:
    """Return the end token that only data preparation infers; empty if training knows one.

    Always empty for repositories on the Hub: they name their class, which may define the token.
    """
    folder = _folder(address)
    if folder is None or any((folder / name).is_file() for name in _OTHERS):
        return ""
    settings = locate(address).settings
    if settings.get("eos_token") or settings.get("tokenizer_class"):
        return ""
    tokenizer, data = describe(address)
    return end_text(tokenizer, data) if tokenizer.kind is TokenizerKind.HUGGING_FACE else ""


def names_class(address: str) -> bool:
    """True if the files next to a tokenizer name its class."""
    folder = _folder(address)
    if folder is None or (folder / _CONFIG).is_file():
        return True
    return bool(locate(address).settings.get("tokenizer_class"))


def _folder(address: str) -> Path | None:
    """Return the directory of a `tokenizer.json`; None for other kinds and for the Hub."""
    if address.startswith("hf://"):
        return None
    path = Path(address).expanduser()
    folder = path if path.is_dir() else path.parent
    named = path == folder or path.name == FILE
    return folder if named and (folder / FILE).is_file() else None


def end_findings(address: str, engine: str = "") -> list[Finding]:
    """Warn if training could not read the prepared data with this tokenizer.

    `engine` is the title of an engine whose loader needs a tokenizer class; empty for any other.
    """
    where, severity = Where("data.tokenizer", address), Severity.WARNING
    end = unstated_end(address)
    if end:
        code = InputCode.END_OF_DOCUMENT
        return [Finding(code, severity, where, rule_of(end), address, fix_of(end))]
    if engine and not names_class(address):
        code = InputCode.TOKENIZER
        rule = no_class_rule(engine)
        return [Finding(code, severity, where, rule, address, NO_CLASS_FIX)]
    return []
