# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The machines of the published rows: data sheets, and the network that each source states."""

import re
from functools import cache

from seatrial.catalog.accelerators import Accelerator
from seatrial.catalog.catalog import Catalog
from seatrial.planning.workload import Hardware
from seatrial.spec.training import Precision

ACCELERATORS = {
    "A100": "a100-80gb",
    "A100-40GB": "a100-40gb",
    "A100-80GB": "a100-80gb",
    "A800-80GB": "a100-80gb",
    "H100-80GB": "h100-80gb",
    "H100-96GB(500W)": "h100-80gb",
    "H200": "h200-141gb",
    "B200": "b200",
    "B300": "b300",
    "GB200": "gb200",
    "GB300": "gb300",
}
"""Names of the published rows and of the catalog; an A800 is an A100 with a slower link."""
SUPERCHIPS = ("gb200", "gb300")
DOMAIN_OF_SUPERCHIPS = 72
GPUS_PER_NODE_OF_SUPERCHIPS = 4
NETWORK_GBIT_PER_GPU = {
    "a100-40gb": 200.0,
    "a100-80gb": 200.0,
    "h100-80gb": 400.0,
    "h200-141gb": 400.0,
    "b200": 400.0,
    "b300": 800.0,
    "gb200": 400.0,
    "gb300": 800.0,
}
"""One network card per GPU, as in the vendor's reference machine, unless the source says else."""
NETWORK_OF_SOURCE = {
    "vTrain single-node": 100.0,
    "vTrain multi-node": 100.0,
    # Jean Zay: four Omni-Path cards of 100 Gbit/s for eight GPUs.
    "BigScience BLOOM tr11": 50.0,
    # Four RoCE cards of 100 Gbit/s for eight GPUs.
    "InternEvo": 50.0,
}
"""Gbit/s per GPU, where the source states another network."""
_NODE_GBIT = re.compile(r"(\d+) Gb/s per node|with (\d+) Gbps node-node")


def hardware(gpu: str, precision: Precision, source: str, notes: str) -> Hardware:
    name = ACCELERATORS[gpu]
    facts = _facts(name)
    stated = _NODE_GBIT.search(notes)
    per_gpu = NETWORK_OF_SOURCE.get(source, NETWORK_GBIT_PER_GPU[name])
    if stated:
        per_gpu = float(stated[1] or stated[2]) / 8
    superchip = name in SUPERCHIPS
    peaks = facts.peak_tflops
    narrow = {
        Precision.FP8: peaks.fp8,
        Precision.MXFP8: peaks.fp8,
        Precision.NVFP4: peaks.fp4,
    }.get(precision)
    return Hardware(
        accelerator=name,
        memory_bytes=int(facts.usable_memory_gib * 2**30),
        peak_flops=(narrow or peaks.bf16) * 1e12,
        peak_flops_bf16=peaks.bf16 * 1e12,
        memory_bandwidth=facts.memory_bandwidth_gb_s * 1e9,
        # The catalog adds both directions; an A800's link has two thirds of the rate.
        link_bandwidth=facts.link_bandwidth_gb_s * 1e9 / 2 * (2 / 3 if gpu == "A800-80GB" else 1),
        link_domain_gpus=DOMAIN_OF_SUPERCHIPS if superchip else 8,
        gpus_per_node=GPUS_PER_NODE_OF_SUPERCHIPS if superchip else 8,
        network_bandwidth=per_gpu * 1e9 / 8,
    )


@cache
def _facts(name: str) -> Accelerator:
    """What the shipped catalog says of an accelerator, whatever a user's own says."""
    return Catalog().accelerator(name)
