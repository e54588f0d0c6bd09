# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Data as the `data.toml` of a broken run describes them: what is not listed does not exist."""

import tomllib
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from seatrial.checks.probe_facts import (
    CorpusFacts,
    PairFacts,
    Pointer,
    SplitFacts,
    TokenizerFacts,
    Unknown,
)
from seatrial.dataprep.inputs.selection import format_of, matches

_WIDTHS = {"uint16": 2, "int32": 4}


class DescribedData:
    def __init__(self, description: dict[str, Any]) -> None:
        self._tokenizers = {found["name"]: found for found in description.get("tokenizers", ())}
        self._pairs = {found["prefix"]: found for found in description.get("prepared", ())}
        self._corpora = {found["path"]: found for found in description.get("raw", ())}
        # A description says what matters for its defect; of kinds that it leaves out, nothing.
        self._kinds = set(description)

    @classmethod
    def of(cls, folder: Path) -> "DescribedData | None":
        """What the folder of a case describes, if it does."""
        file = folder / "data.toml"
        return cls(tomllib.loads(file.read_text())) if file.is_file() else None

    def tokenizer(self, address: str) -> TokenizerFacts | Unknown:
        found = self._tokenizers.get(address)
        if found is None:
            return Unknown.ABSENT if "tokenizers" in self._kinds else Unknown.UNSEEN
        return TokenizerFacts(found["entries"], bool(found["end_of_document"]))

    def pair(self, prefix: str) -> PairFacts | Unknown:
        found = self._pairs.get(prefix)
        if found is None:
            return Unknown.ABSENT if "prepared" in self._kinds else Unknown.UNSEEN
        pointer = None
        if "first_wrong_pointer" in found:
            pointer = Pointer(found["first_wrong_pointer"], found["wrong_pointer"])
        return PairFacts(
            found["sequences"],
            found["documents"],
            found["tokens"],
            _WIDTHS[found["dtype"]],
            found["bin_bytes"],
            found["idx_bytes"],
            found.get("header", ""),
            pointer,
            found["tokenizer"],
            "",
            found["largest_id"],
            found["ends_documents"],
        )

    def split(self, directory: str) -> SplitFacts | Unknown:
        """Nothing: no broken run that is described has data in MDS."""
        return Unknown.UNSEEN

    def corpus(self, address: str, pattern: str | None) -> CorpusFacts | Unknown:
        found = self._corpora.get(address)
        if found is None:
            return Unknown.ABSENT if "raw" in self._kinds else Unknown.UNSEEN
        files = found["files"]
        taken = [file for file in files if _taken(file, pattern)]
        # Of a list that is a part, the rest is like what is listed.
        count = found.get("count", len(files)) if len(taken) == len(files) else len(taken)
        return CorpusFacts(tuple(files), count, tuple(found.get("fields", ())))

    def training_tokens(self, location: str, shares: tuple[float, float, float]) -> dict[str, int]:
        """Nothing: no broken run that is described has a data set of Seatrial's."""
        return {}

    def pairs_near(self, prefix: str) -> list[str]:
        """The pairs that are described, the most alike first."""
        alike = sorted(
            self._pairs,
            key=lambda other: SequenceMatcher(None, other, prefix).ratio(),
            reverse=True,
        )
        return [other for other in alike if other != prefix]


def _taken(file: str, pattern: str | None) -> bool:
    """Whether a source with that pattern takes a file."""
    return format_of(file) is not None if pattern is None else matches(pattern, file)
