# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The small models of the engine tests, and how two trainings are compared."""

from pathlib import Path

from seatrial.engine_process.process import Training, TrainingOutcome, train
from seatrial.engines.megatron.command_line import Arguments
from seatrial.engines.megatron.trial import CPU_ARGUMENTS
from seatrial.rehearsal import parity

STEPS = 20
TIMEOUT = 300.0

DENSE: Arguments = {
    "num-layers": 4,
    "hidden-size": 64,
    "num-attention-heads": 4,
    "seq-length": 64,
    "max-position-embeddings": 64,
    "micro-batch-size": 1,
    "global-batch-size": 4,
    "train-iters": STEPS,
    "lr": 1e-3,
    "lr-decay-style": "constant",
    "mock-data": True,
    "tokenizer-type": "NullTokenizer",
    "vocab-size": 127,
    "make-vocab-size-divisible-by": 32,
    "eval-iters": 0,
    "eval-interval": 1000,
    "hidden-dropout": 0.0,
    "attention-dropout": 0.0,
    "log-interval": 1,
    "ckpt-format": "torch_dist",
    **CPU_ARGUMENTS,
}
"""Four layers of width 64 in fp32, without dropout: what is compared must be exact."""

LLAMA: Arguments = {
    **DENSE,
    "position-embedding-type": "rope",
    "group-query-attention": True,
    "num-query-groups": 2,
    "normalization": "RMSNorm",
    "swiglu": True,
    "untie-embeddings-and-output-weights": True,
    "disable-bias-linear": True,
}
MOE: Arguments = {
    **DENSE,
    "num-experts": 4,
    "moe-router-topk": 2,
    "moe-router-load-balancing-type": "aux_loss",
    "moe-aux-loss-coeff": 1e-2,
    "moe-token-dispatcher-type": "alltoall",
    "disable-bias-linear": True,
    "expert-tensor-parallel-size": 1,
}

SHARDED: Arguments = {
    "use-distributed-optimizer": True,
    "dist-ckpt-optim-fully-reshardable": True,
}


def start(
    directory: Path,
    name: str,
    arguments: Arguments,
    processes: int = 1,
    kill: tuple[int, int] | None = None,
    fault: str = "",
    restarts: int = 0,
) -> TrainingOutcome:
    """One training; it must end well unless it is to be killed."""
    training = Training(
        name, arguments, processes, directory, kill, fault, restarts=restarts, engine="megatron"
    )
    outcome = train(training, TIMEOUT)
    assert kill is not None or outcome.code == 0, f"{name}: {outcome.tail}\n{training.log}"
    return outcome


def initial_weights(directory: Path, model: Arguments) -> Arguments:
    """Write a checkpoint of fresh weights, and return what loads it into any layout."""
    where = str(directory / "initial")
    once: Arguments = {"train-iters": 1, "lr": 0.0, "save": where, "save-interval": 1}
    start(directory, "initial", {**model, **once})
    return {
        **model,
        "load": where,
        "finetune": True,
        "no-load-optim": True,
        "no-load-rng": True,
    }


def largest_difference(one: TrainingOutcome, other: TrainingOutcome) -> float:
    """The largest relative difference of a loss over the steps that both have."""
    return parity.largest_difference(one.losses(), other.losses())
