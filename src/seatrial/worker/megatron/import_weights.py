# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Import Hugging Face weights: `python -m seatrial.worker.megatron.import_weights`.

Arguments: the directory with the weights, and the target directory for the checkpoint. The step-0
checkpoint contains weights but no optimizer state. It is committed like any other checkpoint: a
start verifies it before loading.
"""

import sys
from argparse import Namespace
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

import torch

from seatrial.checkpoints.commit import commit, write_tracker
from seatrial.checkpoints.exchange.export_plan import refuse_occupied
from seatrial.checkpoints.exchange.import_plan import ImportPlan, plan_import, spec_of_model
from seatrial.checkpoints.exchange.model import class_name
from seatrial.checkpoints.exchange.safetensors_file import Placed
from seatrial.checkpoints.exchange.shapes import HubTensor
from seatrial.checkpoints.record import Record, ShardList
from seatrial.checkpoints.setup import Versions
from seatrial.engines.megatron.checkpoint_names import NAMING, TRACKER
from seatrial.engines.megatron.checkpoints import COMMON, setup_from_arguments
from seatrial.engines.megatron.hub_model import arguments_of_model, options_of_model
from seatrial.engines.megatron.weight_map import entries, modules_with_state
from seatrial.storage.location import LocalPlace
from seatrial.version import VERSION
from seatrial.worker.megatron.shard_writing import ShardWriter
from seatrial.worker.weights.parts import joined
from seatrial.worker.weights.progress import Progress, answer

STEP = 0
_HALF = {"bfloat16": "bf16", "float16": "fp16"}


def main() -> None:
    """Import, and print the result."""
    source, target = sys.argv[1:3]
    answer(lambda report: import_weights(Path(source), Path(target), report))


def import_weights(source: Path, target: Path, report: Progress) -> dict[str, Any]:
    """Write weights as a committed checkpoint. Return a summary."""
    plan = plan_import(source, entries)
    refuse_occupied(target)
    return write_weights(plan, target, report)


def write_weights(plan: ImportPlan, target: Path, report: Progress) -> dict[str, Any]:
    """Write the planned checkpoint to a directory that does not contain this step yet."""
    directory = target / NAMING.directory_name(STEP)
    directory.mkdir(parents=True)
    writer = ShardWriter(directory)
    _write_tensors(plan, writer, report)
    arguments = arguments_of_model(plan.model) | _precision(plan.dtype)
    _write_objects(plan, writer, arguments)
    place = LocalPlace(target)
    versions = Versions(VERSION, f"megatron-core {version('megatron-core')}", torch.__version__)
    setup = setup_from_arguments(arguments | _tokenizer(plan.tokenizer), versions, 1)
    empty = ShardList(0, 0, "")
    done = commit(place, writer.finish(), Record(STEP, 0, "", 1, empty, setup))
    write_tracker(place, TRACKER, str(STEP))
    return {
        "class": class_name(plan.model.model_type),
        "dtype": plan.dtype,
        "tensors": len(plan.sources),
        "bytes": done.record.shards.size,
        "record": done.record.identity,
        "checkpoint": str(target),
        "spec": spec_of_model(plan.model.architecture, str(target), options_of_model(plan.model)),
    }


def _precision(dtype: str) -> dict[str, bool]:
    return {_HALF[dtype]: True} if dtype in _HALF else {}


def _tokenizer(named: str) -> dict[str, str]:
    kind, _, model = named.partition(" ")
    return {"tokenizer_type": kind, "tokenizer_model": model}


def _write_tensors(plan: ImportPlan, writer: ShardWriter, report: Progress) -> None:
    """Write all of the engine's tensors, one layer or expert at a time."""
    groups: dict[tuple[str, tuple[int, ...]], list[tuple[HubTensor, int]]] = {}
    for one in plan.sources.values():
        for index, place in enumerate(one.places):
            groups.setdefault((one.engine, place), []).append((one, index))
    done = 0
    types: dict[str, torch.dtype] = {}
    for (engine, place), parts in groups.items():
        read = {one.entry: _read(plan.places[one.name], one, index) for one, index in parts}
        slab = joined(read, plan.model.architecture)
        first = parts[0][0]
        # An engine's tensor has one dtype, even if the layers in the source have several.
        dtype = torch.float32 if engine.endswith(EXPERT_BIAS) else slab.dtype
        slab = slab.to(types.setdefault(first.entry.engine, dtype))
        for name in filter(None, (first.engine, first.also)):
            writer.tensor(name, first.entry.engine_shape, place, slab)
        done += slab.nbytes
        report("writing", min(done, plan.size), plan.size)


EXPERT_BIAS = ".expert_bias"
"""The engine keeps the bias on expert scores in fp32."""


def _read(placed: Placed, tensor: HubTensor, index: int) -> torch.Tensor:
    """Read one tensor, or the piece of it with this index, without the rest of its file."""
    size = placed.tensor.size // len(tensor.places)
    data = bytearray(size)
    with placed.file.open("rb") as stream:
        stream.seek(placed.offset + index * size)
        stream.readinto(data)
    dtype = getattr(torch, placed.tensor.dtype)
    return torch.frombuffer(data, dtype=dtype).reshape(tensor.piece)


def _write_objects(plan: ImportPlan, writer: ShardWriter, arguments: dict[str, Any]) -> None:
    """Write the other objects that the engine requests: empty module states and its arguments."""
    for module, entry in modules_with_state(entries(plan.model)).items():
        for layer in entry.layers if "{layer}" in module else (0,):
            # A module without layers or experts is the only one of its kind.
            sizes = entry.stacked or (1,)
            for at in product(*map(range, sizes)):
                place, of = ".".join(map(str, at)), ".".join(map(str, sizes))
                name = module.format(layer=layer)
                writer.object(f"{name}._extra_state/shard_{place}_{of}", None)
    saved = Namespace(**arguments, tensor_model_parallel_size=1, pipeline_model_parallel_size=1)
    common = {"args": saved, "checkpoint_version": 3.0, "iteration": STEP}
    writer.object(COMMON, common)


if __name__ == "__main__":
    main()
