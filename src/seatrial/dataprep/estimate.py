# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Estimate the cost of preparing a corpus by preparing a small part of it.

It reads the start of some files of each source, evenly spaced, and tokenizes and hashes them as the
kernel does. The result per stored byte is extrapolated to the source; the variation between files
gives the error bars.
"""

import hashlib
import io
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

import numpy as np

from seatrial.dataprep.documents.reading import inputs_of, read_documents, sample_texts, spread
from seatrial.dataprep.inputs.access import open_input
from seatrial.dataprep.inputs.sources import named_sources
from seatrial.dataprep.output.index_file import token_type
from seatrial.dataprep.prepare import list_tasks
from seatrial.dataprep.tasks.task_list import (
    LARGEST,
    InputFile,
    SourceSettings,
    TaskList,
    compression_of,
    thaw,
)
from seatrial.dataprep.tokenizers.encoder import Encoder, open_encoder
from seatrial.dataprep.tokenizers.selection import choose_backend
from seatrial.errors import UsageError
from seatrial.planning.plan import Plan

FILES = 8
"""Files to sample per source."""
TEXT_BYTES = 24 << 20
"""Bytes of text to sample per file."""
SECONDS = 10.0
"""After this time, no further file of a source is sampled."""
_READ_AHEAD = 3 << 19
"""Bytes that a decompressor has read beyond its output, on average."""
_NORMAL_95 = 1.96


@dataclass(frozen=True, slots=True)
class Range:
    """An estimate with its confidence interval."""

    low: float
    """Lower bound."""
    middle: float
    """Best estimate."""
    high: float
    """Upper bound."""

    def times(self, factor: float) -> "Range":
        """Multiply the estimate and both bounds by a factor."""
        return Range(self.low * factor, self.middle * factor, self.high * factor)


@dataclass(frozen=True, slots=True)
class SourceEstimate:
    """The estimate for one source."""

    name: str
    files: int
    input_bytes: int
    """Stored bytes of its files."""
    sampled_files: int
    """Files that were sampled."""
    sampled_bytes: int
    """Stored bytes that were read from them."""
    tokens: Range
    documents: Range
    core_seconds: Range
    """CPU time."""
    bad_share: float
    """Share of the sampled lines that are bad."""
    largest_file: int = 0
    """Stored bytes of its largest file. A file is not split, so one core processes it."""
    largest_seconds: float = 0.0
    """CPU time of that file."""
    epochs: Range | None = None
    """How often the run reads its training split; None if that depends on prepared sources."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimate for a whole preparation."""

    sources: tuple[SourceEstimate, ...]
    """The sources, in order."""
    backend: str
    """The tokenizer backend that `data prepare` would use."""
    cores: int
    """Cores that the wall-clock time assumes."""
    tokens: Range
    """Tokens of all sources."""
    documents: Range
    """Documents of all sources."""
    disk_bytes: Range
    """Size of the data set."""
    peak_bytes: Range
    """Disk space needed during the preparation, when parts and files exist together."""
    core_seconds: Range
    """CPU time."""
    wall_seconds: Range
    """Wall-clock time with that many cores, if reading and writing keep up."""
    wanted_tokens: int = 0
    """Tokens that the run trains on."""
    training_share: float = 1.0
    """Share of the tokens in the training split."""
    task_bytes: int = LARGEST
    """Most stored bytes per task, unless a single file is larger."""


@dataclass(frozen=True, slots=True)
class _Sample:
    """The result of preparing a file or the start of it."""

    stored: int
    tokens: int
    documents: int
    bad: int
    seconds: float


def estimate(plan: Plan, cores: int) -> Estimate:
    """Estimate the cost of preparing the data of a plan."""
    frozen, tokenizer = list_tasks(plan)
    tasks = thaw(frozen)
    with TemporaryDirectory(prefix="seatrial-") as directory:
        file = Path(directory) / "tokenizer"
        file.write_bytes(tokenizer)
        identity = tasks.settings.tokenizer
        policy = tasks.settings.end_token_in_text
        choice = choose_backend(identity, file, sample_texts(tasks, 1 << 18), policy)
        encoder = open_encoder(identity, file, choice.backend, policy)
        sources = [_source(tasks, source, encoder) for source in tasks.settings.sources]
    tokens = _sum([source.tokens for source in sources])
    documents = _sum([source.documents for source in sources])
    seconds = _sum([source.core_seconds for source in sources])
    width = identity.token_bytes
    # Length, pointer and position of each document: 4 + 8 + 8 bytes.
    disk = _sum([tokens.times(width), documents.times(20)])
    peak = _sum([disk, tokens.times(width), documents.times(4)])
    return Estimate(
        with_epochs(sources, plan),
        encoder.backend,
        cores,
        tokens,
        documents,
        disk,
        peak,
        seconds,
        seconds.times(1 / cores),
        wanted_tokens(plan),
        training_share(plan),
    )


def wanted_tokens(plan: Plan) -> int:
    """Return the tokens that a run trains on."""
    return plan.length.samples * plan.model.sequence_length


def training_share(plan: Plan) -> float:
    """Return the share of the tokens in the training split."""
    return plan.spec.data.split[0] / sum(plan.spec.data.split)


