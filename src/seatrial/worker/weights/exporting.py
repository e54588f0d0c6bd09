# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A checkpoint as Hugging Face weights: `python -m seatrial.worker.weights.exporting`.

Takes the address of a run's checkpoints, the checkpoint's directory and where the export goes.
Everything is verified before anything is read. One layer is in memory at a time.
"""

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

from seatrial.checkpoints.exchange.codes import ExchangeCode, refusal
from seatrial.checkpoints.exchange.export_plan import (
    EXPORT_RECORD,
    ExportPlan,
    plan_export,
    refuse_occupied,
)
from seatrial.checkpoints.exchange.hub_side import config_of_model
from seatrial.checkpoints.exchange.safetensors_file import INDEX, LARGEST_FILE, index_of
from seatrial.checkpoints.exchange.sides import contents_at, side_of
from seatrial.checkpoints.pickles import PickleError
from seatrial.checkpoints.place import Place, place_at
from seatrial.checkpoints.record import Record
from seatrial.checkpoints.verification import Verifier, read_record
from seatrial.errors import FindingsError
from seatrial.findings import has_errors
from seatrial.version import VERSION
from seatrial.worker.weights.parts import cut
from seatrial.worker.weights.reading import TensorReader
from seatrial.worker.weights.safetensors_writing import WeightsFile
from seatrial.worker.weights.telling import Tell, answer
from seatrial.worker.weights.tokenizer_files import save_tokenizer, tokenizer_of

LARGEST = "SEATRIAL_LARGEST_WEIGHTS_FILE"
"""Bytes of a file of weights; only tests set it."""


def main() -> None:
    """Export, and print what was written."""
    source, directory, target = sys.argv[1:4]
    answer(lambda tell: export(place_at(source), directory, Path(target), tell))


def export(place: Place, directory: str, target: Path, tell: Tell) -> dict[str, Any]:
    """Verify a checkpoint, write its weights, and say what is there now."""
    where = f"{place.address}/{directory}"
    record = _verified(place, directory, tell)
    refuse_occupied(target)
    try:
        contents = contents_at(place, directory, record.setup)
    except PickleError as error:
        fix = "Export a checkpoint that the worker of this version has saved."
        raise refusal(ExchangeCode.UNREADABLE, where, f"{error}.", fix) from error
    largest = int(os.environ.get(LARGEST) or LARGEST_FILE)
    plan = plan_export(contents, side_of(record.setup), where, largest)
    target.mkdir(parents=True, exist_ok=True)
    reader = TensorReader(place, directory, contents.tensors)
    files = _write_weights(plan, reader, target, tell)
    tokenizer = tokenizer_of(record.setup)
    tokens = save_tokenizer(tokenizer, target)
    config = config_of_model(plan.model, plan.dtype, tokens)
    _write_json(target / "config.json", config)
    if len(plan.files) > 1:
        _write_json(target / INDEX, index_of(plan.files))
    told = {
        "format": 1,
        "class": str(plan.model.kind),
        "dtype": plan.dtype,
        "checkpoint": where,
        "step": record.step,
        "record": record.identity,
        "tokenizer": tokenizer,
        "tokenizer_saved": bool(tokens),
        "vocabulary": plan.model.vocab_size,
        "padding_left_out": plan.padding,
        "tensors": len(plan.sources),
        "bytes": plan.size,
        "seatrial": VERSION,
        "files": files | _digests(target, files),
    }
    _write_json(target / EXPORT_RECORD, told)
    return told


def _verified(place: Place, directory: str, tell: Tell) -> Record:
    """The record of a checkpoint that was read whole and found good."""
    record, findings = read_record(place, directory)
    if record is None:
        raise FindingsError(findings)
    side_of(record.setup).refuse_shape(record.setup.model, f"{place.address}/{directory}")
    total = record.shards.size
    verifier = Verifier(place, directory, record)
    findings = verifier.verify(tell=lambda _, done: tell("verifying", done, total))
    if has_errors(findings):
        raise FindingsError(findings)
    return record


def _write_weights(
    plan: ExportPlan, reader: TensorReader, target: Path, tell: Tell
) -> dict[str, str]:
    """Write every file of weights; the digest of each."""
    digests, done = {}, 0
    for name, tensors in plan.files.items():
        with WeightsFile(target / name, tensors) as file:
            for tensor in tensors:
                source = plan.sources[tensor.name]
                slab = reader.slab(plan.engine_names[tensor.name], source.at)
                done += file.write(cut(slab, source.entry, plan.model))
                tell("writing", done, plan.size)
        digests[name] = file.sha256
    return digests


def _digests(target: Path, known: dict[str, str]) -> dict[str, str]:
    """The digests of the small files."""
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
