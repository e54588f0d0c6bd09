# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Facts about tokenizers, prepared data, corpora and checkpoints, whichever probe reads them."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from seatrial.checkpoints.setup import Setup


class Unknown(StrEnum):
    """Why there are no facts."""

    ABSENT = "absent"
    """It does not exist."""
    UNSEEN = "unseen"
    """It cannot be read from this host, or with the installed packages."""
    UNREADABLE = "unreadable"
    """It exists, and has another format."""
    NO_BIN = "no bin"
    """Only the `.idx` of a prepared pair exists."""
    NO_IDX = "no idx"
    """Only the `.bin` of a prepared pair exists."""


@dataclass(frozen=True, slots=True)
class TokenizerFacts:
    entries: int
    """Number of entries, including added tokens."""
    ends_documents: bool
    """True if it has an end-of-document token."""
    fingerprint: str = ""
    """Digest of its file; empty if unknown."""
    unstated_end: str = ""
    """The end token that only data preparation infers; empty if training knows one too."""
    names_class: bool = True
    """True if the files next to it name the tokenizer class."""


@dataclass(frozen=True, slots=True)
class Pointer:
    """A wrong offset in an index."""

    sequence: int
    value: int
    """The offset in the index, in bytes."""


@dataclass(frozen=True, slots=True)
class PairFacts:
    """A prepared pair of `.bin` and `.idx`."""

    sequences: int
    """Sequences. Each is a document, unless documents were split into sentences."""
    documents: int
    tokens: int
    """All tokens, as counted by the index."""
    token_bytes: int
    """Bytes of a token, usually 2 or 4."""
    bin_bytes: int
    """Size of the `.bin`."""
    idx_bytes: int
    """Size of the `.idx`."""
    begins_with: str = ""
    """The start of the index if it is not Megatron's header; the counts are invalid then."""
    wrong_pointer: Pointer | None = None
    """The first wrong offset."""
    tokenizer: str = ""
    """The tokenizer that it was prepared with; empty if unknown."""
    fingerprint: str = ""
    """Digest of that tokenizer's file; empty if unknown."""
    largest_id: int | None = None
    """The largest id found; `None` if the tokens were not read."""
    ends_documents: bool | None = None
    """True if documents end with the end-of-document token; `None` if not read."""
    index_version: int = 1
    """The format version in the index."""


@dataclass(frozen=True, slots=True)
class SplitFacts:
    """An MDS split."""

    samples: int
    """Samples of all shards, as counted by the index."""
    length: int | None = None
    """Tokens of a sample; `None` if not read."""
    absent: str = ""
    """The first shard in the index that does not exist."""
    other_size: str = ""
    """The first shard whose size differs from the index."""


@dataclass(frozen=True, slots=True)
class CorpusFacts:
    """Raw text."""

    files: tuple[str, ...]
    """All paths below the address, or the first ones."""
    taken: int
    """Number of files that the source uses, by its pattern or, without one, by their names."""
    fields: tuple[str, ...] = ()
    """Fields of a document; empty if none was read."""
    other_fields: tuple[str, ...] = ()
    """The fields that are not text."""
    unreadable: str = ""
    """Why its documents cannot be read, as the start of a sentence; empty if they can."""
    rough_tokens: int = 0
    """Tokens of the files that the source uses, estimated from their stored sizes; 0 if unknown."""


class DataProbe(Protocol):
    """Reads data: from files, or from a description in a test."""

    def tokenizer(self, address: str) -> TokenizerFacts | Unknown:
        """Return the tokenizer at an address."""
        ...

    def pair(self, prefix: str) -> PairFacts | Unknown:
        """Return the prepared pair of a prefix."""
        ...

    def split(self, directory: str) -> SplitFacts | Unknown:
        """Return the MDS split in a directory."""
        ...

    def corpus(self, address: str, pattern: str | None) -> CorpusFacts | Unknown:
        """Return the raw text at an address, in the files that match a pattern."""
        ...

    def training_tokens(self, location: str, shares: tuple[float, float, float]) -> dict[str, int]:
        """Training tokens of each source of the data set at a location; empty if there is none."""
        ...

    def pairs_near(self, prefix: str) -> Sequence[str]:
        """Return the prefixes of prepared pairs near another one, the likeliest first."""
        ...


@dataclass(frozen=True, slots=True)
class SavedFacts:
    step: int
    """The step after which it was saved."""
    setup: Setup | None
    """The setup in its record; `None` without a readable record."""
    consumed_samples: int = 0
    """Sequences that were trained on up to this step."""
    recorded: bool = True
    """True if it has a record. Interrupted saves and saves of other tools have none."""
    has_optimizer: bool = True
    """True if it has optimizer state, or if that was not read."""

    @property
    def whole(self) -> bool:
        """True if a run can resume from it."""
        return self.recorded and self.setup is not None


@dataclass(frozen=True, slots=True)
class PlaceFacts:
    """The checkpoints in one location."""

    saved: tuple[SavedFacts, ...]
    """All checkpoints, the newest first."""
    tracked: int | None = None
    """The step in the engine's tracker file; `None` without one."""

    @property
    def newest(self) -> SavedFacts | None:
        """The newest complete checkpoint."""
        return next((one for one in self.saved if one.whole), None)


class CheckpointProbe(Protocol):
    """Reads checkpoint locations."""

    def at(self, address: str) -> PlaceFacts | Unknown:
        """Return the checkpoints at a location."""