def with_epochs(sources: Sequence[SourceEstimate], plan: Plan) -> tuple[SourceEstimate, ...]:
    """Add how often the run reads the training split of each source.

    Without weights the engine blends by size, so all sources are read equally often. The size of
    prepared sources is unknown here; the number of epochs is then unknown too.
    """
    wanted, share = wanted_tokens(plan), training_share(plan)
    named = named_sources(plan)
    weights = {name: source.weight for name, source in named if source.weight is not None}
    if weights:
        total = sum(weights.values())
        return tuple(
            replace(each, epochs=_epochs(wanted * weights[each.name] / total, each.tokens, share))
            for each in sources
        )
    if len(named) > len(sources):
        return tuple(sources)
    epochs = _epochs(wanted, _sum([each.tokens for each in sources]), share)
    return tuple(replace(each, epochs=epochs) for each in sources)


def _epochs(wanted: float, tokens: Range, share: float) -> Range:
    low, middle, high = (
        wanted / max(1.0, share * each) for each in (tokens.high, tokens.middle, tokens.low)
    )
    return Range(low, middle, high)


def _sum(ranges: Sequence[Range]) -> Range:
    """Add estimates with independent errors."""
    middle = sum(each.middle for each in ranges)
    below = math.sqrt(sum((each.middle - each.low) ** 2 for each in ranges))
    above = math.sqrt(sum((each.high - each.middle) ** 2 for each in ranges))
    return Range(middle - below, middle, middle + above)


def _source(tasks: TaskList, source: SourceSettings, encoder: Encoder) -> SourceEstimate:
    """Sample a source and extrapolate to all of it."""
    files = inputs_of(tasks, source.name)
    total = sum(file.size for file in files)
    samples: list[_Sample] = []
    began = time.monotonic()
    for file in spread(files, FILES):
        if samples and time.monotonic() - began > SECONDS:
            break
        samples.append(_sample(file, source, encoder))
    stored = sum(sample.stored for sample in samples)
    if not stored:
        raise UsageError(
            f"all files in source {source.name} are empty. Check data.sources.from and files."
        )
    whole = stored >= total
    largest = max(file.size for file in files)
    lines = sum(sample.documents + sample.bad for sample in samples)
    return SourceEstimate(
        source.name,
        len(files),
        total,
        len(samples),
        stored,
        _scaled(samples, [sample.tokens for sample in samples], total, whole=whole),
        _scaled(samples, [sample.documents for sample in samples], total, whole=whole),
        _scaled(samples, [sample.seconds for sample in samples], total, whole=False),
        sum(sample.bad for sample in samples) / max(1, lines),
        largest,
        sum(sample.seconds for sample in samples) / stored * largest,
    )


def _scaled(
    samples: Sequence[_Sample], values: Sequence[float], total: int, *, whole: bool
) -> Range:
    """Extrapolate a value of the samples to all bytes, with a 95 % confidence interval."""
    stored = sum(sample.stored for sample in samples)
    ratio = sum(values) / stored
    if whole:
        return Range(ratio * total, ratio * total, ratio * total)
    count = len(samples)
    if count == 1:
        # One file does not show how much files vary.
        return Range(0.5 * ratio * total, ratio * total, 2 * ratio * total)
    # The standard ratio estimator for a random sample of files.
    residuals = [v - ratio * s.stored for v, s in zip(values, samples, strict=True)]
    variance = sum(residual**2 for residual in residuals) / (count - 1) / count
    error = _NORMAL_95 * math.sqrt(variance) / (stored / count) * total
    middle = ratio * total
    return Range(max(0.0, middle - error), middle, middle + error)


class _Counting(io.RawIOBase):
    """A stream that counts the bytes read from it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self.count = stream, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._stream.seekable()

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        return self._stream.tell()

    def read(self, size: int = -1, /) -> bytes:
        data = self._stream.read(size)
        self.count += len(data)
        return data

    def close(self) -> None:
        self._stream.close()
        super().close()


def _sample(file: InputFile, source: SourceSettings, encoder: Encoder) -> _Sample:
    """Prepare the start of a file and discard the result."""
    streams: list[_Counting] = []

    def opened(wanted: InputFile) -> BinaryIO:
        streams.append(_Counting(open_input(wanted)))
        return streams[-1]  # type: ignore[return-value]

    tokens = documents = bad = text = 0
    kind = token_type(encoder.tokenizer.token_bytes)
    hasher = hashlib.sha256(usedforsecurity=False)
    began = time.process_time()
    batches = read_documents(file, source, opened)
    ended = True
    for batch in batches:
        ids, _ = encoder.encode(batch.texts)
        hasher.update(np.ascontiguousarray(ids, kind).data)
        documents += len(batch.texts)
        bad += len(batch.bad)
        tokens += len(ids) + sum(1 for each in batch.texts if each)
        text += sum(map(len, batch.texts))
        if text >= TEXT_BYTES:
            ended = next(batches, None) is None
            break
    seconds = time.process_time() - began
    stored = file.size
    if not ended:
        read_ahead = _READ_AHEAD if compression_of(file.address) else 0
        stored = min(file.size, max(1, streams[0].count - read_ahead))
    return _Sample(stored, tokens, documents, bad, seconds)
