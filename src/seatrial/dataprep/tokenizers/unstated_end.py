# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A `tokenizer.json` beside which nothing names the token that ends a document, or its class.

Data are prepared all the same where one token alone can be meant. Training does not guess: Hugging
Face's loader gives a tokenizer without an end, and the engine stops at it with a TypeError. The
one of LLM Foundry, transformers 4, wants a class as well.
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
"""Files by which the loader may find the end as well: a class of its own, or an older format."""


def unstated_end(address: str) -> str:
    """The token that only data preparation takes for the end; empty where training knows one.

    Of repositories on the Hub nothing is said: they name their class, which may bring the token.
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
    """Whether a loader finds the class of a tokenizer by what lies beside it."""
    folder = _folder(address)
    if folder is None or (folder / _CONFIG).is_file():
        return True
    return bool(locate(address).settings.get("tokenizer_class"))


def _folder(address: str) -> Path | None:
    """The directory of a `tokenizer.json`; none for a tokenizer of another kind or on the Hub."""
    if address.startswith("hf://"):
        return None
    path = Path(address).expanduser()
    folder = path if path.is_dir() else path.parent
    named = path == folder or path.name == FILE
    return folder if named and (folder / FILE).is_file() else None


def end_findings(address: str, engine: str = "") -> list[Finding]:
    """The warning of a preparation whose data no training could read as they are.

    `engine` is the title of one whose loader wants a class named; empty for any other.
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
