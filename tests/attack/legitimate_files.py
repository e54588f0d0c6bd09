# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints as torch writes them, and whether Seatrial loads from them what torch loads.

    python -m tests.attack.legitimate_files DIRECTORY   (with the Python of an engine)

Fills DIRECTORY, loads each file by torch's own loaders and by Seatrial's, and prints one JSON line
for each: its name, and whether the values are the same.
"""

import argparse
import collections
import datetime
import io
import itertools
import json
import pathlib
import random
import signal
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy
import torch
import torch.distributed.checkpoint as dcp

DTYPES = (
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
    *(torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fn, torch.float8_e5m2),
)
SHAPES: tuple[tuple[int, ...], ...] = ((), (0,), (1,), (7,), (3, 5), (2, 3, 4), (1, 1, 1, 1, 2))
LARGE = (1 << 32) + (1 << 20)
"""Bytes: more than zip's own fields hold."""


def _tensor(dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
    return (torch.rand(shape) * 100).to(dtype)


def _tensors() -> Iterator[tuple[str, Any]]:
    for dtype, shape in itertools.product(DTYPES, SHAPES):
        yield f"{dtype} {shape}", {"weight": _tensor(dtype, shape)}
    base = torch.arange(24.0).reshape(4, 6)
    yield "views", {"all": base, "row": base[1], "column": base[:, 2], "turned": base.T}
    yield "expanded", base[:1].expand(4, 6)
    yield "conjugate", torch.randn(3, dtype=torch.complex64).conj()
    yield "negative", torch.randn(3, dtype=torch.complex64).conj().imag
    yield "gradient", torch.ones(3, requires_grad=True)
    yield "storage", torch.UntypedStorage(16)
    yield "many", {f"layers.{number}.weight": torch.ones(2) for number in range(300)}


def _optimizers() -> Iterator[tuple[str, Any]]:
    kinds: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
        "Adam": lambda parameters: torch.optim.Adam(parameters, amsgrad=True),
        "AdamW": torch.optim.AdamW,
        "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
        "Adagrad": torch.optim.Adagrad,
        "RMSprop": torch.optim.RMSprop,
    }
    for name, make in kinds.items():
        model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
        optimizer = make(model.parameters())
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)
        model(torch.rand(5, 4)).sum().backward()
        optimizer.step()
        scheduler.step()
        yield f"model with {name}", model.state_dict()
        yield (
            f"state of {name}",
            {
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "schedule": scheduler.state_dict(),
                "parameter": torch.nn.Parameter(torch.rand(3)),
            },
        )


def _numpy_state() -> Any:
    return numpy.random.RandomState(3).get_state()


def _values() -> Iterator[tuple[str, Any]]:
    """Values other than tensors, each of a kind that one of the engines stores."""
    plain: dict[str, Any] = {
        "numbers": [0, 1, -1, 255, 65536, 2**31, -(2**31), 2**63, 2**100, 1.5, float("inf")],
        "texts": ["", "a", "Grüße", "x" * 300, "\n\t\0", "🚢"],
        "bytes": [b"", b"\x00\xff", b"x" * 300, bytearray(b"abc")],
        "containers": {"a": [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)], 3: {"b": None}},
        "flags": [True, False, None],
        "set": {1, 2, 3},
        "complex": 1 + 2j,
        "size": torch.Size([2, 3]),
        "dtype": [torch.float32, torch.bfloat16],
        "device": torch.device("cpu"),
        "layout": torch.strided,
        "ordered": collections.OrderedDict(a=1, b=collections.OrderedDict(c=2)),
        # With items torch 2.13 refuses it as weights; no engine stores one.
        "defaultdict": collections.defaultdict(list),
        "defaultdict of dict": collections.defaultdict(dict),
        "path": pathlib.PosixPath("/mnt/run/step_10"),
        "signal": signal.SIGTERM,
        "time": datetime.timedelta(days=1, seconds=2, microseconds=3),
        "version": torch.torch_version.TorchVersion(torch.__version__),
        "simple namespace": types.SimpleNamespace(a=1, b=[2]),
        "stream": io.BytesIO(b"abc"),
        "shared": [[1, 2]] * 3,
    }
    yield from plain.items()
    for code in ("f8", "f4", "i8", "i4", "u4", "u1", "b1"):
        yield f"numpy {code}", {"array": numpy.arange(6).reshape(2, 3).astype(code)}
        yield f"numpy scalar {code}", numpy.arange(6).astype(code)[3]


