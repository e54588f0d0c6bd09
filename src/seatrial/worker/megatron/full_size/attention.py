# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What Transformer Engine does around its attention kernels, and its attention without a kernel.

The sources are in docs/engine/full-size-kernels.md.
"""

import sys
import types
from typing import Any

import torch

from seatrial.worker.megatron.full_size.counter import OTHER
from seatrial.worker.megatron.full_size.kernels import UNFUSED, Choices

Three = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def separate(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Three:
    """Copy queries, keys and values, unless they are equal slices of one tensor or contiguous."""
    are_slices = (
        q.untyped_storage()._cdata == k.untyped_storage()._cdata == v.untyped_storage()._cdata
        and q.shape == k.shape == v.shape
        and q.stride() == k.stride() == v.stride()
    )
    if are_slices:
        return q, k, v
    return q.contiguous(), k.contiguous(), v.contiguous()


def batch_first(x: torch.Tensor) -> torch.Tensor:
    """Copy a tensor so that the batch is the first dimension in memory."""
    return x.transpose(0, 1).contiguous().transpose(0, 1)


def pad(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Three:
    """Pad heads to one width, which FlashAttention 2 needs."""
    width = max(q.shape[-1], v.shape[-1])
    q, k, v = (
        torch.nn.functional.pad(x, (0, width - x.shape[-1])) if x.shape[-1] < width else x
        for x in (q, k, v)
    )
    return q, k, v


def unfused_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, dropout: float
) -> torch.Tensor:
    """Two products and a softmax."""
    s, b, n, _ = q.shape
    repeats = n // k.shape[2]
    if repeats > 1:
        k, v = k.repeat_interleave(repeats, dim=2), v.repeat_interleave(repeats, dim=2)
    q, k, v = (x.reshape(x.shape[0], b * n, -1) for x in (q, k, v))
    keys = k.shape[0]
    scores = torch.empty(b * n, s, keys, dtype=q.dtype)
    scores = torch.baddbmm(
        scores, q.transpose(0, 1), k.transpose(0, 1).transpose(1, 2), beta=0.0, alpha=1.0
    )
    weights: torch.Tensor = Softmax.apply(scores.view(b, n, s, keys))
    del scores
    weights = torch.nn.functional.dropout(weights, dropout, True)
    output = torch.bmm(weights.view(b * n, s, keys), v.transpose(0, 1))
    return output.view(b, n, s, -1).permute(2, 0, 1, 3).contiguous().view(s, b, -1)


class Softmax(torch.autograd.Function):
    """Scale, mask and softmax in one kernel, which keeps its result and overwrites its gradient."""

    @staticmethod
    def forward(ctx: Any, scores: torch.Tensor) -> torch.Tensor:
        result = _softmax(scores)
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return _softmax_gradient(grad, ctx.saved_tensors[0])


def _softmax(scores: torch.Tensor, *_: Any) -> torch.Tensor:
    with Choices.counter.kernel(UNFUSED, OTHER, 5 * scores.numel(), scores, scores):
        return torch.empty(scores.shape, dtype=scores.dtype)


def _softmax_gradient(grad: torch.Tensor, result: torch.Tensor, *_: Any) -> torch.Tensor:
    with Choices.counter.kernel(UNFUSED, OTHER, 5 * grad.numel(), result, grad, grad):
        return grad.contiguous()


def _rows_per_block(queries: int, keys: int, batch: int, heads: int) -> int:
    """Return how many rows a block of the kernel computes."""
    return 4 if keys > WIDE else 8


WIDE = 128
"""Keys above which a warp computes one row instead of two."""


def offer_softmax() -> None:
    """Provide apex's kernels under the names by which the engine's own attention imports them."""
    for kind in ("scaled_upper_triang_masked", "scaled_masked", "scaled"):
        module = types.ModuleType(f"{kind}_softmax_cuda")
        module.forward = _softmax  # type: ignore[attr-defined]
        module.backward = _softmax_gradient  # type: ignore[attr-defined]
        module.get_batch_per_block = _rows_per_block  # type: ignore[attr-defined]
        sys.modules[module.__name__] = module
