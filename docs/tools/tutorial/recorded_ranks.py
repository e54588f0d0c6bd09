# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Trainings whose ranks write down what they do in one step.

    python -m docs.tools.tutorial.recorded_ranks < CASES   (with the worker's Python)

The engine trains as in a rehearsal. Around its functions stand others that write down what was
sent, to whom and when, which pass of which micro-batch ran when, and what is held in memory. Each
rank writes `rank-N.json` into the directory of its case. Torch and the engine are loaded once, and
every rank is a fork of that process, with the variables that torchrun would give it. One JSON line
in for each training; ends with 1 when a rank fails.
"""

import functools
import json
import os
import signal
import socket
import sys
import time
import traceback
import weakref
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from seatrial.worker.megatron.cpu.start import start_on_cpu
from seatrial.worker.settings import settings

STEP = 3
"""The step that is written down: the first ones also make buffers."""
MOVES = (
    *("all_reduce", "all_gather_into_tensor", "reduce_scatter_tensor", "all_to_all_single"),
    *("broadcast", "isend", "send", "all_gather", "reduce_scatter"),
)
"""What moves tensors. Who receives one is told by the sender."""


class Recording:
    """What a rank does in the one step."""

    def __init__(self) -> None:
        self.step = 0
        self.inside = False
        self.doing = "between"
        self.moves: Counter[tuple[Any, ...]] = Counter()
        self.passes: list[dict[str, Any]] = []
        self.counts: Counter[str] = Counter()
        self.kept: Counter[int] = Counter()
        self.sizes: dict[int, int] = {}
        self.weights: frozenset[int] = frozenset()
        self.peak = 0
        self.held: dict[str, int] = {}

    @property
    def on(self) -> bool:
        return self.step == STEP

    def moved(self, kind: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        tensors = [value for value in args if isinstance(value, torch.Tensor)]
        names = ("input", "input_tensor", "output", "output_tensor", "tensor")
        tensors += [kwargs[name] for name in names if isinstance(kwargs.get(name), torch.Tensor)]
        if not tensors:
            return
        # Of a pair, the smaller is one rank's part: what a gather gives and a scatter leaves.
        tensor = min(tensors, key=torch.Tensor.numel)
        groups = [value for value in args if isinstance(value, dist.ProcessGroup)]
        group = kwargs.get("group") or (groups[0] if groups else dist.group.WORLD)
        peer = _receiver(group, args, kwargs) if kind in ("isend", "send") else -1
        words = (kind, group.group_desc, tuple(dist.get_process_group_ranks(group)), peer)
        size = tensor.numel() * tensor.element_size()
        if kind == "all_to_all_single":
            size = _given_away(group, args, kwargs)
        shape, dtype = tuple(tensor.shape), str(tensor.dtype).removeprefix("torch.")
        self.moves[(*words, shape, dtype, size, self.doing)] += 1

    def keep(self, tensor: torch.Tensor) -> Any:
        """A tensor that waits for its backward pass; counted once, however often it is kept."""
        storage = tensor.untyped_storage()
        place, size = storage.data_ptr(), storage.nbytes()
        if not self.on or place in self.weights:
            return tensor
        self.kept[place] += 1
        self.sizes[place] = size
        self.peak = max(self.peak, sum(self.sizes.values()))
        holder = _Kept(tensor)
        weakref.finalize(holder, self.release, place)
        return holder

    def release(self, place: int) -> None:
        self.kept[place] -= 1
        if self.kept[place] <= 0:
            self.sizes.pop(place, None)


def _receiver(group: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """The rank that something is sent to; torch may be told its number in the group."""
    inside = kwargs.get("group_dst")
    if inside is not None:
        return int(dist.get_global_rank(group, inside))
    return int(kwargs["dst"] if "dst" in kwargs else args[1])


def _given_away(group: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """Bytes of an all-to-all that leave this rank: all but the part that it sends to itself."""
    given = kwargs["input"] if "input" in kwargs else args[1]
    splits = kwargs.get("input_split_sizes", args[3] if len(args) > 3 else None)
    rows = [1] * group.size() if splits is None else [int(part) for part in splits]
    whole: int = given.numel() * given.element_size()
    mine: int = rows[group.rank()]
    return whole - whole * mine // max(1, sum(rows))


class _Kept:
    """Holds a kept tensor; when it goes, the tensor does."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor


def _unpacked(held: Any) -> torch.Tensor:
    return held.tensor if isinstance(held, _Kept) else held


def watch_moves(recording: Recording) -> None:
    """Put a function that writes down before each that moves tensors, wherever torch has it."""
    for kind in MOVES:
        original = getattr(dist, kind)
        wrapped = _noting(recording, kind, original)
        setattr(distributed_c10d, kind, wrapped)
        setattr(dist, kind, wrapped)


def _noting(recording: Recording, kind: str, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def noting(*args: Any, **kwargs: Any) -> Any:
        outer = recording.on and not recording.inside
        if not outer:
            return original(*args, **kwargs)
        recording.moved(kind, args, kwargs)
        recording.inside = True
        try:
            return original(*args, **kwargs)
        finally:
            recording.inside = False

    return noting


def watch_passes(recording: Recording, module: Any, name: str, doing: str) -> None:
    """Write down when a function of the engine runs, and what is sent while it does."""
    original = getattr(module, name)

    def timed(*args: Any, **kwargs: Any) -> Any:
        if not recording.on:
            return original(*args, **kwargs)
        number = recording.counts[doing]
        recording.counts[doing] += 1
        before, recording.doing = recording.doing, doing
        began = time.time()
        try:
            return original(*args, **kwargs)
        finally:
            recording.doing = before
            passed = {"doing": doing, "number": number, "begin": began, "end": time.time()}
            recording.passes.append(passed)

    setattr(module, name, timed)


def watch_steps(recording: Recording, engine: Any) -> None:
    """Know which step it is, and look at the memory after it."""
    original = engine.train_step

    def train_step(*args: Any, **kwargs: Any) -> Any:
        recording.step += 1
        if not recording.on:
            return original(*args, **kwargs)
        _, _, model, optimizer, *_ = args
        recording.weights = frozenset(weights_of(model))
        dist.barrier()
        watch_passes(recording, optimizer, "step", "optimizer")
        with torch.autograd.graph.saved_tensors_hooks(recording.keep, _unpacked):
            result = original(*args, **kwargs)
        recording.held = held_by(model, optimizer)
        return result

    engine.train_step = train_step


def weights_of(model: list[Any]) -> dict[int, torch.Tensor]:
    """The weights by the place of their memory; those in one buffer are one."""
    return {p.untyped_storage().data_ptr(): p for chunk in model for p in chunk.parameters()}


def held_by(model: list[Any], optimizer: Any) -> dict[str, int]:
    """Bytes of weights, of gradients, and of what the optimizer keeps."""
    weights = weights_of(model)
    gradients = [
        buffer.grad_data for m in model for buffer in (*m.buffers, *m.expert_parallel_buffers)
    ]
    state: dict[int, torch.Tensor] = {}
    for one in getattr(optimizer, "chained_optimizers", [optimizer]):
        inner = one.optimizer
        tensors = [t for values in inner.state.values() for t in values.values()]
        # The weights that the optimizer works on, where they are not those of the model.
        tensors += [p for group in inner.param_groups for p in group["params"]]
        for tensor in tensors:
            if isinstance(tensor, torch.Tensor) and tensor.numel() > 1:
                place = tensor.untyped_storage().data_ptr()
                if place not in weights:
                    state[place] = tensor
    whole = [p.untyped_storage().nbytes() for p in weights.values()]
    return {
        "weights": sum(whole),
        "gradients": sum(g.numel() * g.element_size() for g in gradients),
        "optimizer": sum(t.untyped_storage().nbytes() for t in state.values()),
    }


def write_down(recording: Recording, mpu: Any, directory: Path) -> None:
    rank = dist.get_rank()
    names = ("kind", "group", "ranks", "peer", "shape", "dtype", "bytes", "during")
    told = {
        "rank": rank,
        "place": {
            "tp": mpu.get_tensor_model_parallel_rank(),
            "cp": mpu.get_context_parallel_rank(),
            "dp": mpu.get_data_parallel_rank(),
            "pp": mpu.get_pipeline_model_parallel_rank(),
            "ep": mpu.get_expert_model_parallel_rank(),
        },
        "moves": [
            dict(zip(names, move, strict=True)) | {"times": times}
            for move, times in recording.moves.items()
        ],
        "passes": recording.passes,
        "memory": recording.held | {"activations": recording.peak},
    }
    (directory / f"rank-{rank}.json").write_text(json.dumps(told))


def prepare(recording: Recording) -> None:
    """Load the engine, with everything around it that writes down."""
    # Before the engine is loaded, which keeps some of these functions under names of its own.
    watch_moves(recording)
    start_on_cpu((), is_rank=True)
    schedules = import_module("megatron.core.pipeline_parallel.schedules")
    engine = import_module("megatron.training.training")
    import_module("seatrial.worker.megatron.training")
    watch_passes(recording, schedules, "forward_step", "forward")
    watch_passes(recording, schedules, "backward_step", "backward")
    watch_passes(recording, engine, "finalize_model_grads", "gradients")
    watch_steps(recording, engine)


def train_rank(case: dict[str, Any], recording: Recording) -> int:
    """One rank, in this process: its exit code."""
    log = os.open(case["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    engine: Any = import_module("megatron.training.training")
    train, mpu = engine.train, import_module("megatron.core.parallel_state")

    def whole(*args: Any, **kwargs: Any) -> Any:
        result = train(*args, **kwargs)
        write_down(recording, mpu, Path(case["directory"]))
        return result

    engine.train = whole
    try:
        import_module("seatrial.worker.megatron.training").train(settings(), case["words"])
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else int(bool(end.code))
    return 0


def start(case: dict[str, Any], recording: Recording) -> bool:
    """All ranks of a training, each a fork; whether all ended well."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    size, children = case["world_size"], []
    for rank in range(size):
        child = os.fork()
        if child:
            children.append(child)
            continue
        os.environ.update(case["environment"] | {"RANK": str(rank), "LOCAL_RANK": str(rank)})
        os.environ.update({"WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": str(size)})
        os.environ.update({"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)})
        code = 1
        try:
            code = train_rank(case, recording)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    codes: dict[int, int] = {}
    while len(codes) < size:
        child, status = os.wait()
        codes[child] = os.waitstatus_to_exitcode(status)
        if codes[child]:
            # The others would wait for it.
            for other in set(children) - codes.keys():
                os.kill(other, signal.SIGKILL)
    return not any(codes.values())


def main() -> None:
    recording = Recording()
    prepare(recording)
    for line in sys.stdin:
        case = json.loads(line)
        if not start(case, recording):
            sys.exit(f"a rank of {case['name']} failed: see {case['log']}")


if __name__ == "__main__":
    main()
