# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The effect of performance options on the step time.

The constants were fitted to tuned runs (NVIDIA's recipes), so they already contain the options of
those runs (`fitted_options`). An option that differs from them changes the constants. No published
pair of runs measures most of these changes: some are counted (kernels, bytes), some assumed. The
error bar therefore covers the whole difference to the fitted options (`timing/error_bars.py`).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from seatrial.planning.memory.activations import layer_activations
from seatrial.planning.memory.constants import constants as memory_constants
from seatrial.planning.options import NAMES, Options
from seatrial.planning.timing.matrix_products import layer_products
from seatrial.planning.timing.optimizer_update import ADAM_BYTES, update_bytes
from seatrial.planning.timing.rates import Rates
from seatrial.planning.timing.traffic import StageCounts, rank_parameters
from seatrial.planning.workload import Workload
from seatrial.spec.performance import CudaGraphs, MomentPrecision, TokenDispatcher

UNHIDDEN = 0.8
"""Fraction of a link's data-sheet rate that a collective reaches at most. A fitted fraction above
it means that compute hides the rest."""
KERNEL = 5.0e-6
"""Seconds that the host needs to start a kernel."""
ROUTER_KERNELS = 41
"""Kernels that fused routing saves per layer and pass: 31 instead of 72 (Megatron-LM
docs/discussions, DeepSeek-V3 on GB200)."""
EXPERT_KERNELS = 3
"""Kernels of an expert that is not grouped with the others: two products and an activation."""
DENSE_GRAPHED, MOE_GRAPHED = 0.9, 0.5
"""Fraction of a layer's kernels in a graph. The experts are outside it."""
OVERLAPPED_EXCHANGE = 0.37
"""Fraction of the exchange with experts that overlaps with compute: 36.55 % in a profile of
Qwen3-30B-A3B on 16 H100 (Megatron-Bridge@067f987d, skill on communication overlap)."""
UNFUSED_LOSS = 2.5
"""Bytes that the loss moves without a fused kernel, relative to a fused one (counted in
`core/tensor_parallel/cross_entropy.py` of megatron-core 0.19.2)."""
UNFUSED_LAYERS = 2.0
"""As `UNFUSED_LOSS`, for biases, activations, dropout and rotary embeddings."""
HALF_MOMENT_BYTES = 8
"""Bytes per parameter that an update with moments in bf16 does not read and write."""
HOST_UPDATE = 50e9
"""Bytes/s at which the host updates the optimizer state of one GPU; assumed. The update, not the
transfer, takes most of the time (Megatron-Bridge@067f987d docs/training/cpu-offloading.md)."""
HOST_LINK = 25e9
"""Bytes/s that one GPU reaches to the host's memory: PCIe 4.0, 16 lanes."""


def fitted_options(workload: Workload) -> Options:
    """Return the options that the runs had which were fitted.

    Of 306 performance recipes in Megatron-Bridge@067f987d: overlap of gradients in 296 and of
    parameters in 291, fused loss in 290, grouped experts in all with experts. Tensor overlap in
    most without experts; graphs in most with experts, on Blackwell; DeepEP or HybridEP in 150 of
    195 with experts, on Blackwell in most.
    """
    layout, moe = workload.layout, workload.model.moe
    newer = workload.hardware.accelerator.startswith(("b", "gb"))
    flex = moe is not None and layout.ep_size > 1 and newer
    return Options(
        gradient_overlap=True,
        parameter_overlap=True,
        tensor_overlap=moe is None,
        pipeline_overlap=True,
        grouped_experts=True,
        fused_routing=True,
        fused_loss=True,
        fused_layers=True,
        token_dispatcher=TokenDispatcher.HYBRIDEP if flex else TokenDispatcher.ALLTOALL,
        cuda_graphs=CudaGraphs.LAYERS if moe is not None and newer else CudaGraphs.NONE,
    )


@dataclass(frozen=True, slots=True)
class Effect:
    """What changes if an option differs from the fitted one."""

    option: str
    applies: Callable[[Workload], bool]
    """True if the option matters for a workload."""
    rates: Callable[[Rates, Workload, Options], Rates]
    """Return the changed constants."""
    source: str
    """Where the size of the change is from."""


def _replicated(workload: Workload) -> bool:
    return workload.layout.dp_size * workload.layout.cp_size > 1


def _exchanges(workload: Workload) -> bool:
    return workload.model.moe is not None and workload.layout.ep_size > 1


def _has_experts(workload: Workload) -> bool:
    return workload.model.moe is not None


def _always(_: Workload) -> bool:
    return True


def _tensor(rates: Rates, _: Workload, options: Options) -> Rates:
    """Without overlap, collectives reach no more than the link does; with it, about twice that."""
    if options.tensor_overlap:
        return replace(
            rates,
            tensor_link=max(rates.tensor_link, 2 * UNHIDDEN),
            tensor_network=max(rates.tensor_network, 2 * UNHIDDEN),
        )
    return replace(
        rates,
        tensor_link=min(rates.tensor_link, UNHIDDEN),
        tensor_network=min(rates.tensor_network, UNHIDDEN),
    )


def _gather(rates: Rates, workload: Workload, _: Options) -> Rates:
    """Without overlap, and with experts, the engine gathers all weights twice.

    Each of its two optimizers synchronizes all buckets (Mixtral 8x7B, counted with a trace of
    megatron-core 0.19.2).
    """
    return replace(rates, gather_overlap=-1.0 if workload.model.moe is not None else 0.0)


def _hide_exchange(rates: Rates, hidden: float) -> Rates:
    shown = 1 - hidden
    return replace(
        rates,
        expert_link=rates.expert_link / shown,
        expert_network=rates.expert_network / shown,
        expert_latency=rates.expert_latency * shown,
    )


def _shared(rates: Rates, workload: Workload, _: Options) -> Rates:
    """The exchange overlaps with the shared experts, which take a part of its time."""
    moe, layout, hardware = workload.model.moe, workload.layout, workload.hardware
    if moe is None:
        return rates
    tokens = workload.micro_batch_size * workload.sequence_length / layout.cp_size
    shared = layer_products(workload, tokens).shared.flops / (hardware.peak_flops * rates.matrix)
    sent = 2.0 * tokens / layout.tp_size * moe.top_k * workload.model.hidden_size
    outside = layout.ep_size * layout.etp_size > hardware.link_domain_gpus
    speed = (
        hardware.network_bandwidth * rates.expert_network
        if outside
        else hardware.link_bandwidth * rates.expert_link
    )
    # Two exchanges per pass; at most half of them, because the combination follows the experts.
    return _hide_exchange(rates, min(0.5, shared / (2 * sent / speed)))


def _dispatcher(rates: Rates, workload: Workload, options: Options) -> Rates:
    """DeepEP sends a token once to each node with one of its experts, instead of once per expert.

    With `n` nodes and `k` experts per token, that is n (1 - (1 - 1/n)^k) times on average.
    """
    moe, layout = workload.model.moe, workload.layout
    if moe is None:
        return rates
    nodes = max(1.0, layout.ep_size * layout.etp_size / workload.hardware.link_domain_gpus)
    sent = nodes * (1 - (1 - 1 / nodes) ** moe.top_k)
    fewer = moe.top_k / sent
    if options.token_dispatcher in (TokenDispatcher.ALLTOALL, TokenDispatcher.ALLGATHER):
        fewer = 1 / fewer
    return replace(rates, expert_network=rates.expert_network * fewer)


def _graphs(rates: Rates, workload: Workload, options: Options) -> Rates:
    """Kernels in a graph start without the host."""
    kept = 1 - (DENSE_GRAPHED if workload.model.moe is None else MOE_GRAPHED)
    change = 1 / kept if options.cuda_graphs is CudaGraphs.NONE else kept
    if workload.model.moe is None:
        return replace(rates, launch=rates.launch * change)
    return replace(rates, moe_launch=rates.moe_launch * change)


EFFECTS = (
    Effect(
        "gradient_overlap",
        _replicated,
        lambda rates, _, __: replace(rates, data_overlap=0.0),
        "exact: nothing is hidden",
    ),
    Effect("parameter_overlap", _replicated, _gather, "exact; twice with experts, counted"),
    Effect(
        "tensor_overlap",
        lambda workload: workload.layout.tp_size > 1,
        _tensor,
        f"assumed: at most {UNHIDDEN:.0%} of the link's rate",
    ),
    Effect(
        "pipeline_overlap",
        lambda workload: workload.layout.vp_size > 1,
        lambda rates, _, __: replace(rates, transfer_overlap=0.0),
        "exact: nothing is hidden",
    ),
    Effect(
        "expert_overlap",
        _exchanges,
        lambda rates, _, __: _hide_exchange(rates, OVERLAPPED_EXCHANGE),
        "one profile: 36.55 % hidden",
    ),
    Effect("shared_expert_overlap", _exchanges, _shared, "computed: the shared experts' time"),
    Effect("token_dispatcher", _exchanges, _dispatcher, "computed: copies of a token per node"),
    Effect(
        "grouped_experts",
        _has_experts,
        lambda rates, _, __: replace(
            rates, expert_launch=rates.expert_launch + EXPERT_KERNELS * KERNEL
        ),
        "counted kernels",
    ),
    Effect(
        "fused_routing",
        _has_experts,
        lambda rates, _, __: replace(
            rates, moe_launch=rates.moe_launch + ROUTER_KERNELS * KERNEL / rates.launch
        ),
        "counted kernels",
    ),
    Effect(
        "fused_loss",
        _always,
        lambda rates, _, __: replace(rates, loss=rates.loss / UNFUSED_LOSS),
        "counted bytes",
    ),
    Effect(
        "fused_layers",
        _always,
        lambda rates, _, __: replace(rates, elementwise=rates.elementwise / UNFUSED_LAYERS),
        "assumed bytes",
    ),
    Effect("cuda_graphs", _always, _graphs, "assumed share of the kernels"),
    Effect(
        "moments",
        _always,
        lambda rates, _, options: (
            replace(
                rates, optimizer=rates.optimizer * ADAM_BYTES / (ADAM_BYTES - HALF_MOMENT_BYTES)
            )
            if options.moments is MomentPrecision.BF16
            else rates
        ),
        "counted bytes",
    ),
)
"""The effects on constants; those of offloading are seconds (`host_seconds`)."""


def differing(workload: Workload) -> tuple[str, ...]:
    """Return the options that matter for a workload and differ from those of the fitted runs."""
    options = workload.options
    if options is None:
        return ()
    fitted = fitted_options(workload)
    matter = {effect.option for effect in EFFECTS if effect.applies(workload)}
    matter |= {"optimizer_offload", "activation_offload"}
    return tuple(
        name
        for name in NAMES
        if name in matter and _kind(getattr(options, name)) != _kind(getattr(fitted, name))
    )


def _kind(value: object) -> object:
    """Return the value, with dispatchers that send the same amounts as one."""
    return TokenDispatcher.DEEPEP if value is TokenDispatcher.HYBRIDEP else value


def with_options(rates: Rates, workload: Workload) -> Rates:
    """Return the constants for the options of a workload."""
    options = workload.options
    if options is None:
        return rates
    names = differing(workload)
    for effect in EFFECTS:
        if effect.option in names:
            rates = effect.rates(rates, workload, options)
    return rates


def host_seconds(workload: Workload, counts: StageCounts) -> float:
    """Return the seconds per step that offloading to the host adds."""
    options, seconds = workload.options, 0.0
    if options is None:
        return seconds
    if options.optimizer_offload:
        bytes_moved = update_bytes(workload, rank_parameters(workload, counts))
        seconds += options.optimizer_offload * bytes_moved / HOST_UPDATE
    if options.activation_offload:
        layer = layer_activations(workload, memory_constants(workload.stack))
        moved = 2 * options.activation_offload * max(layer.kept, layer.kept_expert)
        seconds += workload.micro_batches * moved / HOST_LINK
    return seconds
