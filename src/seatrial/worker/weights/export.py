# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Export a checkpoint as Hugging Face weights: `python -m seatrial.worker.weights.export`.

Arguments: the location of a run's checkpoints, the checkpoint's directory and the target directory.
Verifies the whole checkpoint before reading any tensor. Only one layer is in memory at a time.
"""

import hashlib
import io
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from transformers import AutoTokenizer

from seatrial.checkpoints.by_engine import contents_at, exchange_of, tokenizer_of
from seatrial.checkpoints.exchange.export_plan import (
    EXPORT_RECORD,
    ExportPlan,
    plan_export,
    refuse_occupied,
)
from seatrial.checkpoints.exchange.model import class_name
from seatrial.checkpoints.exchange.safetensors_file import (
    INDEX,
    LARGEST_FILE,
    Tensor,
    header,
    index_of,
)
from seatrial.checkpoints.pickle_rules import UnsafeFileError
from seatrial.checkpoints.record import Record
from seatrial.checkpoints.stored_tensors import Chunk, Contents, StoredTensor
from seatrial.checkpoints.verification import Verifier, read_record
from seatrial.codes.exchange import ExchangeCode, refusal
from seatrial.dataprep.output.tokenizer_copy import copied_path, copy_beside
from seatrial.errors import FindingsError
from seatrial.findings import has_errors
from seatrial.storage.location import Location, place_at
from seatrial.version import VERSION
from seatrial.worker.checkpointing.safe_load import load_archive
from seatrial.worker.weights.parts import cut
from seatrial.worker.weights.progress import Progress, answer


class TensorReader:
    """Reads slices of stacked tensors. Caches the last slice: its parts are read in turn."""

    def __init__(
        self, place: Location, directory: str, tensors: Mapping[str, StoredTensor]
    ) -> None:
        """Read from a verified checkpoint."""
        self._place = place
        self._directory = directory
        self._tensors = tensors
        self._last: tuple[tuple[str, tuple[int, ...]], torch.Tensor] | None = None

    def slab(self, name: str, at: tuple[int, ...]) -> torch.Tensor:
        """Return the part of a tensor at the given indices of its first axes."""
        if self._last is not None and self._last[0] == (name, at):
            return self._last[1]
        # Free the last slice before reading the next one.
        self._last = None
        found = self._assembled(self._tensors[name], at)
        self._last = ((name, at), found)
        return found

    def _assembled(self, tensor: StoredTensor, at: tuple[int, ...]) -> torch.Tensor:
        ahead, dtype = len(at), getattr(torch, tensor.dtype)
        shape = tensor.shape[ahead:]
        wanted = [chunk for chunk in tensor.chunks if _holds(chunk, at)]
        if len(wanted) == 1 and wanted[0].sizes[ahead:] == shape:
            return self._chunk(wanted[0], at, dtype)
        whole = torch.empty(shape, dtype=dtype)
        filled = 0
        for chunk in wanted:
            begins, sizes = chunk.offsets[ahead:], chunk.sizes[ahead:]
            window = tuple(slice(b, b + s) for b, s in zip(begins, sizes, strict=True))
            whole[window] = self._chunk(chunk, at, dtype)
            filled += whole[window].numel()
        if filled != whole.numel():
            raise ValueError(
                f"{tensor.name}: only {filled:,} of {whole.numel():,} elements are present"
            )
        return whole

    def _chunk(self, chunk: Chunk, at: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        """Load one chunk as weights only."""
        with self._place.open(f"{self._directory}/{chunk.item.file}") as stream:
            stream.seek(chunk.item.offset)
            data = stream.read(chunk.item.length)
        if chunk.plain:
            # Copy, because torch needs writable memory.
            loaded = torch.frombuffer(bytearray(data), dtype=dtype)
        else:
            loaded = load_archive(io.BytesIO(data)).detach()
        loaded = loaded.reshape(chunk.sizes)
        inside = tuple(i - begin for i, begin in zip(at, chunk.offsets, strict=False))
        return loaded[inside]


def _holds(chunk: Chunk, at: tuple[int, ...]) -> bool:
    """True if a chunk overlaps the wanted layer and expert."""
    axes = zip(at, chunk.offsets, chunk.sizes, strict=False)
    return all(begin <= i < begin + size for i, begin, size in axes)


class WeightsFile:
    """One file: its header first, then its tensors in the order of the header."""

    def __init__(self, path: Path, tensors: list[Tensor]) -> None:
        """Create a file that does not exist yet."""
        self._hasher = hashlib.sha256()
        self._waiting = list(reversed(tensors))
        self._written = 0
        self._stream = path.open("xb")
        self._put(header(tensors))

    def write(self, piece: torch.Tensor, shape: tuple[int, ...]) -> int:
        """Write the next tensor, or the next piece of it. Return the size in bytes.

        Args:
            piece: The values.
            shape: The shape that the piece must have.
        """
        listed = self._waiting[-1]
        if tuple(piece.shape) != shape or str(piece.dtype) != f"torch.{listed.dtype}":
            raise ValueError(f"{listed.name}: {tuple(piece.shape)} {piece.dtype}, not {listed}")
        # Write raw bytes: numpy has no bfloat16. Reshape: a scalar has no last axis.
        flat = piece.contiguous().reshape(-1).view(torch.uint8).numpy()
        self._put(memoryview(flat))
        self._written += flat.size
        if self._written == listed.size:
            self._waiting.pop()
            self._written = 0
        return int(flat.size)

    def _put(self, data: bytes | memoryview) -> None:
        self._hasher.update(data)
        self._stream.write(data)

    @property
    def sha256(self) -> str:
        """The digest of the written data."""
        return self._hasher.hexdigest()

    def __enter__(self) -> "WeightsFile":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Sync the file to disk. Raise an error if the file is incomplete."""
        if kind is None:
            self._stream.flush()
            os.fsync(self._stream.fileno())
        self._stream.close()
        if kind is None and self._waiting:
            raise ValueError(f"{len(self._waiting)} tensors were not written")


