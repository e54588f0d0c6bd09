# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What the engine is told in drills on a CPU, and what its validation is told of production."""

from seatrial.engines.engine import Arguments, Resharding, Trial
from seatrial.engines.megatron.cpu import CPU_ARGUMENTS
from seatrial.engines.megatron.flags import engine_arguments
from seatrial.planning.plan import Plan
from seatrial.spec.training import Precision

STAGE_ARGUMENTS = (
    "decoder-first-pipeline-num-layers",
    "decoder-last-pipeline-num-layers",
    "account-for-embedding-in-pipeline-split",
    "account-for-loss-in-pipeline-split",
)
"""What makes stages uneven, which one stage alone cannot be."""


def production_arguments(plan_arguments: Arguments) -> Arguments:
    """The arguments for the engine's verdict: the plan's own, without what validation would load.

    The layers are the engine's local ones, because Transformer Engine needs a GPU to be imported.
    """
    return plan_arguments | {
        "tokenizer-type": "NullTokenizer",
        "tokenizer-model": None,
        "tensorboard-dir": None,
        "wandb-project": None,
        "wandb-exp-name": None,
        "wandb-entity": None,
        "spec": CPU_ARGUMENTS["spec"],
    }


def trial_arguments(plan: Plan, trial: Trial) -> Arguments:
    """The twin's own arguments, and what a CPU and a drill need."""
    arguments = engine_arguments(plan) | CPU_ARGUMENTS
    if trial.mock_tokenizer:
        arguments |= {"tokenizer-type": "NullTokenizer", "tokenizer-model": None}
    if plan.spec.training.precision is Precision.FP16:
        # From its default of 2^32 the loss scale would skip every step of so short a run.
        arguments["initial-loss-scale"] = 4096
    arguments["tensorboard-dir"] = None
    # Indices for so short a sequence do not belong beside the user's data.
    arguments["data-cache-path"] = f"{trial.directory}/index-cache"
    if trial.checkpoints:
        arguments |= {"save": trial.checkpoints, "load": trial.checkpoints}
    if trial.resharding is not None:
        arguments |= _resharded(plan, trial.resharding)
    return arguments


def _resharded(plan: Plan, other: Resharding) -> Arguments:
    """What loads a save in another layout and goes on without saving."""
    arguments: Arguments = {
        "ckpt-step": other.step,
        "save": None,
        "save-interval": None,
        "tensor-model-parallel-size": other.tp_size,
        "pipeline-model-parallel-size": other.pp_size,
        "context-parallel-size": other.cp_size,
        "sequence-parallel": plan.sequence_parallel and other.tp_size > 1,
    }
    if other.pp_size == 1:
        for name in STAGE_ARGUMENTS:
            arguments[name] = None
        arguments["num-virtual-stages-per-pipeline-rank"] = None
    if plan.model.architecture.is_moe:
        ranks, ep = other.tp_size * other.cp_size * other.dp_size, plan.layout.ep_size
        arguments["expert-model-parallel-size"] = ep if ranks % ep == 0 else 1
    return arguments
