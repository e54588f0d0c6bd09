# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""From a spec and the catalog to the question that the search answers."""

from seatrial.catalog.accelerators import Accelerator
from seatrial.catalog.catalog import Catalog
from seatrial.catalog.models import ModelPreset
from seatrial.catalog.node_types import NodeType
from seatrial.planning.plan import Machines
from seatrial.planning.resolve import Basis
from seatrial.planning.search.problem import Problem
from seatrial.planning.workload import Hardware
from seatrial.spec.engine import EngineName
from seatrial.spec.run import RunSpec
from seatrial.spec.scalars import AUTO
from seatrial.spec.training import Precision

USUAL_TOKENS = 4 << 20
"""Tokens of a step for a model whose authors published no batch: those of Llama 2
(arXiv 2307.09288, table 1: 4M)."""
GIB = 1 << 30
NARROW_WEIGHTS = frozenset({"fp8-param-gather", "fp4-param-gather"})
"""Options of Megatron that leave no copy of a weight in 16 bits."""
SLOWEST_GBIT_S = 1.0
"""The network of nodes for which the catalog states none: any Ethernet."""


def problem_of(spec: RunSpec, basis: Basis, catalog: Catalog) -> Problem:
    """The search for the fields that a spec leaves to the planner."""
    machines, training = basis.machines, spec.training
    batch = training.global_batch_size
    return Problem(
        model=basis.architecture,
        sequence_length=basis.sequence_length,
        world_size=machines.world_size,
        per_node=machines.processes_per_node,
        given=spec.parallelism,
        micro_batch_size=training.micro_batch_size,
        global_batch_size=batch,
        target_batch=target_batch(basis) if batch == AUTO else int(batch),
        precision=training.precision,
        engine=spec.engine.name,
        hardware=hardware_of(machines, training.precision, catalog),
        hidden_dropout=training.hidden_dropout > 0,
        gradient_bytes=gradient_bytes(spec),
        narrow_weights=not NARROW_WEIGHTS.isdisjoint(_switches(spec)),
    )


def gradient_bytes(spec: RunSpec) -> int:
    """Bytes of a gradient while it is accumulated.

    Megatron accumulates in fp32 with bf16 and the formats below it, unless told otherwise, and in
    fp16 with fp16 (`megatron/training/arguments.py` of 0.19.2).
    """
    options = _switches(spec)
    halved = "grad-reduce-in-bf16" in options
    if spec.training.precision is Precision.FP16:
        halved = "accumulate-allreduce-grads-in-fp32" not in options
    return 2 if halved and spec.engine.name is EngineName.MEGATRON else 4


def _switches(spec: RunSpec) -> set[str]:
    """The engine's own options that a spec switches on."""
    return {name.replace("_", "-") for name, on in spec.engine.options.items() if on}


def measured_on(spec: RunSpec, basis: Basis) -> dict[str, str]:
    """What a measured step time depends on beside the layout: for what a calibration holds."""
    machines = basis.machines
    return {
        "accelerator": machines.accelerator,
        "node_type": machines.node_type,
        "fabric": machines.fabric,
        "engine": str(spec.engine.name),
        "precision": str(spec.training.precision),
    }


def target_batch(basis: Basis) -> int:
    """The global batch to come near to: as many tokens as published, or as is usual."""
    tokens = published_tokens(basis.preset[1] if basis.preset else None) or USUAL_TOKENS
    return max(1, round(tokens / basis.sequence_length))


def published_tokens(preset: ModelPreset | None) -> int:
    """Tokens of a step as the model's authors trained it; 0 when they do not say."""
    if preset is None or preset.global_batch_size is None:
        return 0
    return preset.global_batch_size * preset.sequence_length


def hardware_of(machines: Machines, precision: Precision, catalog: Catalog) -> Hardware | None:
    """The GPUs of a run and what joins them; nothing on a host without any."""
    if not machines.accelerator:
        return None
    node = catalog.node_type(machines.node_type)
    return hardware(
        machines.accelerator, catalog.accelerator(machines.accelerator), node, precision
    )


def hardware(name: str, gpu: Accelerator, node: NodeType, precision: Precision) -> Hardware:
    """The facts of the catalog in the units of the models."""
    return Hardware(
        accelerator=name,
        memory_bytes=int(gpu.usable_memory_gib * GIB),
        peak_flops=peak_tflops(gpu, precision) * 1e12,
        peak_flops_bf16=gpu.peak_tflops.bf16 * 1e12,
        memory_bandwidth=gpu.memory_bandwidth_gb_s * 1e9,
        # The catalog adds both directions.
        link_bandwidth=gpu.link_bandwidth_gb_s * 1e9 / 2,
        link_domain_gpus=node.link_domain_gpus,
        gpus_per_node=node.gpus,
        network_bandwidth=max(node.network_gbit_s, SLOWEST_GBIT_S) * 1e9 / 8 / node.gpus,
    )


def peak_tflops(gpu: Accelerator, precision: Precision) -> float:
    """The peak rate of matrix products in a precision; that it exists was checked before."""
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
