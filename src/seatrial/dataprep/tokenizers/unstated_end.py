# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A `tokenizer.json` beside which nothing names the token that ends a document.

Data are prepared all the same where one token alone can be meant. Training does not guess: Hugging
Face's loader gives a tokenizer without an end, and the engine stops at it with a TypeError.
"""

from pathlib import Path

from seatrial.dataprep.inputs.codes import InputCode
from seatrial.dataprep.tasks.task_list import TokenizerKind
from seatrial.dataprep.tokenizers.end_wording import FILE, fix_of, rule_of
from seatrial.dataprep.tokenizers.identity import describe, end_text
from seatrial.dataprep.tokenizers.locations import locate
from seatrial.findings import Finding, Severity, Where

_OTHERS = ("config.json", "special_tokens_map.json")
"""Files by which the loader may find the end as well: a class of its own, or an older format."""


def unstated_end(address: str) -> str:
    """The token that only data preparation takes for the end; empty where training knows one.

    Of repositories on the Hub nothing is said: they name their class, which may bring the token.
    """
    if address.startswith("hf://"):
        return ""
    path = Path(address).expanduser()
    folder = path if path.is_dir() else path.parent
    if (path != folder and path.name != FILE) or not (folder / FILE).is_file():
        return ""
    if any((folder / name).is_file() for name in _OTHERS):
        return ""
    settings = locate(address).settings
    if settings.get("eos_token") or settings.get("tokenizer_class"):
        return ""
    tokenizer, data = describe(address)
    return end_text(tokenizer, data) if tokenizer.kind is TokenizerKind.HUGGING_FACE else ""


def end_findings(address: str) -> list[Finding]:
    """The warning of a preparation whose data no training could read as they are."""
    end = unstated_end(address)
    if not end:
        return []
    where = Where("data.tokenizer", address)
    code, severity = InputCode.END_OF_DOCUMENT, Severity.WARNING
    return [Finding(code, severity, where, rule_of(end), address, fix_of(end))]
