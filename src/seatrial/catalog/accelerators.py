# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Accelerators: memory, peak arithmetic rate, memory and link bandwidth."""

from pydantic import PositiveFloat

from seatrial.catalog.entry import Entry, Facts


class PeakTflops(Facts):
    """Dense peak rates (no structured sparsity), in TFLOP/s; absent where there is no hardware."""

    fp32: PositiveFloat
    """Single precision on the ordinary cores."""
    tf32: PositiveFloat | None = None
    """TF32 on the tensor cores."""
    fp16: PositiveFloat
    """Half precision on the tensor cores, fp32 accumulation."""
    bf16: PositiveFloat
    """bfloat16 on the tensor cores."""
    fp8: PositiveFloat | None = None
    """8-bit floating point on the tensor cores."""
    fp4: PositiveFloat | None = None
    """4-bit floating point (NVFP4) on the tensor cores."""


class Accelerator(Entry):
    """One GPU model as it is mounted in the node types of the catalog."""

    vendor: str
    """Who makes it."""
    architecture: str
    """The vendor's name of the generation, such as `Ampere`."""
    memory_gb: PositiveFloat
    """Device memory as the vendor states it, in 10^9 bytes or the vendor's nominal GB."""
    usable_memory_gib: PositiveFloat
    """What the driver reports as total memory, in GiB; what a run can really use is below it."""
    memory_bandwidth_gb_s: PositiveFloat
    """Device memory bandwidth, GB/s."""
    link_bandwidth_gb_s: PositiveFloat
    """GPU-to-GPU link per GPU, both directions added, GB/s: NVLink, or PCIe where there is none."""
    peak_tflops: PeakTflops
    """Dense peak rates by precision."""
