# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Kernels without a CPU form: what they keep for the backward pass, and functions that keep it too.

Outputs are not computed. Only shapes, saved tensors, temporary tensors and work are counted.
"""

import os
import sys
import types
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import torch

from seatrial.worker.megatron.full_size.counter import (
    ATTENTION,
    MATRIX_PRODUCT,
    OTHER,
    StepCounter,
)


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel that is imitated."""

    name: str
    keeps: str
    """What it saves for the backward pass, or keeps for good."""
    size: str
    """Bytes of that; s: tokens of a sequence on the rank, b: sequences of a micro-batch, n: heads
    on the rank, k: key-value heads on the rank, d: head size, h: hidden size, p: parameters, w:
    weight."""
    source: str


FLASH = "flash attention"
NORM = "fused norm"
ROPE = "fused RoPE"
WEIGHT_GRADIENT = "fused weight gradient"
DUMMY = "dummy weight gradient"
DROPOUT = "dropout"
ADAM = "FusedAdam"
NORM_OF_GRADIENTS = "multi-tensor l2norm and scale"
RING = "context-parallel ring"
UNFUSED = "unfused attention"
QUANTIZED = "8-bit and 4-bit products"
NONDETERMINISTIC = "NVTE_ALLOW_NONDETERMINISTIC_ALGO"
"""Transformer Engine's variable: 0 for kernels whose results do not vary."""
BACKWARD_PRODUCTS = 2.5
"""Ratio of the products of flash attention's backward to its forward pass (arXiv 2307.08691)."""

KERNELS = (
    Kernel(
        FLASH,
        "query, key, value and output; one fp32 number per row and head. Views of the projected "
        "QKV are copied, unless it has as many key as query heads and no RoPE. FlashAttention 2 "
        "keeps a second copy of the output if b > 1; cuDNN does not",
        "2·s·b·d·(2n + 2k) + 4·s·b·n; FlashAttention 2 with b > 1: 2·s·b·n·d more",
        "Transformer Engine 2.17.1 attention/dot_product_attention/utils.py:2333, "
        "backends.py:866, 1279, 1535; flash-attn 2.7.4 flash_attn_interface.py:853",
    ),
    Kernel(
        UNFUSED,
        "query, key and value; the softmax, and with dropout its mask and what is left of it",
        "2·s·b·d·(n + 2n) + 2·b·n·s², with dropout 5·b·n·s²",
        "Transformer Engine 2.17.1 attention/dot_product_attention/backends.py:490, softmax.py:52",
    ),
    Kernel(
        QUANTIZED,
        "the input in the narrow format, by columns; the weight by rows and by columns, for good",
        "1 byte (4-bit: 0.5) per value and way, and scales",
        "Transformer Engine 2.17.1 module/linear.py:545, module/base.py:750, tensor/",
    ),
    Kernel(
        RING,
        "query, output, one fp32 number per row, and a copy of the last rank's keys and values; "
        "while it runs, keys, values and an output of every rank, in backward two buffers for "
        "keys, values and their gradients",
        "2·s·b·d·(2n + 2k) + 4·s·b·n; while it runs 4·s·b·k·d for each rank, in backward four "
        "times that",
        "Transformer Engine 2.20 (d0067d0) attention/dot_product_attention/context_parallel.py, "
        "AttnFuncWithCPAndKVP2P",
    ),
    Kernel(
        NORM,
        "its input, and one (RMSNorm) or two (LayerNorm) fp32 numbers per token",
        "2·s·b·h + 4·s·b or 8·s·b",
        "Transformer Engine 2.20 (d0067d0) ops/basic/layer_norm.py and rmsnorm.py",
    ),
    Kernel(
        ROPE,
        "nothing but the angles, which all layers share",
        "0",
        "Transformer Engine 2.20 (d0067d0) attention/rope.py, FusedRoPEFunc",
    ),
    Kernel(
        WEIGHT_GRADIENT,
        "nothing: the product is added to the fp32 gradient buffer",
        "0",
        "apex fused_weight_gradient_mlp_cuda.wgrad_gemm_accum_fp32, called by megatron-core 0.19.2 "
        "core/tensor_parallel/layers.py",
    ),
    Kernel(
        DUMMY,
        "a gradient that autograd receives and nobody reads: one per shape of a weight, for good",
        "2·w for each distinct shape",
        "Transformer Engine 2.20 (d0067d0) module/base.py, get_dummy_wgrad",
    ),
    Kernel(
        DROPOUT,
        "a mask of one byte per element",
        "s·b·h",
        "torch 2.13 aten native_dropout on CUDA",
    ),
    Kernel(
        ADAM,
        "two moments of each parameter; no temporary tensors",
        "8·p",
        "Transformer Engine 2.20 (d0067d0) optimizers/fused_adam.py; apex optimizers/fused_adam.py",
    ),
    Kernel(
        NORM_OF_GRADIENTS,
        "nothing",
        "0",
        "apex amp_C.multi_tensor_l2norm and multi_tensor_scale",
    ),
)
"""Every kernel that a count may imitate."""


