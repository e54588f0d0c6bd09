# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Products in 8 or 4 bits: what they keep in place of the engine's bf16 products.

The gathered inputs of sequence parallelism are still counted in bf16.
"""

from typing import Any

import torch
from megatron.core.tensor_parallel import layers
from megatron.core.tensor_parallel.layers import LinearWithGradAccumulationAndAsyncCommunication

from seatrial.worker.megatron.full_size.counter import OTHER
from seatrial.worker.megatron.full_size.formats import (
    QuantizedFormat,
    history_bytes,
    input_bytes,
    weight_bytes,
)
from seatrial.worker.megatron.full_size.kernels import QUANTIZED, Choices
from seatrial.worker.megatron.full_size.position import OUTPUT_LAYER


class Quantization:
    """What the products need to know."""

    kind: QuantizedFormat
    has_native_transpose = False
    has_narrow_weights = False
    """True if the parameters themselves are in the format, without a bf16 copy."""
    kept: dict[int, torch.Tensor] = {}
    """Copies of weights, by the weight's identity."""


def _bytes(size: int) -> torch.Tensor:
    return torch.empty(size, dtype=torch.uint8)


class _Restored:
    """A context whose saved tensors are the engine's."""

    def __init__(self, ctx: Any, *saved: torch.Tensor) -> None:
        self._ctx, self.saved_tensors = ctx, saved

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ctx, name)


class QuantizedLinear(LinearWithGradAccumulationAndAsyncCommunication):  # type: ignore[misc]
    """The engine's product, which keeps a narrow input and a narrow copy of its weight."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, *rest: Any) -> torch.Tensor:
        """Save the narrow input in place of the bf16 one."""
        counter, kind = Choices.counter, Quantization.kind
        output: torch.Tensor = LinearWithGradAccumulationAndAsyncCommunication.forward(
            ctx, x, weight, *rest
        )
        ctx.is_narrow = not counter.position.module.startswith(OUTPUT_LAYER)
        if not ctx.is_narrow:
            return output
        columns = x.shape[-1]
        rows = x.numel() // columns
        with counter.kernel(QUANTIZED, OTHER, 0, x):
            kept = _bytes(input_bytes(kind, rows, columns))
            if id(weight) not in Quantization.kept and not Quantization.has_narrow_weights:
                size = weight_bytes(
                    kind, *weight.shape, has_native_transpose=Quantization.has_native_transpose
                )
                Quantization.kept[id(weight)] = _bytes(size + history_bytes(kind))
        ctx.shape, ctx.dtype = x.shape, x.dtype
        ctx.save_for_backward(kept, weight)
        return output

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        """Compute with an input of the engine's shape.

        Its bytes stand for the two narrow copies of the output's gradient.
        """
        if not ctx.is_narrow:
            return LinearWithGradAccumulationAndAsyncCommunication.backward(ctx, grad)
        with Choices.counter.kernel(QUANTIZED, OTHER, 0):
            x = torch.empty(ctx.shape, dtype=ctx.dtype)
        restored = _Restored(ctx, x, ctx.saved_tensors[1])
        return LinearWithGradAccumulationAndAsyncCommunication.backward(restored, grad)


def quantize_products(
    kind: QuantizedFormat, *, has_native_transpose: bool = False, has_narrow_weights: bool = False
) -> None:
    """Replace the products of the engine's layers, but not that of the output layer."""
    Quantization.kind = kind
    Quantization.has_native_transpose = has_native_transpose
    Quantization.has_narrow_weights = has_narrow_weights
    layers.LinearWithGradAccumulationAndAsyncCommunication = QuantizedLinear