KIND = "HuggingFaceTokenizer"
"""The tokenizer type that transformers loads."""


def save_tokenizer(tokenizer: str, blend: Sequence[str], target: Path) -> dict[str, Any]:
    """Save a run's tokenizer to a directory. Return its special tokens; empty if not available.

    Args:
        tokenizer: The engine's tokenizer type, followed by a name on the Hub or a path.
        blend: The paths of the run's data, which may have a copy of the tokenizer.
        target: The directory.
    """
    kind, _, name = tokenizer.partition(" ")
    if kind != KIND or not name:
        return {}
    copy = copy_beside(blend)
    path = copied_path(copy.directory, name) if copy else name
    try:
        loaded = AutoTokenizer.from_pretrained(path, local_files_only=True)
        loaded.save_pretrained(target)
    except Exception:
        # Not on this host, or a type that cannot be saved: record only the reference.
        return {}
    return {"bos_token_id": loaded.bos_token_id, "eos_token_id": loaded.eos_token_id}


LARGEST = "SEATRIAL_LARGEST_WEIGHTS_FILE"
"""Maximum size of a weights file in bytes; only tests set it."""


def main() -> None:
    """Export, and print the result."""
    source, directory, target = sys.argv[1:4]
    answer(lambda report: export(place_at(source), directory, Path(target), report))


def export(place: Location, directory: str, target: Path, report: Progress) -> dict[str, Any]:
    """Verify a checkpoint and write its weights. Return the export record."""
    where = f"{place.address}/{directory}"
    record = _record(place, directory)
    _refuse_without_class(place, directory, record)
    _verify(place, directory, record, report)
    refuse_occupied(target)
    contents, plan = _planned(place, directory, record)
    target.mkdir(parents=True, exist_ok=True)
    reader = TensorReader(place, directory, contents.tensors)
    files = _write_weights(plan, reader, target, report)
    tokenizer = tokenizer_of(record.setup)
    tokens = save_tokenizer(tokenizer, record.setup.data_order.blend, target)
    _write_json(target / "config.json", plan.config(plan.dtype, tokens))
    if len(plan.files) > 1:
        _write_json(target / INDEX, index_of(plan.files))
    exported = {
        "format": 1,
        "class": class_name(plan.model.model_type),
        "dtype": plan.dtype,
        "checkpoint": where,
        "step": record.step,
        "record": record.identity,
        "tokenizer": tokenizer,
        "tokenizer_saved": bool(tokens),
        "vocabulary": plan.model.architecture.vocab_size,
        "padding_left_out": plan.padding,
        "tensors": len(plan.sources),
        "bytes": plan.size,
        "seatrial": VERSION,
        "files": files | _digests(target, files),
    }
    _write_json(target / EXPORT_RECORD, exported)
    return exported


def _record(place: Location, directory: str) -> Record:
    record, findings = read_record(place, directory)
    if record is None:
        raise FindingsError(findings)
    return record


def _refuse_without_class(place: Location, directory: str, record: Record) -> None:
    """Reject a model that no class supports before the verification, which can take long.

    Verification reports a checkpoint that cannot be read.
    """
    try:
        arguments = contents_at(place, directory, record.setup).arguments
    except (UnsafeFileError, OSError):
        return
    exchange_of(record.setup).model(arguments, f"{place.address}/{directory}")


def _planned(place: Location, directory: str, record: Record) -> tuple[Contents, ExportPlan]:
    """Return what a checkpoint contains, and the plan of its export."""
    where = f"{place.address}/{directory}"
    try:
        contents = contents_at(place, directory, record.setup)
    except UnsafeFileError as error:
        fix = "Export a checkpoint that was saved by this version of the Seatrial worker."
        raise refusal(ExchangeCode.UNREADABLE, where, f"{error}.", fix) from error
    largest = int(os.environ.get(LARGEST) or LARGEST_FILE)
    return contents, plan_export(contents, exchange_of(record.setup), where, largest)


def _verify(place: Location, directory: str, record: Record, report: Progress) -> None:
    """Verify a checkpoint completely."""
    total = record.shards.size
    verifier = Verifier(place, directory, record)
    findings = verifier.verify(tell=lambda _, done: report("verifying", done, total))
    if has_errors(findings):
        raise FindingsError(findings)


def _write_weights(
    plan: ExportPlan, reader: TensorReader, target: Path, report: Progress
) -> dict[str, str]:
    """Write all weights files. Return the digest of each."""
    digests, done = {}, 0
    for name, tensors in plan.files.items():
        with WeightsFile(target / name, tensors) as file:
            for tensor in tensors:
                source = plan.sources[tensor.name]
                for place in source.places:
                    slab = reader.slab(plan.engine_names[tensor.name], place)
                    piece = cut(slab, source.entry, plan.model.architecture)
                    done += file.write(piece, source.piece)
                    report("writing", done, plan.size)
        digests[name] = file.sha256
    return digests


def _digests(target: Path, known: dict[str, str]) -> dict[str, str]:
    """Return the digests of the small files."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(target.iterdir())
        if path.is_file() and path.name not in known
    }


def _write_json(path: Path, value: dict[str, Any]) -> None:
    with path.open("x", encoding="utf-8") as stream:
        json.dump(value, stream, indent=2, ensure_ascii=False)
        stream.write("\n")
        stream.flush()
        os.fsync(stream.fileno())


if __name__ == "__main__":
    main()