class Attention(StrEnum):
    """What the attention kernel keeps."""

    FLASH = "flash"
    """FlashAttention 2, which works on copies with the batch first."""
    FUSED = "fused"
    """cuDNN's, which works on tensors as they are."""
    UNFUSED = "unfused"
    """Transformer Engine's products and softmax, which keep the matrix of scores."""
    LOCAL = "local"
    """The engine's own, which keeps the matrix of scores."""


class Choices:
    """What the stand-ins need to know; set before the engine is imported."""

    counter: StepCounter
    attention: Attention = Attention.FUSED


def offer_kernels(counter: StepCounter, attention: Attention) -> None:
    """Provide the kernels under the names by which the engine imports them."""
    Choices.counter, Choices.attention = counter, attention
    gradients = types.ModuleType("fused_weight_gradient_mlp_cuda")
    gradients.wgrad_gemm_accum_fp32 = _accumulate  # type: ignore[attr-defined]
    gradients.wgrad_gemm_accum_fp16 = _accumulate  # type: ignore[attr-defined]
    apex = types.ModuleType("apex.optimizers")
    apex.FusedAdam, apex.FusedSGD = CountedAdam, torch.optim.SGD  # type: ignore[attr-defined]
    applier = types.ModuleType("apex.multi_tensor_apply")
    applier.multi_tensor_applier = _apply  # type: ignore[attr-defined]
    amp = types.ModuleType("amp_C")
    amp.multi_tensor_l2norm, amp.multi_tensor_scale = _l2norm, _scale  # type: ignore[attr-defined]
    for module in (gradients, apex, applier, amp):
        sys.modules[module.__name__] = module
    torch.nn.functional.dropout = _dropout  # type: ignore[assignment]


def replace_engine_kernels() -> None:
    """Provide kernels under names in the engine's own modules, after the engine is imported."""
    from megatron.core.models.common.embeddings import rope_utils  # noqa: PLC0415
    from megatron.core.tensor_parallel import layers  # noqa: PLC0415

    rope_utils.fused_apply_rotary_pos_emb = lambda t, freqs, *_, **__: Rope.apply(t, freqs)
    layers.HAVE_TE, layers.get_dummy_wgrad = True, dummy_gradient


def _accumulate(inputs: torch.Tensor, grads: torch.Tensor, main_grad: torch.Tensor) -> None:
    flops = 2 * inputs.numel() * grads.shape[-1]
    with Choices.counter.kernel(WEIGHT_GRADIENT, MATRIX_PRODUCT, flops, inputs, grads, main_grad):
        pass


