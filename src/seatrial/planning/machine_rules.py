# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Rules for the machines, network, image and storage of a spec."""

from seatrial.catalog.accelerators import Accelerator
from seatrial.catalog.catalog import Catalog, Kind
from seatrial.catalog.node_types import NodeType
from seatrial.catalog.storage import StorageTier
from seatrial.codes.planning import PlanCode
from seatrial.errors import NotInCatalogError
from seatrial.planning.finding_report import FindingReport
from seatrial.spec.cluster import ClusterSpec
from seatrial.spec.parallelism import Sharding
from seatrial.spec.training import Precision
from seatrial.units import format_bytes

TIB = 1 << 40
GIB = 1 << 30

_VARIANTS = {"infiniband": ("infiniband-sharp",)}
"""Networks that use the same hardware as a different network."""
_NEEDS = {Precision.FP8: "fp8", Precision.MXFP8: "fp8", Precision.NVFP4: "fp4"}
"""The peak rate that an accelerator must have for a precision."""


def check_precision(
    report: FindingReport, precision: Precision, name: str, gpu: Accelerator
) -> None:
    """Check that the GPUs support the precision."""
    rates = gpu.peak_tflops
    blackwell_only = precision is Precision.MXFP8 and rates.fp4 is None
    need = _NEEDS.get(precision)
    if (need is not None and getattr(rates, need) is None) or blackwell_only:
        report.error(
            PlanCode.PRECISION,
            "training.precision",
            f"{name} does not support {precision}.",
            precision,
            "Use bf16." if rates.fp8 is None else "Use bf16 or fp8.",
        )


def check_host_only(report: FindingReport, cluster: ClusterSpec, profile: str) -> None:
    """Reject fields that only apply to a run on this host."""
    if cluster.accelerator is not None:
        report.error(
            PlanCode.NODE_TYPE,
            "cluster.accelerator",
            f"the node type defines the GPUs of a cluster of profile {profile}.",
            cluster.accelerator,
            "Remove the line, and set cluster.node_type.",
        )
    if cluster.container is not None:
        report.error(
            PlanCode.NODE_TYPE,
            "cluster.container",
            f"a cluster of profile {profile} has its own container runtime.",
            cluster.container,
            "Remove the line.",
        )


def require_gpu_count(report: FindingReport, cluster: ClusterSpec, accelerator: str) -> None:
    """Check that the spec states how many GPUs of this kind the host has."""
    if cluster.processes_per_node is None:
        report.error(
            PlanCode.PROCESSES,
            "cluster.processes_per_node",
            f"the number of {accelerator} GPUs of this host is not set.",
            "",
            "Set cluster.processes_per_node to the number of GPUs to use.",
        )


def report_unknown_gpu(report: FindingReport, name: str) -> None:
    """Warn that the catalog has no facts about the GPU of this host."""
    report.warning(
        PlanCode.NAME,
        "cluster.accelerator",
        f"this host has {name}, which is not in the catalog. Memory and step time are not "
        "predicted, and the run trains on CPUs.",
        name,
        "Add it to accelerators.toml of your own catalog, or set cluster.accelerator to the most "
        "similar GPU: seatrial catalog list accelerators.",
    )


def check_fabric(report: FindingReport, fabric: str, node_name: str, node: NodeType) -> None:
    """Check that the nodes have the network."""
    variants = _VARIANTS.get(node.fabric, ())
    fitting = dict.fromkeys((node.fabric, *variants, *node.other_fabrics, "none"))
    if fabric not in fitting:
        report.error(
            PlanCode.FABRIC,
            "cluster.fabric",
            f"{node_name} nodes have no {fabric} network.",
            fabric,
            f"Use one of: {', '.join(fitting)}.",
        )


def check_image(report: FindingReport, image: str, engine: str, catalog: Catalog) -> None:
    """Check that the image is a reference, or an image in the catalog for this engine."""
    try:
        found = catalog.image(image)
    except NotInCatalogError as error:
        if ":" not in image and "@" not in image:
            rule = f"{image!r} is not an image in the catalog, and has no tag or digest."
            fix = f"Write REPOSITORY:TAG. {error.fix}"
            report.error(PlanCode.IMAGE, "cluster.image", rule, image, fix)
        return
    if found.engine != engine:
        fitting = [
            name for name in catalog.names(Kind.IMAGES) if catalog.image(name).engine == engine
        ]
        report.error(
            PlanCode.IMAGE,
            "cluster.image",
            f"{image} is for {found.engine}, but the engine is {engine}.",
            image,
            f"Use one of: {', '.join(fitting)}.",
        )


def check_capacity(report: FindingReport, capacity: int, name: str, tier: StorageTier) -> None:
    """Check that the storage tier offers volumes of this size."""
    least = int((tier.min_tib or 0) * TIB)
    step = int((tier.step_tib or 0) * TIB)
    if capacity >= least and (not step or (capacity - least) % step == 0):
        return
    steps = max(0, -(-(capacity - least) // step)) if step else 0
    fitting = least + steps * step
    size = f"{fitting // GIB}Gi" if fitting % TIB else f"{fitting // TIB}Ti"
    rule = f"{name} offers {format_bytes(least)} plus multiples of {format_bytes(step)}."
    if not step:
        rule = f"{name} offers {format_bytes(least)} or more."
    report.error(
        PlanCode.CAPACITY, "cluster.storage.capacity", rule, format_bytes(capacity), f"Use {size}."
    )


def state_bytes(parameters: int, sharding: Sharding, copies: int) -> int:
    """Return the size of weights, gradients and optimizer state on a rank.

    Megatron's mixed precision takes 18 bytes per parameter. The data-parallel ranks shard the 12
    bytes of the optimizer or, with FSDP, all 18 bytes.
    """
    if sharding is Sharding.FSDP:
        return parameters * 18 // copies
    if sharding is Sharding.OPTIMIZER:
        return parameters * 6 + parameters * 12 // copies
    return parameters * 18


def check_state(report: FindingReport, state: int, name: str, gpu: Accelerator) -> None:
    """Warn if the state alone exceeds the memory of the GPU, before activations are estimated."""
    memory = int(gpu.usable_memory_gib * GIB)
    if state > memory:
        report.warning(
            PlanCode.STATE,
            "parallelism",
            f"weights, gradients and optimizer state alone take about {format_bytes(state)}, but "
            f"{name} has {format_bytes(memory)}.",
            format_bytes(state),
            "Use a larger tp_size or pp_size, more nodes, or sharding: fsdp.",
        )
