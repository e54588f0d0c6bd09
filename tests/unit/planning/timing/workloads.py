# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Workloads to predict: a GPT-3 of 175B parameters on A100s, and a mixture of experts on H100s."""

from dataclasses import replace
from typing import Any

from seatrial.planning.layout import Layout
from seatrial.planning.stages import stages_of
from seatrial.planning.timing.constants import TimingConstants
from seatrial.planning.timing.rates import Rates
from seatrial.planning.workload import Hardware, Workload
from seatrial.spec.model import Architecture, Family
from seatrial.spec.parallelism import Recompute, Sharding
from seatrial.spec.training import Precision

A100 = Hardware(
    accelerator="a100-80gb",
    memory_bytes=79 << 30,
    peak_flops=312e12,
    peak_flops_bf16=312e12,
    memory_bandwidth=2.039e12,
    link_bandwidth=300e9,
    link_domain_gpus=8,
    gpus_per_node=8,
    network_bandwidth=25e9,
)
GPT3 = Architecture.model_validate(
    {
        "family": Family.GPT,
        "layers": 96,
        "hidden_size": 12288,
        "heads": 96,
        "vocab_size": 51200,
        "max_positions": 2048,
    }
)
EXPERTS = Architecture.model_validate(
    {
        "family": Family.LLAMA,
        "layers": 32,
        "hidden_size": 4096,
        "heads": 32,
        "kv_heads": 8,
        "ffn_hidden_size": 14336,
        "vocab_size": 32000,
        "max_positions": 4096,
        "moe": {"experts": 8, "top_k": 2, "expert_ffn_hidden_size": 14336},
    }
)
CONSTANTS = TimingConstants(Rates(), 0.1, "made up", "0")


def workload(layout: Layout, model: Architecture = GPT3, **changes: Any) -> Workload:
    """A workload with the usual settings and some changes."""
    share = model.layers // layout.pp_size
    given = Workload(
        model=model,
        sequence_length=2048,
        padded_vocab_size=51200,
        layout=layout,
        stages=stages_of([share] * layout.pp_size, layout.vp_size),
        sequence_parallel=layout.tp_size > 1,
        sharding=Sharding.OPTIMIZER,
        recompute=Recompute.NONE,
        micro_batch_size=1,
        micro_batches=64,
        precision=Precision.BF16,
        hardware=A100,
        stack="megatron-core",
    )
    return replace(given, **changes)