def _dropout(
    x: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> torch.Tensor:
    if not (training and p):
        return x
    Choices.counter.imitated[DROPOUT] += 1
    return torch.native_dropout(x, p, True)[0]


_DUMMIES: dict[tuple[Any, ...], torch.Tensor] = {}


def dummy_gradient(shape: Any, dtype: torch.dtype, zero: bool = False) -> torch.Tensor:
    """Return Transformer Engine's shared gradient of a shape."""
    key = (*shape, dtype)
    Choices.counter.imitated[DUMMY] += 1
    if key not in _DUMMIES:
        _DUMMIES[key] = torch.empty(shape, dtype=dtype)
    return _DUMMIES[key].detach()


class CountedAdam(torch.optim.Optimizer):
    """Keeps two moments of each parameter."""

    def __init__(self, params: Any, lr: float = 1e-3, **constants: Any) -> None:
        constants.pop("adam_w_mode", None)
        super().__init__(params, {"lr": lr, **constants})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                state = self.state[parameter]
                for name in ("exp_avg", "exp_avg_sq"):
                    if name not in state:
                        state[name] = torch.empty_like(parameter)
                # Both moments and the weight are read and written, the gradient is read.
                moved = [parameter, *state.values()]
                grad = [] if parameter.grad is None else [parameter.grad]
                flops = 12 * parameter.numel()
                with Choices.counter.kernel(ADAM, OTHER, flops, *moved, *moved, *grad):
                    pass


def _apply(operation: Any, flag: torch.Tensor, lists: Any, *arguments: Any) -> Any:
    return operation(2048 * 32, flag, lists, *arguments)


def _l2norm(size: int, flag: torch.Tensor, lists: Any, *arguments: Any) -> Any:
    tensors = lists[0]
    flops = 2 * sum(tensor.numel() for tensor in tensors)
    with Choices.counter.kernel(NORM_OF_GRADIENTS, OTHER, flops, *tensors):
        return torch.empty(1), None


def _scale(size: int, flag: torch.Tensor, lists: Any, *arguments: Any) -> None:
    tensors = [tensor for each in lists for tensor in each]
    with Choices.counter.kernel(NORM_OF_GRADIENTS, OTHER, 0, *tensors):
        pass


class Rope(torch.autograd.Function):
    """The fused rotation."""

    @staticmethod
    def forward(ctx: Any, t: torch.Tensor, freqs: torch.Tensor) -> torch.Tensor:
        with Choices.counter.kernel(ROPE, OTHER, 3 * t.numel(), t, t):
            return torch.empty(t.shape, dtype=t.dtype)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        with Choices.counter.kernel(ROPE, OTHER, 3 * grad.numel(), grad, grad):
            return torch.empty(grad.shape, dtype=grad.dtype), None


class Flash(torch.autograd.Function):
    """Flash attention, causal; with a context-parallel group, keys and values go around a ring."""

    @staticmethod
    def forward(ctx: Any, q: Any, k: Any, v: Any, group: Any, window: int | None) -> torch.Tensor:
        s, b, n, _ = q.shape
        parts = group.size()
        keys = _keys_per_query(k.shape[0] * parts, window)
        flops = int(2 * b * n * s * keys * (q.shape[-1] + v.shape[-1]))
        shape = (s, b, n, v.shape[-1])
        if parts > 1:
            k, v, out = _ring_forward(q, k, v, shape, group, flops)
        else:
            with Choices.counter.kernel(FLASH, ATTENTION, flops, q, k, v):
                out = torch.empty(shape, dtype=q.dtype)
        with Choices.counter.kernel(FLASH, OTHER, 0, out):
            sums = torch.empty(b, n, s, dtype=torch.float32)
        ctx.save_for_backward(q, k, v, out, sums)
        ctx.group, ctx.flops = group, flops
        return out

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        q, k, v, out, sums = ctx.saved_tensors
        counter, flops = Choices.counter, int(ctx.flops * BACKWARD_PRODUCTS)
        if ctx.group.size() > 1:
            return *_ring_backward(q, k, v, ctx.group, flops), None, None
        with counter.kernel(FLASH, ATTENTION, flops, q, k, v, out, grad, q, k, v):
            rows = torch.empty_like(sums)  # Sums of dO · O.
            # One gradient per query head; they are summed afterwards.
            grouped = k.shape[2] != q.shape[2]
            wide = torch.empty(2, *q.shape, dtype=q.dtype) if grouped else None
            sums_of_dq = torch.empty(_splits(q), *q.shape, dtype=torch.float32)
        del rows, wide, sums_of_dq
        return *_gradients(q, k, v), None, None


def _gradients(*inputs: torch.Tensor) -> list[torch.Tensor]:
    with Choices.counter.kernel(FLASH, OTHER, 0):
        return [torch.empty(each.shape, dtype=each.dtype) for each in inputs]


def _splits(q: torch.Tensor) -> int:
    """Return how many sums of the query's gradient there are: more if their order must not vary."""
    if Choices.attention is not Attention.FLASH or os.environ.get(NONDETERMINISTIC, "1") != "0":
        return 1
    processors = torch.cuda.get_device_properties().multi_processor_count
    return -(-processors // (q.shape[1] * q.shape[2]))


def _keys_per_query(length: int, window: int | None) -> float:
    """Return the mean number of keys that a query attends to."""
    if window is None or window >= length:
        return length / 2
    return window - window * window / (2 * length)


def _ring_forward(
    q: Any, k: Any, v: Any, shape: tuple[int, ...], group: Any, flops: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Attend to the keys of one rank after another; keep the last buffer, and not the inputs."""
    counter, parts, rank = Choices.counter, group.size(), group.rank()
    with counter.kernel(RING, OTHER, 0, k, v, k, v):
        buffers = [torch.cat([k.flatten(), v.flatten()])]
    works: list[Any] = []
    outputs = []
    for step in range(parts):
        _wait(works)
        if step < parts - 1:
            with counter.kernel(RING, OTHER, 0):
                buffers.append(torch.empty_like(buffers[step]))
            works = _start_exchange(buffers[step], buffers[step + 1], group)
        with counter.kernel(RING, ATTENTION, flops // parts, q, k, v):
            # Only the second half of the queries is after the keys of a later rank.
            rows = shape[0] if step <= rank else shape[0] // 2
            outputs.append(torch.empty(rows, *shape[1:], dtype=q.dtype))
    with counter.kernel(RING, OTHER, 0, *outputs):
        out = torch.empty(shape, dtype=q.dtype)
    last, keys = buffers[-1], k.numel()
    return last[:keys].view(k.shape), last[keys:].view(v.shape), out


def _ring_backward(q: Any, k: Any, v: Any, group: Any, flops: int) -> list[torch.Tensor]:
    """Send keys and values around the ring once more, and their gradients after them."""
    counter, parts = Choices.counter, group.size()
    whole = k.numel() + v.numel()
    with counter.kernel(RING, OTHER, 0, k, v, k, v):
        queries = torch.empty_like(q)
        buffers = [torch.empty(2, whole, dtype=k.dtype) for _ in range(2)]
    works: list[Any] = []
    for step in range(parts):
        _wait(works)
        sent, received = buffers[step % 2], buffers[(step + 1) % 2]
        if step == 0:
            sent, received = sent[0], received[0]
        elif step == parts - 1:
            sent, received = sent[1], received[1]
        works = _start_exchange(sent, received, group)
        with counter.kernel(RING, ATTENTION, flops // parts, q, k, v, q, k, v):
            own = [torch.empty(each.shape, dtype=each.dtype) for each in (q, k, v)]
        _wait(works)
        del own
    with counter.kernel(RING, OTHER, 0):
        return [queries, torch.empty(k.shape, dtype=k.dtype), torch.empty(v.shape, dtype=v.dtype)]


def _start_exchange(sent: torch.Tensor, received: torch.Tensor, group: Any) -> list[Any]:
    """Send to the next rank of the ring, and receive from the one before."""
    ranks = torch.distributed.get_process_group_ranks(group)
    own = group.rank()
    after, before = ranks[(own + 1) % len(ranks)], ranks[own - 1]
    operations = [
        (torch.distributed.isend, sent, after),
        (torch.distributed.irecv, received, before),
    ]
    if own % 2:
        operations.reverse()
    if len(ranks) == 2:
        return list(
            torch.distributed.batch_isend_irecv(
                [
                    torch.distributed.P2POp(each, tensor, peer, group)
                    for each, tensor, peer in operations
                ]
            )
        )
    return [each(tensor, peer, group) for each, tensor, peer in operations]


def _wait(works: list[Any]) -> None:
    while works:
        works.pop(0).wait()


class FusedNorm(torch.autograd.Function):
    """LayerNorm or RMSNorm in one kernel."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, *parameters: torch.Tensor) -> torch.Tensor:
        with Choices.counter.kernel(NORM, OTHER, 5 * x.numel(), x, x):
            rows = torch.empty(len(parameters), *x.shape[:-1], dtype=torch.float32)
            ctx.save_for_backward(x, rows, *parameters)
            return torch.empty(x.shape, dtype=x.dtype)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        x, _, *parameters = ctx.saved_tensors
        with Choices.counter.kernel(NORM, OTHER, 8 * x.numel(), x, x, grad):
            return torch.empty(x.shape, dtype=x.dtype), *map(torch.empty_like, parameters)
