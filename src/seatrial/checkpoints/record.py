# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The record of a checkpoint: what was saved, by whom, and what it belongs to.

It is small whatever the size of the run: the files, with a SHA-256 each, stand in a list of their
own, and the record holds the digest of that list. A directory without a record does not exist.
"""

import json
from dataclasses import asdict, dataclass
from typing import Any

from seatrial.checkpoints.setup import Setup, setup_from_dict
from seatrial.hashing import canonical_json, digest

FORMAT = 1
"""The version of the record that this Seatrial writes."""
LARGEST_RECORD = 1 << 20
"""Bytes; a longer file is no record."""


class RecordError(ValueError):
    """A record that is not what a commit wrote; the text says why."""


@dataclass(frozen=True, slots=True)
class ShardList:
    """The list of a checkpoint's files."""

    files: int
    """How many there are."""
    size: int
    """Bytes of all of them together."""
    digest: str
    """Digest of the list, with the name of the algorithm before a colon."""


@dataclass(frozen=True, slots=True)
class Record:
    """What makes a checkpoint count."""

    step: int
    """The step after which it was saved."""
    consumed_samples: int
    """Sequences that were trained on up to then."""
    saved_at: str
    """When it was committed, in UTC."""
    incarnation: int
    """The start of the processes that saved it."""
    shards: ShardList
    """Its files."""
    setup: Setup
    """What the state belongs to: layout, model, data order, tokenizer, versions."""
    validation_loss: float | None = None
    """The last validation loss before the save; none where nothing was evaluated."""
    format: int = FORMAT
    """The version of the record."""

    def to_bytes(self) -> bytes:
        """The record as it is stored: canonical JSON that holds its own digest."""
        values = _values(self)
        return canonical_json({**values, "digest": digest(values)}).encode()

    @property
    def identity(self) -> str:
        """The digest of the whole record, by which nodes compare what they see."""
        return digest(_values(self))


def _values(record: "Record") -> dict[str, Any]:
    """The record as plain data; what older ones did not have is left out of theirs."""
    values = asdict(record)
    for name in ("schedule", "constants"):
        if values["setup"][name] is None:
            del values["setup"][name]
    return values


def record_from_bytes(data: bytes) -> Record:
    """The record as it was stored; RecordError where a single bit of it is another."""
    try:
        values: dict[str, Any] = json.loads(data)
        stated = values.pop("digest")
        if values.get("format") != FORMAT:
            raise RecordError(f"its format is {values.get('format')!r}, and {FORMAT} is known")
        if stated != digest(values):
            raise RecordError("it does not match its own digest")
        shards = ShardList(**values.pop("shards"))
        setup = setup_from_dict(values.pop("setup"))
        record = Record(shards=shards, setup=setup, **values)
    except RecordError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RecordError(f"it cannot be read ({type(error).__name__})") from error
    # JSON has many spellings of the same data, and a changed space is damage too.
    if record.to_bytes() != data:
        raise RecordError("it is not written as a commit writes it")
    return record
