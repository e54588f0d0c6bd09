# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The effect of performance options on the step time.

The constants were fitted to tuned runs (NVIDIA's recipes), so they already contain the options of
those runs (`fitted_options`). An option that differs from them changes the constants. Published
runs with known options measure few of these changes (`backtest/option_fit.py`). Others are counted
(kernels, bytes) or assumed, and the error bar covers them whole (`timing/error_bars.py`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from seatrial.planning.memory.activations import layer_activations
from seatrial.planning.memory.constants import constants as memory_constants
from seatrial.planning.options import NAMES, Options
from seatrial.planning.timing.constants import GENERATIONS, generation
from seatrial.planning.timing.matrix_products import layer_products
from seatrial.planning.timing.optimizer_update import ADAM_BYTES, update_bytes
from seatrial.planning.timing.rates import Rates
from seatrial.planning.timing.traffic import StageCounts, rank_parameters
from seatrial.planning.workload import Workload
from seatrial.spec.performance import CudaGraphs, MomentPrecision, TokenDispatcher
from seatrial.spec.training import Precision

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
DENSE_GRAPHED = 0.9
"""Fraction of a dense layer's kernels in a graph; assumed."""
EXPERT_GRAPHS: Mapping[CudaGraphs, Mapping[str, float]] = {
    CudaGraphs.NONE: {},
    CudaGraphs.LAYERS: {"moe_launch": 1.07},
    CudaGraphs.STEP: {
        "moe_launch": 0.54,
        "expert_launch": 0.46,
        "expert_matrix": 1.70,
        "expert_network": 0.91,
        "routing": 1.13,
    },
}
"""Factors on the constants of layers with experts, relative to runs without graphs; fitted
(`python -m backtest.option_fit`). Published runs with a graph of the whole step also have fused
kernels for experts, which runs of Seatrial do not have: no row separates the two."""
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
HOST_LINKS = {"ampere": 25e9, "hopper": 50e9, "blackwell": 50e9}
"""Bytes/s that one GPU reaches to the host's memory: PCIe 4.0 and 5.0, 16 lanes."""
GRACE_LINK = 225e9
"""As `HOST_LINKS`, for GB200 and GB300: the 900 GB/s in both directions of NVLink-C2C, for two
GPUs."""
WHOLE_STEPS = ("b300", "gb200", "gb300")
"""GPUs whose newest published runs with experts in mxfp8 record the whole step."""


SWITCHED = ("h", "b", "gb")
"""How the names of GPUs begin whose NVSwitch has multicast, which tensor overlap needs."""


def fitted_options(workload: Workload) -> Options:
    """Return the options that the runs had which were fitted.

    Of 306 performance recipes in Megatron-Bridge@067f987d: overlap of gradients in 296 and of
    parameters in 291, fused loss in 290, grouped experts in all with experts. Tensor overlap in
    most without experts; GPUs before Hopper do not have it. The others are those that most labelled
    rows with the same constants have (`python -m backtest.option_labels` counts them).
    """
    layout, moe = workload.layout, workload.model.moe
    newer = workload.hardware.accelerator.startswith(("b", "gb"))
    flex = moe is not None and layout.ep_size > 1 and newer
    whole = (
        moe is not None
        and workload.hardware.accelerator.startswith(WHOLE_STEPS)
        and workload.precision in (Precision.MXFP8, Precision.NVFP4)
    )
    graphs = CudaGraphs.LAYERS if moe is not None and newer else CudaGraphs.NONE
    return Options(
        gradient_overlap=True,
        parameter_overlap=True,
        tensor_overlap=moe is None and workload.hardware.accelerator.startswith(SWITCHED),
        pipeline_overlap=True,
        expert_overlap=whole and layout.ep_size > 1,
        grouped_experts=True,
        fused_routing=True,
        fused_loss=True,
        fused_layers=True,
        token_dispatcher=TokenDispatcher.HYBRIDEP if flex else TokenDispatcher.ALLTOALL,
        cuda_graphs=CudaGraphs.STEP if whole else graphs,
    )


@dataclass(frozen=True, slots=True)
class Switch:
    """A workload with options other than those of the fitted runs."""

    workload: Workload
    options: Options
    fitted: Options


def never(_: Workload) -> bool:
    """Return False: no published row determines the size of an effect."""
    return False


@dataclass(frozen=True, slots=True)
class Effect:
    """What changes if an option differs from the fitted one."""

    option: str
    applies: Callable[[Workload], bool]
    """True if the option matters for a workload."""
    rates: Callable[[Rates, Switch], Rates]
    """Return the changed constants."""
    source: str
    """Where the size of the change is from."""
    is_fitted: Callable[[Workload], bool] = never
    """True if published rows with known options determine the size for a workload."""


def _replicated(workload: Workload) -> bool:
    return workload.layout.dp_size * workload.layout.cp_size > 1


def _exchanges(workload: Workload) -> bool:
    return workload.model.moe is not None and workload.layout.ep_size > 1


def _has_experts(workload: Workload) -> bool:
    return workload.model.moe is not None


def _always(_: Workload) -> bool:
    return True


def _tensor(rates: Rates, switch: Switch) -> Rates:
    """Without overlap, collectives reach no more than the link does; with it, about twice that."""
    if switch.options.tensor_overlap:
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


def _gather(rates: Rates, switch: Switch) -> Rates:
    """Without overlap, and with experts, the engine gathers all weights twice.

    Each of its two optimizers synchronizes all buckets (Mixtral 8x7B, counted with a trace of
    megatron-core 0.19.2).
    """
    return replace(rates, gather_overlap=-1.0 if switch.workload.model.moe is not None else 0.0)


def _hide_exchange(rates: Rates, hidden: float) -> Rates:
    shown = 1 - hidden
    return replace(
        rates,
        expert_link=rates.expert_link / shown,
        expert_network=rates.expert_network / shown,
        expert_latency=rates.expert_latency * shown,
    )


def _expert_overlap(rates: Rates, switch: Switch) -> Rates:
    if switch.options.expert_overlap:
        return _hide_exchange(rates, OVERLAPPED_EXCHANGE)
    return _hide_exchange(rates, 1 - 1 / (1 - OVERLAPPED_EXCHANGE))


def _shared(rates: Rates, switch: Switch) -> Rates:
    """The exchange overlaps with the shared experts, which take a part of its time."""
    workload = switch.workload
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


def sent_fewer(workload: Workload) -> float:
    """Return by which factor DeepEP reduces the traffic of experts between nodes.

    It sends a token once to each node with one of its experts, instead of once per expert. With `n`
    nodes and `k` experts per token, that is n (1 - (1 - 1/n)^k) times on average.
    """
    moe, layout = workload.model.moe, workload.layout
    if moe is None:
        return 1.0
    nodes = max(1.0, layout.ep_size * layout.etp_size / workload.hardware.link_domain_gpus)
    return moe.top_k / (nodes * (1 - (1 - 1 / nodes) ** moe.top_k))


def _dispatcher(rates: Rates, switch: Switch) -> Rates:
    fewer = sent_fewer(switch.workload)
    if switch.options.token_dispatcher in (TokenDispatcher.ALLTOALL, TokenDispatcher.ALLGATHER):
        fewer = 1 / fewer
    return replace(rates, expert_network=rates.expert_network * fewer)


def _graphs(rates: Rates, switch: Switch) -> Rates:
    """Kernels in a graph start without the host."""
    now, before = switch.options.cuda_graphs, switch.fitted.cuda_graphs
    if switch.workload.model.moe is None:
        kept = 1 - DENSE_GRAPHED
        change = 1 / kept if now is CudaGraphs.NONE else 1.0
        change *= kept if before is CudaGraphs.NONE else 1.0
        return replace(rates, launch=rates.launch * change)
    with_graphs, without = EXPERT_GRAPHS[now], EXPERT_GRAPHS[before]
    changed = {
        name: getattr(rates, name) * with_graphs.get(name, 1.0) / without.get(name, 1.0)
        for name in {**with_graphs, **without}
    }
    return replace(rates, **changed)


EFFECTS = (
    Effect(
        "gradient_overlap",
        _replicated,
        lambda rates, _: replace(rates, data_overlap=0.0),
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
        lambda rates, _: replace(rates, transfer_overlap=0.0),
        "exact: nothing is hidden",
    ),
    Effect("expert_overlap", _exchanges, _expert_overlap, "one profile: 36.55 % hidden"),
    Effect("shared_expert_overlap", _exchanges, _shared, "computed: the shared experts' time"),
    Effect("token_dispatcher", _exchanges, _dispatcher, "computed: copies of a token per node"),
    Effect(
        "grouped_experts",
        _has_experts,
        lambda rates, _: replace(
            rates, expert_launch=rates.expert_launch + EXPERT_KERNELS * KERNEL
        ),
        "counted kernels",
    ),
    Effect(
        "fused_routing",
        _has_experts,
        lambda rates, _: replace(
            rates, moe_launch=rates.moe_launch + ROUTER_KERNELS * KERNEL / rates.launch
        ),
        "counted kernels",
    ),
    Effect(
        "fused_loss",
        _always,
        lambda rates, _: replace(rates, loss=rates.loss / UNFUSED_LOSS),
        "counted bytes",
    ),
    Effect(
        "fused_layers",
        _always,
        lambda rates, _: replace(rates, elementwise=rates.elementwise / UNFUSED_LAYERS),
        "assumed bytes",
    ),
    Effect(
        "cuda_graphs",
        _always,
        _graphs,
        "with experts fitted; without, assumed share of the kernels",
        is_fitted=_has_experts,
    ),
    Effect(
        "moments",
        _always,
        lambda rates, switch: (
            replace(
                rates, optimizer=rates.optimizer * ADAM_BYTES / (ADAM_BYTES - HALF_MOMENT_BYTES)
            )
            if switch.options.moments is MomentPrecision.BF16
            else rates
        ),
        "counted bytes",
    ),
)
"""The effects on constants; those of offloading are seconds."""
HOST_SOURCE = "assumed rate of the host"
"""Where the seconds of offloading are from."""
OFFLOADS = ("optimizer_offload", "activation_offload")
ASSUMED = frozenset(
    {*OFFLOADS, *(effect.option for effect in EFFECTS if effect.source.startswith("assumed"))}
)
"""Options whose effect is neither fitted nor counted."""


def differing(workload: Workload, fitted: Options | None = None) -> tuple[str, ...]:
    """Return the options that matter for a workload and differ from those of the fitted runs."""
    options = workload.options
    if options is None:
        return ()
    fitted = fitted or fitted_options(workload)
    matter = {effect.option for effect in EFFECTS if effect.applies(workload)}
    matter |= {*OFFLOADS}
    return tuple(
        name
        for name in NAMES
        if name in matter and _kind(getattr(options, name)) != _kind(getattr(fitted, name))
    )


def without_data(workload: Workload, fitted: Options | None = None) -> tuple[str, ...]:
    """Return those of the differing options whose effect no published row determines."""
    known = {effect.option for effect in EFFECTS if effect.is_fitted(workload)}
    return tuple(name for name in differing(workload, fitted) if name not in known)


def _kind(value: object) -> object:
    """Return the value, with dispatchers that send the same amounts as one."""
    return TokenDispatcher.DEEPEP if value is TokenDispatcher.HYBRIDEP else value


def with_options(rates: Rates, workload: Workload, fitted: Options | None = None) -> Rates:
    """Return the constants for the options of a workload.

    `fitted` are the options of the runs that were fitted, if they are not `fitted_options`.
    """
    options = workload.options
    if options is None:
        return rates
    switch = Switch(workload, options, fitted or fitted_options(workload))
    names = differing(workload, switch.fitted)
    for effect in EFFECTS:
        if effect.option in names:
            rates = effect.rates(rates, switch)
    return rates


def host_update_seconds(workload: Workload, counts: StageCounts) -> float:
    """Return the seconds per step in which the host updates its part of the optimizer state."""
    if workload.options is None or not workload.options.optimizer_offload:
        return 0.0
    bytes_moved = update_bytes(workload, rank_parameters(workload, counts))
    return workload.options.optimizer_offload * bytes_moved / HOST_UPDATE


def host_transfer_seconds(workload: Workload) -> float:
    """Return the seconds per step in which activations are sent to the host and back.

    The engine sends them while it computes other layers, so a step is longer only if this takes
    longer than the computation.
    """
    if workload.options is None or not workload.options.activation_offload:
        return 0.0
    accelerator = workload.hardware.accelerator
    link = HOST_LINKS[GENERATIONS[generation(accelerator)]]
    layer = layer_activations(workload, memory_constants(workload.stack))
    moved = workload.options.activation_offload * max(layer.kept, layer.kept_expert)
    if accelerator.startswith("gb"):
        link = GRACE_LINK
    return 2 * workload.micro_batches * moved / link
