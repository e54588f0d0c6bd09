# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Create the input of the search from a spec and the catalog."""

from collections.abc import Callable
from dataclasses import dataclass

from seatrial.catalog.accelerators import Accelerator
from seatrial.catalog.catalog import Catalog
from seatrial.catalog.node_types import NodeType
from seatrial.planning.attention import attended_share, core_width
from seatrial.planning.engine_limits import EngineLimits
from seatrial.planning.layout import Layout
from seatrial.planning.options import OptionChooser, Options
from seatrial.planning.parameters import active_parameters, padded_vocab_size
from seatrial.planning.plan import Machines
from seatrial.planning.resolve import Basis
from seatrial.planning.search.candidates import Candidate, Shape
from seatrial.planning.workload import Hardware, Workload
from seatrial.spec.model import Architecture
from seatrial.spec.parallelism import ParallelismSpec, Recompute
from seatrial.spec.scalars import AUTO, Auto
from seatrial.spec.training import Muon, Optimizer, OptimizerName, Precision


def allow_all(_shape: Shape, _recompute: Recompute) -> bool:
    """Return True: the spec sets no options."""
    return True


@dataclass(frozen=True, slots=True)
class SearchProblem:
    """The input of the search; fields that are not `auto` are fixed."""

    model: Architecture
    """Every dimension of the model."""
    sequence_length: int
    """Tokens per sequence."""
    world_size: int
    """Number of ranks."""
    per_node: int
    """Ranks per node."""
    given: ParallelismSpec
    """The parallelism section: numbers are fixed, `auto` is searched."""
    micro_batch_size: int | Auto
    """The micro-batch size, or `auto`."""
    global_batch_size: int | Auto
    """The global batch size, or `auto`."""
    target_batch: int
    """The target of an `auto` global batch size."""
    precision: Precision
    """Number format of the GEMMs."""
    limits: EngineLimits
    """The capabilities of the engine."""
    hardware: Hardware | None
    """The GPUs and their interconnect; None on a host without GPUs."""
    hidden_dropout: bool = False
    """True if there is dropout on the residual stream."""
    groups_within_node: bool = False
    """True if tensor, context and expert parallel groups must not span nodes."""
    muon_steps: int = 0
    """Newton-Schulz iterations of Muon; 0 for AdamW alone."""
    early_batches: tuple[int, ...] = ()
    """The smaller batch sizes at the start of the run."""
    options: Callable[[Candidate], Options | None] = lambda _: None
    """Return the performance options of a candidate; None if the engine has none."""
    allows: Callable[[Shape, Recompute], bool] = allow_all
    """Return True if the engine accepts the options in the spec with a layout."""

    @property
    def output_layers(self) -> float:
        """The cost of what only the last stage computes, in layers, by matrix multiplications.

        This is the logits and, with multi-token prediction, more layers, each with logits.
        """
        model = self.model
        layer = active_parameters(model.replace(mtp_layers=0), 0) / model.layers
        attention = self.sequence_length * model.heads * core_width(model)
        layer += attention * attended_share(model, self.sequence_length)
        logits = model.hidden_size * model.vocab_size / layer
        joined = 2 * model.hidden_size * model.hidden_size / layer
        return logits + model.mtp_layers * (logits + joined + 1)

    def padded_vocab(self, tp_size: int) -> int:
        """Return the vocabulary size with the engine's padding."""
        return padded_vocab_size(self.model.vocab_size, tp_size, self.limits.vocab_multiple)

    def workload(self, candidate: Candidate, hardware: Hardware) -> Workload:
        """Return a candidate as input of the memory and time models."""
        layout = candidate.shape.layout
        return Workload(
            model=self.model,
            sequence_length=self.sequence_length,
            padded_vocab_size=self.padded_vocab(layout.tp_size),
            layout=layout,
            stages=candidate.shape.stages,
            sequence_parallel=candidate.shape.sequence_parallel,
            sharding=candidate.shape.sharding,
            recompute=candidate.recompute,
            micro_batch_size=candidate.micro_batch_size,
            micro_batches=_micro_batches(candidate, layout),
            precision=self.precision,
            hardware=hardware,
            stack=self.limits.stack,
            hidden_dropout=self.hidden_dropout,
            gradient_bytes=self.limits.gradient_bytes,
            recompute_modules=frozenset(self.given.recompute_modules),
            narrow_weights=self.limits.narrow_weights,
            muon_steps=self.muon_steps,
            options=self.options(candidate),
            # Fused attention kernels only support 16-bit formats.
            flash_attention=self.precision is not Precision.FP32,
        )


def _micro_batches(candidate: Candidate, layout: Layout) -> int:
    """Return the number of micro-batches per step on each data-parallel rank."""
    return candidate.global_batch_size // (candidate.micro_batch_size * layout.dp_size)


