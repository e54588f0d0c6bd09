# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Count live storages by role, and remember what was alive at the peak."""

import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from seatrial.planning.counted import HeldTensor, MemoryByRole

BLOCK = 512
"""Bytes to which CUDA's caching allocator rounds a block up (torch c10/cuda/CUDACachingAllocator,
kMinBlockSize)."""
LARGEST = 24
"""How many kinds of tensors a record names."""
ROLES = ("weights", "gradients", "optimizer", "activations", "logits", "buffers")

Kind = tuple[str, str, str]
"""Role, module, and operator with type and shape."""


def rounded(size: int, block: int) -> int:
    return -(-size // block) * block


@dataclass
class Peak:
    """The highest sum of live bytes in a part of the step."""

    live: int = 0
    event: int = 0
    held: dict[Kind, tuple[int, int]] = field(default_factory=dict)


class Storages:
    """All live storages; each counts once, however many tensors are views of it."""

    def __init__(self, block: int = BLOCK) -> None:
        self.block = block
        self.live = 0
        self.highest = 0
        """The highest sum since `take_highest`."""
        self.peaks: dict[str, Peak] = {}
        self.part = ""
        """The part of the step whose peak is kept; empty before the step."""
        self._sizes: dict[int, tuple[int, Kind]] = {}
        self._held: dict[Kind, list[int]] = {}
        self._unsaved: Peak | None = None

    def __contains__(self, tensor: torch.Tensor) -> bool:
        return _key(tensor) in self._sizes

    def add(self, tensor: torch.Tensor, kind: Kind, event: int) -> None:
        """Count a storage that has not been counted."""
        storage = tensor.untyped_storage()
        key, size = storage._cdata, rounded(storage.nbytes(), self.block)
        self._sizes[key] = (size, kind)
        weakref.finalize(storage, self._remove, key).atexit = False
        self._change(size, kind, 1)
        self._note_peak(event)

    def resized(self, storage: torch.UntypedStorage, event: int) -> None:
        """Count a storage at its new size."""
        known = self._sizes.get(storage._cdata)
        size = rounded(storage.nbytes(), self.block)
        if known is not None and known[0] != size:
            self._keep_peak()
            self._sizes[storage._cdata] = (size, known[1])
            self._change(size - known[0], known[1], 0)
            self._note_peak(event)

    def _remove(self, key: int) -> None:
        self._keep_peak()
        size, kind = self._sizes.pop(key)
        self._change(-size, kind, -1)

    def _change(self, size: int, kind: Kind, count: int) -> None:
        self.live += size
        held = self._held.setdefault(kind, [0, 0])
        held[0] += size
        held[1] += count

    def _note_peak(self, event: int) -> None:
        self.highest = max(self.highest, self.live)
        peak = self.peaks.setdefault(self.part, Peak())
        if self.live > peak.live:
            peak.live, peak.event = self.live, event
            self._unsaved = peak

    def _keep_peak(self) -> None:
        """Copy what is alive, if the sum is about to leave a peak."""
        if self._unsaved is not None:
            self._unsaved.held = {
                kind: (size, count) for kind, (size, count) in self._held.items() if size
            }
            self._unsaved = None

    def begin_part(self, part: str, event: int) -> None:
        """Begin a part of the step."""
        self._keep_peak()
        self.part = part
        self._note_peak(event)

    def take_highest(self) -> int:
        """Return the highest sum since the last call."""
        highest, self.highest = self.highest, self.live
        return highest

    def assign_roles(self, roles: Mapping[str, Iterable[torch.Tensor]]) -> dict[str, int]:
        """Give storages their roles; all others that are alive become buffers."""
        self._keep_peak()
        named = {_key(tensor): role for role, tensors in roles.items() for tensor in tensors}
        found = dict.fromkeys(ROLES, 0)
        for key, (size, (_, module, what)) in list(self._sizes.items()):
            role = named.get(key, "buffers")
            found[role] += size
            self._held[self._sizes[key][1]][0] -= size
            self._held[self._sizes[key][1]][1] -= 1
            kind = (role, module if role == "buffers" else "", what)
            self._sizes[key] = (size, kind)
            held = self._held.setdefault(kind, [0, 0])
            held[0] += size
            held[1] += 1
        return found

    def peak(self, part: str) -> Peak:
        """Return the peak of a part of the step."""
        self._keep_peak()
        return self.peaks.get(part, Peak())


def memory_of(peak: Peak) -> MemoryByRole:
    """Add up what was alive at a peak by role."""
    sums = dict.fromkeys(ROLES, 0)
    for (role, _, _), (size, _) in peak.held.items():
        sums[role] += size
    return MemoryByRole(**sums)


def largest_of(peak: Peak) -> tuple[HeldTensor, ...]:
    """Return the kinds of tensors that held most at a peak, largest first."""
    ordered = sorted(peak.held.items(), key=lambda item: -item[1][0])
    return tuple(
        HeldTensor(module, what, role, size, count)
        for (role, module, what), (size, count) in ordered[:LARGEST]
    )


def _key(tensor: torch.Tensor) -> int:
    key: int = tensor.untyped_storage()._cdata
    return key


def watch_resizes(storages: Storages, event: Any) -> None:
    """Megatron frees outputs by resizing their storage, which no operator shows."""
    original = torch.UntypedStorage.resize_

    def resize_(self: torch.UntypedStorage, size: int) -> Any:
        result = original(self, size)
        storages.resized(self, event())
        return result

    torch.UntypedStorage.resize_ = resize_  # type: ignore[method-assign]
