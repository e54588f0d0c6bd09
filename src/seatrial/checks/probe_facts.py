# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What the check needs to know of tokenizers, prepared data and corpora, whoever looked at them."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from seatrial.checkpoints.setup import Setup


class Unknown(StrEnum):
    """Why there are no facts."""

    ABSENT = "absent"
    """It was looked for and is not there."""
    UNSEEN = "unseen"
    """It cannot be looked at from here, or with what is installed."""
    UNREADABLE = "unreadable"
    """It is there, and is not what it should be."""
    NO_BIN = "no bin"
    """Of a prepared pair, only the `.idx` is there."""
    NO_IDX = "no idx"
    """Of a prepared pair, only the `.bin` is there."""


@dataclass(frozen=True, slots=True)
class TokenizerFacts:
    entries: int
    """Its entries, those that were added included."""
    ends_documents: bool
    """Whether it has a token that ends a document."""
    fingerprint: str = ""
    """The digest of its file; empty when that is not known."""
    unstated_end: str = ""
    """The token that only data preparation takes for the end; empty where training knows one."""
    names_class: bool = True
    """Whether what lies beside its file names the class that loads it."""


@dataclass(frozen=True, slots=True)
class Pointer:
    """A pointer of an index that leads elsewhere than to its sequence."""

    sequence: int
    value: int
    """What the index says, in bytes."""


@dataclass(frozen=True, slots=True)
class PairFacts:
    """A prepared pair of `.bin` and `.idx`."""

    sequences: int
    """Sequences, which are documents unless those were cut into sentences."""
    documents: int
    tokens: int
    """Tokens of all of it, as the index counts them."""
    token_bytes: int
    """Bytes of a token: 2 or 4 as a rule."""
    bin_bytes: int
    """Size of the `.bin`."""
    idx_bytes: int
    """Size of the `.idx`."""
    begins_with: str = ""
    """What the index begins with where that is not Megatron's header; its counts are then void."""
    wrong_pointer: Pointer | None = None
    """The first pointer that leads elsewhere."""
    tokenizer: str = ""
    """The tokenizer that made it; empty when nothing says so."""
    fingerprint: str = ""
    """The digest of that tokenizer's file; empty when nothing says so."""
    largest_id: int | None = None
    """The largest id that was found; None when the tokens were not read."""
    ends_documents: bool | None = None
    """Whether documents end with the token for it; None when that was not looked at."""
    index_version: int = 1
    """The version of its format that the index names."""


@dataclass(frozen=True, slots=True)
class SplitFacts:
    """A split in MDS."""

    samples: int
    """Samples of all shards, as the index counts them."""
    length: int | None = None
    """Tokens of a sample; None when that was not read."""
    absent: str = ""
    """The first shard that the index names and that is not there."""
    other_size: str = ""
    """The first shard that is longer or shorter than the index says."""


@dataclass(frozen=True, slots=True)
class CorpusFacts:
    """Raw text."""

    files: tuple[str, ...]
    """Paths below the address, all or the first ones."""
    taken: int
    """How many of all files the source takes by its pattern, or by their names without one."""
    fields: tuple[str, ...] = ()
    """Fields of a document; empty when none was read."""
    other_fields: tuple[str, ...] = ()
    """Those of them that hold something else than text."""
    unreadable: str = ""
    """Why its documents cannot be read, as a sentence begins; empty when they can."""
    rough_tokens: int = 0
    """Tokens of the files that the source takes, guessed from their stored sizes; 0 if unknown."""


class DataProbe(Protocol):
    """Whoever can look at data: a reader of files, or a description in a test."""

    def tokenizer(self, address: str) -> TokenizerFacts | Unknown:
        """The tokenizer at an address."""
        ...

    def pair(self, prefix: str) -> PairFacts | Unknown:
        """The prepared pair of a prefix."""
        ...

    def split(self, directory: str) -> SplitFacts | Unknown:
        """The split in MDS in a directory."""
        ...

    def corpus(self, address: str, pattern: str | None) -> CorpusFacts | Unknown:
        """The raw text at an address, of which a source takes the files of a pattern."""
        ...

    def training_tokens(self, location: str, shares: tuple[float, float, float]) -> dict[str, int]:
        """Training tokens of each source of the data set at a location; empty if there is none."""
        ...

    def pairs_near(self, prefix: str) -> Sequence[str]:
        """Prefixes of prepared pairs that lie near another one, the likeliest first."""
        ...


@dataclass(frozen=True, slots=True)
class SavedFacts:
    step: int
    """The step after which it was saved."""
    setup: Setup | None
    """What its state belongs to; nothing where it has no record that can be read."""
    consumed_samples: int = 0
    """Sequences that were trained on up to then."""
    recorded: bool = True
    """Whether it has a record; a save that was cut short has none, nor has another's."""
    has_optimizer: bool = True
    """Whether it holds the optimizer's state; taken to be so where nobody looked."""

    @property
    def whole(self) -> bool:
        """Whether a run can be told to go on from it."""
        return self.recorded and self.setup is not None


@dataclass(frozen=True, slots=True)
class PlaceFacts:
    """The checkpoints of one place."""

    saved: tuple[SavedFacts, ...]
    """All of them, the newest first."""
    tracked: int | None = None
    """The step that the engine's tracker names; nothing without a tracker."""

    @property
    def newest(self) -> SavedFacts | None:
        """The newest whole one."""
        return next((one for one in self.saved if one.whole), None)


class CheckpointProbe(Protocol):
    """Who looks at places of checkpoints."""

    def at(self, address: str) -> PlaceFacts | Unknown:
        """What lies at a place."""