def _rng() -> dict[str, Any]:
    return {
        "random_rng_state": random.getstate(),
        "np_rng_state": _numpy_state(),
        "torch_rng_state": torch.get_rng_state(),
        "cuda_rng_state": torch.get_rng_state(),
        "rng_tracker_states": {"model-parallel-rng": torch.get_rng_state()},
    }


def _engines() -> Iterator[tuple[str, Any]]:
    """State as the engines nest it."""
    arguments = argparse.Namespace(
        num_layers=2, lr=1e-4, params_dtype=torch.bfloat16, data_path=["a", "b"], seed=None
    )
    yield (
        "Megatron common",
        {
            "args": arguments,
            "checkpoint_version": 3.0,
            "iteration": 10,
            "opt_param_scheduler": {"max_lr": 1e-4, "num_steps": 10},
            "rng_state": [_rng()],
            "content_metadata": {"distrib_optim_sharding_type": "fully_reshardable"},
        },
    )
    stamp = {
        "epoch": 1,
        "batch": 10,
        "total_wct": datetime.timedelta(seconds=12, microseconds=5),
        "epoch_wct": datetime.timedelta(0),
    }
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.LayerNorm(3))
    yield "Composer", {
        "state": {
            "model": model.state_dict(),
            "optimizers": {"AdamW": torch.optim.AdamW(model.parameters()).state_dict()},
            "schedulers": {"CosineAnnealing": {"last_epoch": 3}},
            "timestamp": {"Timestamp": stamp},
            "callbacks": [("SpeedMonitor", {"total_eval_wct": 0.0})],
            "integrations": {"huggingface": {"model": {"config": {"content": {"d_model": 4}}}}},
            "metadata": {"torch_version": torch.__version__, "num_nodes": 1},
            "train_metrics": collections.OrderedDict(),
            "rank_zero_seed": 17,
            "dataset_state": {"train": None},
        },
        "rng": [
            {"python": random.getstate(), "numpy": _numpy_state(),
             "torch": torch.get_rng_state(), "cuda": torch.get_rng_state()}
        ],
    }  # fmt: skip


def write(directory: Path, is_full: bool) -> Iterator[dict[str, str]]:
    """Write everything; yield what is listed of each file."""
    torch.manual_seed(5)
    values = [*_tensors(), *_optimizers(), *_values(), *_engines()]
    for number, (name, value) in enumerate(values if is_full else values[::12]):
        file = f"{number:04}.pt"
        torch.save(value, directory / file)
        yield {"name": name, "file": file, "route": "archive"}
    yield from _settings(directory)
    yield from _distributed(directory)
    if is_full:
        large = directory / "large.pt"
        torch.save({"weight": torch.zeros(LARGE, dtype=torch.uint8), "after": torch.ones(3)}, large)
        yield {"name": "zip64", "file": large.name, "route": "large"}


def _settings(directory: Path) -> Iterator[dict[str, str]]:
    """The same values under each setting of the writer."""
    value = {"weight": torch.arange(5.0), "step": 3}
    torch.serialization.set_crc32_options(False)
    torch.save(value, directory / "no-crc.pt")
    torch.serialization.set_crc32_options(True)
    with (directory / "stream.pt").open("wb") as stream:
        torch.save(value, stream)
    torch.save(value, directory / "named.weird name.pt", _use_new_zipfile_serialization=True)
    names = ["no-crc.pt", "stream.pt", "named.weird name.pt"]
    config = import_module("torch.utils.serialization").config
    for alignment in (64, 128, 4096) if hasattr(config.save, "storage_alignment") else ():
        with config.patch({"save.storage_alignment": alignment}):
            torch.save(value, directory / f"aligned-{alignment}.pt")
            names.append(f"aligned-{alignment}.pt")
    for name in names:
        yield {"name": name, "file": name, "route": "archive"}


