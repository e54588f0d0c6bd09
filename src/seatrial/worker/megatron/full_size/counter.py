# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Count what one rank holds, communicates and computes, while the engine's own loop runs.

The counter sees every operator that the engine calls. Above torch's fake tensors, operators have
their real shapes and compute no data. Above real tensors it counts the same, which the tests show.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
)
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from seatrial.worker.megatron.full_size.events import Recorder, bytes_of, tensors_in
from seatrial.worker.megatron.full_size.position import LOSS, OUTPUT_LAYER, StepPosition
from seatrial.worker.megatron.full_size.storages import BLOCK, Storages

MATRIX_PRODUCT = "matrix_product"
ATTENTION = "attention"
OTHER = "other"

Select = Callable[[Any, tuple[Any, ...]], torch.Tensor]
"""Returns the output of an operator whose size depends on data."""


class StepCounter(TorchDispatchMode):  # type: ignore[misc]
    """Counts from the moment at which it is entered."""

    def __init__(self, block: int = BLOCK) -> None:
        super().__init__()
        self.position = StepPosition()
        self.storages = Storages(block)
        self.recorder = Recorder(self.position, self.storages)
        self.imitated: Counter[str] = Counter()
        """Calls of kernels that are imitated."""
        self.assumed: Counter[str] = Counter()
        """How often a value was assumed because no data was computed."""
        self.select: Select | None = None
        """Answers operators whose output size depends on data; set for mixtures of experts."""
        self._kernel = ""

    @contextmanager
    def kernel(self, name: str, kind: str, flops: int, *operands: torch.Tensor) -> Iterator[None]:
        """Count an imitated kernel: its work, and what it allocates under its name."""
        self.imitated[name] += 1
        self.recorder.computed(kind, flops, bytes_of(operands))
        outer, self._kernel = self._kernel, name
        try:
            yield
        finally:
            self._kernel = outer

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Nothing is compiled, and torch's guard around every operator takes time.
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Execute an operator, and count it."""
        kwargs = kwargs or {}
        if func.namespace == "c10d":
            return self._communicate(func, args)
        if func.namespace == "prim":
            # A question about a tensor, such as its device.
            return func(*args, **kwargs)
        out = self._execute(func, args, kwargs)
        name = str(func.overloadpacket)
        results = tensors_in(out)
        if func.namespace == "aten" and not self._kernel and not func.is_view:
            flops = 0
            if func.overloadpacket in flop_registry:
                flops = flop_registry[func.overloadpacket](*args, **kwargs, out_val=out)
            is_empty = name.startswith("aten.empty")
            moved = 0 if is_empty else bytes_of(tensors_in(args)) + bytes_of(results)
            self.recorder.computed(MATRIX_PRODUCT if flops else OTHER, flops, moved)
        for tensor in results:
            self._see(tensor, self._kernel or name)
        return out

    def _execute(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            return func(*args, **kwargs)
        except DataDependentOutputException:
            # No flag is raised, and every other number is 1.
            self.assumed[str(func)] += 1
            dtype = args[0].dtype
            return False if dtype is torch.bool else 1.0 if dtype.is_floating_point else 1
        except DynamicOutputShapeException:
            if self.select is None:
                raise
            self.assumed[str(func)] += 1
            return self.select(func, args)

    def _see(self, tensor: torch.Tensor, what: str) -> None:
        event = len(self.recorder.events)
        if tensor in self.storages:
            self.storages.resized(tensor.untyped_storage(), event)
            return
        module = self.position.module
        is_output = module.startswith((OUTPUT_LAYER, LOSS))
        shape = ", ".join(map(str, tensor.shape))
        dtype = str(tensor.dtype).removeprefix("torch.")
        kind = ("logits" if is_output else "activations", module, f"{what} {dtype}[{shape}]")
        self.storages.add(tensor, kind, event)

    def _communicate(self, func: Any, args: tuple[Any, ...]) -> Any:
        for tensor in tensors_in(args):
            self._see(tensor, func.overloadpacket.__name__.strip("_"))
        work = self.recorder.communicated(func, args).boxed()
        return work if len(func._schema.returns) == 1 else (args[0], work)
