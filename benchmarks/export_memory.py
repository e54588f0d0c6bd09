# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Measure the memory of importing and exporting weights, against their size.

    python -m benchmarks.export_memory [--layers 4 16 32]

Makes Hugging Face weights of a small Llama with so many layers, all else equal, imports them as a
checkpoint and exports that again, each in a process of its own; prints the peak of its resident
memory. Needs the worker's environment, and about three times the weights on the disk.
"""

import argparse
import json
import shutil
import tempfile
from pathlib import Path

from benchmarks.measured import measure
from seatrial.checkpoints.exchange.safetensors_file import SINGLE, Tensor, header
from seatrial.checkpoints.exchange.shapes import hub_tensors
from seatrial.checkpoints.exchange.weight_map import config_of_model
from seatrial.engine_process.package_path import python_path
from seatrial.engine_process.process import worker_python
from seatrial.engines.megatron.checkpoint_names import NAMING
from seatrial.engines.megatron.weight_map import entries
from seatrial.engines.registry import ENGINES
from seatrial.huggingface.config import HubModel
from seatrial.spec.model import Architecture, Family

MODEL = Architecture(
    family=Family.LLAMA,
    layers=4,
    hidden_size=2048,
    ffn_hidden_size=5632,
    heads=16,
    kv_heads=4,
    vocab_size=32000,
    max_positions=2048,
)  # type: ignore[call-arg]  # The other dimensions follow from these.
MIB = 1 << 20


def make(directory: Path, architecture: Architecture) -> int:
    """Weights in bf16, the same block of bytes again and again; their size."""
    model = HubModel("llama", architecture, init_std=0.02)
    every = hub_tensors(architecture, entries(model))
    tensors = [Tensor(one.name, "bfloat16", one.shape) for one in every]
    left = size = sum(tensor.size for tensor in tensors)
    block = bytes(range(128)) * (MIB // 128)
    directory.mkdir()
    with (directory / SINGLE).open("wb") as stream:
        stream.write(header(tensors))
        while left:
            left -= stream.write(block[:left])
    (directory / "config.json").write_text(json.dumps(config_of_model(model, {}, "bfloat16", {})))
    return size


def peak(module: str, *arguments: str) -> float:
    """The peak of a worker program's resident memory, in MiB."""
    settings = {"PYTHONPATH": python_path(), "PYTHONWARNINGS": "ignore"}
    return (
        measure([worker_python(ENGINES["megatron"]), "-m", module, *arguments], settings).memory
        / MIB
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--layers", type=int, nargs="+", default=[4, 16, 32])
    given = parser.parse_args()
    largest = (
        max(
            2 * tensor.elements
            for tensor in hub_tensors(MODEL, entries(HubModel("llama", MODEL, 0.02)))
        )
        / MIB
    )
    print(f"largest tensor {largest:.0f} MiB; peaks of resident memory in MiB")
    print("layers  weights  import  export")
    for layers in given.layers:
        with tempfile.TemporaryDirectory() as scratch:
            root = Path(scratch)
            size = make(root / "hub", MODEL.replace(layers=layers))
            bringing = peak(
                ENGINES["megatron"].modules.import_weights, f"{root}/hub", f"{root}/saved"
            )
            shutil.rmtree(root / "hub")
            exported = (f"{root}/saved", NAMING.directory_name(0), f"{root}/out")
            taking = peak("seatrial.worker.weights.export", *exported)
        print(f"{layers:6}  {size / MIB:7.0f}  {bringing:6.0f}  {taking:6.0f}")


if __name__ == "__main__":
    main()
