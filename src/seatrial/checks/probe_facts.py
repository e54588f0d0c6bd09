# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Facts that probes read about tokenizers, prepared data, corpora and checkpoints."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from seatrial.checkpoints.setup import Setup


class Unknown(StrEnum):
    """Why there are no facts."""

    ABSENT = "absent"
    """The input does not exist."""
    UNSEEN = "unseen"
    """The input cannot be read from this host, or with the installed packages."""
    UNREADABLE = "unreadable"
    """The input exists but has a different format."""
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
    """The end token that only data preparation infers; empty if training finds one too."""
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
    """Number of tokens according to the index."""
    token_bytes: int
    """Bytes per token, usually 2 or 4."""
    bin_bytes: int
    """Size of the `.bin`."""
    idx_bytes: int
    """Size of the `.idx`."""
    begins_with: str = ""
    """The start of the index if it is not Megatron's header; the counts are then invalid."""
    wrong_pointer: Pointer | None = None
    """The first wrong offset."""
    tokenizer: str = ""
    """The tokenizer that the pair was prepared with; empty if unknown."""
    fingerprint: str = ""
    """Digest of that tokenizer's file; empty if unknown."""
    largest_id: int | None = None
    """The largest token ID found; `None` if the tokens were not read."""
    ends_documents: bool | None = None
    """True if documents end with the end-of-document token; `None` if not read."""
    index_version: int = 1
    """The format version in the index."""


@dataclass(frozen=True, slots=True)
class SplitFacts:
    """An MDS split."""

    samples: int
    """Number of samples in all shards according to the index."""
    length: int | None = None
    """Tokens per sample; `None` if not read."""
    absent: str = ""
    """The first shard in the index that does not exist."""
    other_size: str = ""
    """The first shard whose size differs from the index."""


@dataclass(frozen=True, slots=True)
class CorpusFacts:
    """Raw text."""

    files: tuple[str, ...]
    """The paths below the address; only the first ones if there are many."""
    taken: int
    """Number of files that match the source's pattern or, without one, a supported file name."""
    fields: tuple[str, ...] = ()
    """Fields of a document; empty if none was read."""
    other_fields: tuple[str, ...] = ()
    """The fields that are not text."""
    unreadable: str = ""
    """Why the documents cannot be read, as the start of a sentence; empty if they can."""
    rough_tokens: int = 0
    """Tokens in the files that the source uses, estimated from their stored sizes; 0 if unknown."""


class DataProbe(Protocol):
    """Reads data from files or, in a test, from a description."""

    def tokenizer(self, address: str) -> TokenizerFacts | Unknown:
        """Return the tokenizer at an address."""
        ...

    def pair(self, prefix: str) -> PairFacts | Unknown:
        """Return the prepared pair with a prefix."""
        ...

    def split(self, directory: str) -> SplitFacts | Unknown:
        """Return the MDS split in a directory."""
        ...

    def corpus(self, address: str, pattern: str | None) -> CorpusFacts | Unknown:
        """Return the raw text at an address, in the files that match a pattern."""
        ...

    def training_tokens(self, location: str, shares: tuple[float, float, float]) -> dict[str, int]:
        """Return the training tokens of each source at a data location; empty if there are none."""
        ...

    def pairs_near(self, prefix: str) -> Sequence[str]:
        """Return the prefixes of prepared pairs near this prefix, the most likely first."""
        ...


@dataclass(frozen=True, slots=True)
class SavedFacts:
    step: int
    """The step after which it was saved."""
    setup: Setup | None
    """The setup in the record; `None` if there is no readable record."""
    consumed_samples: int = 0
    """Number of sequences that were trained on up to this step."""
    recorded: bool = True
    """True if it has a record. Interrupted saves, and saves by other tools, have none."""
    has_optimizer: bool = True
    """True if it has optimizer state, or if the tensor list was not read."""

    @property
    def whole(self) -> bool:
        """True if a run can resume from it."""
        return self.recorded and self.setup is not None


@dataclass(frozen=True, slots=True)
class PlaceFacts:
    """The checkpoints in one location."""

    saved: tuple[SavedFacts, ...]
    """All checkpoints, newest first."""
    tracked: int | None = None
    """The step in the engine's tracker file; `None` if there is no such file."""

    @property
    def newest(self) -> SavedFacts | None:
        """The newest complete checkpoint."""
        return next((one for one in self.saved if one.whole), None)


class CheckpointProbe(Protocol):
    """Reads checkpoint locations."""

    def at(self, address: str) -> PlaceFacts | Unknown:
        """Return the checkpoints at a location."""
