# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Where in a step the engine is: pass, micro-batch, model chunk, module and source line."""

import os
import sys
from bisect import bisect_right
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import torch

from seatrial.planning.counted import Pass

LOSS = "loss"
"""The name for what follows the output layer, outside of any module."""
OUTPUT_LAYER = "output_layer"


@dataclass(frozen=True, slots=True)
class Moment:
    """A part of the step that is attributed as a whole."""

    during: Pass
    micro_batch: int
    chunk: int


class StepPosition:
    """Follows the engine through modules and passes.

    Autograd numbers the nodes of its graph in the order in which the forward pass creates them. The
    numbers at which a module begins and ends therefore tell, in the backward pass, to which module,
    micro-batch and chunk a node belongs.
    """

    def __init__(self) -> None:
        self.moment = Moment(Pass.SETUP, -1, 0)
        self.in_flight = 0
        """Forward passes whose backward pass has not ended."""
        self._names: dict[int, str] = {}
        self._stack: list[str] = []
        self._after_output = False
        self._numbers: list[int] = []
        self._owners: list[tuple[str, int, int]] = []
        self._engine = _engine_directory()

    def name_modules(self, chunks: list[torch.nn.Module]) -> None:
        """Learn the names of the modules, without those of the wrappers around a chunk."""
        for chunk in chunks:
            inner = chunk
            while hasattr(inner, "module"):
                inner = inner.module  # type: ignore[assignment]
            self._names |= {id(module): name for name, module in inner.named_modules()}

    def follow_modules(self) -> None:
        """Call `_enter` and `_leave` for every module from now on."""
        hooks = torch.nn.modules.module
        hooks.register_module_forward_pre_hook(self._enter)
        hooks.register_module_forward_hook(self._leave, always_call=True)

    def _enter(self, module: torch.nn.Module, inputs: Any) -> None:
        name = self._names.get(id(module))
        if name is not None:
            self._stack.append(name)
            self._mark()

    def _leave(self, module: torch.nn.Module, inputs: Any, output: Any) -> None:
        name = self._names.get(id(module))
        if name is not None and self._stack:
            self._stack.pop()
            self._after_output = self._after_output or name == OUTPUT_LAYER
            self._mark()

    def begin(self, during: Pass, micro_batch: int = -1, chunk: int = 0) -> None:
        """Begin a pass of a micro-batch, or the update."""
        self.moment = Moment(during, micro_batch, chunk)
        self._after_output = False
        self._stack.clear()
        self._mark()

    def _mark(self) -> None:
        number = torch._C._autograd._get_sequence_nr()
        owner = (self._innermost(), self.moment.micro_batch, self.moment.chunk)
        if self._numbers and self._numbers[-1] == number:
            self._owners[-1] = owner
        else:
            self._numbers.append(number)
            self._owners.append(owner)

    def _innermost(self) -> str:
        name = self._stack[-1] if self._stack else ""
        return LOSS if not name and self._after_output else name

    def owner_of(self, node: Any) -> tuple[str, int, int] | None:
        """Return module, micro-batch and chunk of a node of autograd's graph, if they are known."""
        found = bisect_right(self._numbers, node._sequence_nr()) - 1
        return self._owners[found] if found >= 0 else None

    @property
    def module(self) -> str:
        """The innermost module, or `loss`; empty outside the model."""
        if not self._stack:
            node = torch._C._current_autograd_node()
            if node is not None:
                owner = self.owner_of(node)
                return owner[0] if owner is not None else ""
        return self._innermost()

    def line(self) -> str:
        """Return the innermost line of the engine that is being executed."""
        frame = sys._getframe(1)
        while frame is not None:
            file = frame.f_code.co_filename
            if file.startswith(self._engine):
                return f"megatron/{file[len(self._engine) :]}:{frame.f_lineno}"
            frame = frame.f_back  # type: ignore[assignment]
        return ""


def _engine_directory() -> str:
    engine = find_spec("megatron.core")
    place = next(iter(engine.submodule_search_locations or ()), "") if engine else ""
    return f"{os.path.dirname(place)}{os.sep}"