def _distributed(directory: Path) -> Iterator[dict[str, str]]:
    for number, (name, value) in enumerate([*_engines(), *_optimizers()]):
        place = directory / f"distributed-{number}"
        state = {"state": value, "weight": torch.arange(20.0), "step": 10}
        dcp.save(state, checkpoint_id=place, no_dist=True)
        yield {"name": f"distributed {name}", "file": place.name, "route": "distributed"}


# ---------------------------------------------------------------------- comparing


def is_same(one: Any, other: Any) -> bool:
    """True if both are of the same classes and have the same values."""
    if type(one) is not type(other):
        return False
    match one:
        case torch.Tensor():
            settings = ("dtype", "shape", "requires_grad", "stride")
            if any(_setting(one, name) != _setting(other, name) for name in settings):
                return False
            return _bytes(one) == _bytes(other)
        case torch.TypedStorage():
            return bool(one.dtype == other.dtype and list(one) == list(other))
        case numpy.ndarray() | numpy.generic():
            return bool(one.dtype == other.dtype and one.tobytes() == other.tobytes())
        case dict():
            factory = getattr(one, "default_factory", None)
            same = factory is getattr(other, "default_factory", None) and len(one) == len(other)
            pairs = zip(one.items(), other.items(), strict=False)
            return bool(same and all(is_same(*pair) for pair in pairs))
        case list() | tuple():
            return len(one) == len(other) and all(map(is_same, one, other))
        case io.BytesIO():
            return bool(one.getvalue() == other.getvalue())
        case argparse.Namespace() | types.SimpleNamespace():
            return is_same(vars(one), vars(other))
        case _:
            return bool(one == other)


def _setting(tensor: torch.Tensor, name: str) -> Any:
    value = getattr(tensor, name)
    return value() if callable(value) else value


def _bytes(tensor: torch.Tensor) -> bytes:
    held = tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)
    data: bytes = held.view(torch.uint8).numpy().tobytes() if held.numel() else b""
    return data


def _is_large(found: Any) -> bool:
    """Compare with what was written, since two of them are too much for memory."""
    weight = found["weight"]
    is_whole = bool(weight.numel() == LARGE and not weight.any())
    return is_whole and is_same(found["after"], torch.ones(3))


def _load(directory: Path, case: dict[str, str]) -> Any:
    place = directory / case["file"]
    if case["route"] != "distributed":
        return torch.load(place, weights_only=False, map_location="cpu")
    described = dcp.FileSystemReader(place).read_metadata()
    state = {
        name: torch.zeros(one.size, dtype=one.properties.dtype) if hasattr(one, "size") else None
        for name, one in described.state_dict_metadata.items()
    }
    dcp.load(state, storage_reader=dcp.FileSystemReader(place), no_dist=True)
    return state


def compare(directory: Path, cases: list[dict[str, str]]) -> Iterator[dict[str, Any]]:
    """Load each file by torch, then by Seatrial in torch's place."""
    loaded = [None if case["route"] == "large" else _load(directory, case) for case in cases]
    import_module("seatrial.worker.environment").set_variables()
    import_module("seatrial.worker.checkpointing.safe_load").install()
    for case, expected in zip(cases, loaded, strict=True):
        try:
            found = _load(directory, case)
        except BaseException as error:  # torch's error about a checkpoint is no Exception
            yield case | {"same": False, "error": f"{type(error).__name__}: {error}"}
        else:
            same = _is_large(found) if case["route"] == "large" else is_same(expected, found)
            yield case | {"same": same}


def main() -> None:
    """Write, then compare."""
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("--few", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    cases = list(write(options.directory, not options.few))
    for answer in compare(options.directory, cases):
        sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
