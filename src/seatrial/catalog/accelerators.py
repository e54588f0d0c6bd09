# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Accelerators: memory, peak FLOP/s, memory bandwidth and link bandwidth."""

from pydantic import PositiveFloat

from seatrial.catalog.entry import Entry, Facts


class PeakTflops(Facts):
    """Dense peak rates (no structured sparsity) in TFLOP/s; not set if unsupported by hardware."""

    fp32: PositiveFloat
    """Single precision without tensor cores."""
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
    """One GPU model, in the variant that the node types in the catalog use."""

    vendor: str
    """Manufacturer."""
    architecture: str
    """The vendor's name for the generation, such as `Ampere`."""
    memory_gb: PositiveFloat
    """Device memory as the vendor states it, in 10^9 bytes or the vendor's nominal GB."""
    usable_memory_gib: PositiveFloat
    """Total memory that the driver reports, in GiB; a run can use less than this."""
    memory_bandwidth_gb_s: PositiveFloat
    """Device memory bandwidth, GB/s."""
    link_bandwidth_gb_s: PositiveFloat
    """GPU-to-GPU bandwidth per GPU, both directions added, GB/s: NVLink, or PCIe without it."""
    peak_tflops: PeakTflops
    """Dense peak rates by precision."""
