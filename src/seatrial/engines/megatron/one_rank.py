# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The flags of a run for one rank in fp32, which computes logits and saves nothing."""

from seatrial.engines.engine import Arguments

FOR_ONE_RANK: Arguments = {
    "tensor-model-parallel-size": 1,
    "pipeline-model-parallel-size": 1,
    "num-virtual-stages-per-pipeline-rank": None,
    "context-parallel-size": 1,
    "expert-model-parallel-size": None,
    "expert-tensor-parallel-size": None,
    "decoder-first-pipeline-num-layers": None,
    "decoder-last-pipeline-num-layers": None,
    "account-for-embedding-in-pipeline-split": None,
    "account-for-loss-in-pipeline-split": None,
    "sequence-parallel": None,
    "recompute-granularity": None,
    "recompute-method": None,
    "recompute-num-layers": None,
    "recompute-modules": None,
    "bf16": None,
    "fp16": None,
    "initial-loss-scale": None,
    "save": None,
    "load": None,
    "save-interval": None,
    "async-save": None,
    "use-persistent-ckpt-worker": None,
    "async-strategy": None,
    "pretrained-checkpoint": None,
    "tokenizer-type": "NullTokenizer",
    "tokenizer-model": None,
    "data-path": None,
    "data-args-path": None,
    "data-cache-path": None,
    "mock-data": True,
}
"""What turns a run's arguments into those of one rank in fp32 that saves nothing."""


def one_rank_arguments(arguments: Arguments) -> Arguments:
    """The flags for the engine's own logits."""
    return arguments | FOR_ONE_RANK | {"global-batch-size": arguments["micro-batch-size"]}