USUAL_TOKENS = 4 << 20
"""Tokens per step for a model without a published batch size, from Llama 2 (arXiv 2307.09288,
table 1: 4M)."""
GIB = 1 << 30
SLOWEST_GBIT_S = 1.0
"""The network bandwidth of nodes without a bandwidth in the catalog: Ethernet."""


def problem_of(basis: Basis) -> SearchProblem:
    """Return the search input for the fields that a spec leaves to the planner."""
    spec = basis.loaded.spec
    machines, training = basis.machines, spec.training
    batch = training.global_batch_size
    return SearchProblem(
        model=basis.architecture,
        sequence_length=basis.sequence_length,
        world_size=machines.world_size,
        per_node=machines.processes_per_node,
        given=spec.parallelism,
        micro_batch_size=training.micro_batch_size,
        global_batch_size=batch,
        early_batches=tuple(early.global_batch_size for early in training.batch_schedule),
        target_batch=target_batch(basis) if batch == AUTO else int(batch),
        precision=training.precision,
        limits=basis.limits,
        hardware=hardware_of(machines, training.precision, basis.catalog),
        hidden_dropout=training.hidden_dropout > 0,
        groups_within_node=basis.catalog.node_type(machines.node_type).links_nodes,
        muon_steps=_muon_steps(training.optimizer),
        options=_chosen(basis.option_chooser()) if basis.limits.options else lambda _: None,
        allows=_allowed(basis.option_chooser()),
    )


def _allowed(chooser: OptionChooser) -> Callable[[Shape, Recompute], bool]:
    """Return a predicate: whether a layout allows the options in the spec."""
    if not chooser.given:
        return allow_all
    return lambda shape, recompute: chooser.allows(
        shape.layout,
        sequence_parallel=shape.sequence_parallel,
        sharding=shape.sharding,
        recompute=recompute,
    )


def _chosen(chooser: OptionChooser) -> Callable[[Candidate], Options]:
    """Return the function that chooses the options of a candidate."""
    return lambda candidate: chooser.options(
        candidate.shape.layout,
        sequence_parallel=candidate.shape.sequence_parallel,
        sharding=candidate.shape.sharding,
        recompute=candidate.recompute,
    )


def _muon_steps(optimizer: Optimizer) -> int:
    """Return the Newton-Schulz iterations of Muon; 0 for AdamW alone."""
    if optimizer.name is not OptimizerName.MUON:
        return 0
    return (optimizer.muon or Muon()).newton_schulz_steps


def measured_on(basis: Basis) -> dict[str, str]:
    """Return the properties, besides the layout, for which a calibration is valid."""
    machines, spec = basis.machines, basis.loaded.spec
    return {
        "accelerator": machines.accelerator,
        "node_type": machines.node_type,
        "fabric": machines.fabric,
        "engine": str(spec.engine.name),
        "precision": str(spec.training.precision),
    }


def target_batch(basis: Basis) -> int:
    """Return the target global batch size: from the published tokens, or a typical number."""
    tokens = basis.published_tokens or USUAL_TOKENS
    return max(1, round(tokens / basis.sequence_length))


def hardware_of(machines: Machines, precision: Precision, catalog: Catalog) -> Hardware | None:
    """Return the run's GPUs and their interconnect; None on a host without GPUs."""
    if not machines.accelerator:
        return None
    node = catalog.node_type(machines.node_type)
    if node.links_nodes:
        # Pods do not get NVLink between nodes (layout_rules.check_node_links).
        node = node.model_copy(update={"link_domain_gpus": node.gpus})
    return hardware(
        machines.accelerator, catalog.accelerator(machines.accelerator), node, precision
    )


def hardware(name: str, gpu: Accelerator, node: NodeType, precision: Precision) -> Hardware:
    """Return the catalog's facts in the units that the models use."""
    return Hardware(
        accelerator=name,
        memory_bytes=int(gpu.usable_memory_gib * GIB),
        peak_flops=peak_tflops(gpu, precision) * 1e12,
        peak_flops_bf16=gpu.peak_tflops.bf16 * 1e12,
        memory_bandwidth=gpu.memory_bandwidth_gb_s * 1e9,
        # The catalog states the sum of both directions.
        link_bandwidth=gpu.link_bandwidth_gb_s * 1e9 / 2,
        link_domain_gpus=node.link_domain_gpus,
        gpus_per_node=node.gpus,
        network_bandwidth=max(node.network_gbit_s, SLOWEST_GBIT_S) * 1e9 / 8 / node.gpus,
    )


def peak_tflops(gpu: Accelerator, precision: Precision) -> float:
    """Return the peak rate of matrix multiplications in a precision, which the GPU supports."""
    rates = gpu.peak_tflops
    by_precision = {
        Precision.FP32: rates.fp32,
        Precision.FP16: rates.fp16,
        Precision.BF16: rates.bf16,
        Precision.FP8: rates.fp8,
        Precision.MXFP8: rates.fp8,
        Precision.NVFP4: rates.fp4,
    }
    return by_precision[precision] or rates.bf16
