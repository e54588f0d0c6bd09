# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""LLM Foundry's settings on CPU, in drills, and for its own validation.

Settings that start with `worker.` are for Seatrial's worker, which removes them before LLM Foundry
reads the rest.
"""

from seatrial.engines.engine import Arguments, Resharding, Trial
from seatrial.engines.llm_foundry.data_settings import LOADERS, MOCK, has_evaluation
from seatrial.engines.llm_foundry.settings import NAMING, engine_settings
from seatrial.planning.plan import Plan
from seatrial.spec.model import Positions
from seatrial.spec.parallelism import Sharding

MOCK_DIRECTORY = "worker.mock.directory"
MOCK_VOCABULARY = "worker.mock.vocab_size"
MOCK_SAMPLES = "worker.mock.samples"
CPU_KERNELS: Arguments = {
    "model.init_device": "cpu",
    "model.attn_config.attn_impl": "torch",
    "model.loss_fn": "torch_crossentropy",
}
"""Replacements for GPU kernels."""
HUB_KERNELS: Arguments = {"model.init_device": "cpu", "model.use_flash_attention_2": False}
"""Replacements for GPU kernels in a model with Hugging Face's own code."""


def one_rank_settings(settings: Arguments) -> Arguments:
    """Return the settings for a run's model on one CPU rank in fp32."""
    model = {name: value for name, value in settings.items() if name.startswith("model.")}
    kernels = CPU_KERNELS if settings["model.name"] == "mpt_causal_lm" else HUB_KERNELS
    if settings.get("model.attn_config.rope"):
        kernels = kernels | {"model.attn_config.rope_impl": "hf"}
    return {"max_seq_len": settings["max_seq_len"], **model, **kernels}


def cpu_settings(plan: Plan) -> Arguments:
    """Return the replacements for GPU kernels, which change only rounding."""
    loads = [name for name in LOADERS if name == "train_loader" or has_evaluation(plan)]
    rope = plan.model.architecture.positions is Positions.ROPE
    return {
        **CPU_KERNELS,
        "model.attn_config.rope_impl": "hf" if rope else None,
        # On CPU, Composer supports only fp32.
        "precision": "fp32",
        "callbacks.memory_monitor": None,
        # torch rejects 0 workers together with prefetching, which LLM Foundry requests.
        **{f"{name}.num_workers": 1 for name in loads},
    }


def mock_settings(plan: Plan, directory: str, *, tokenizer_only: bool = False) -> Arguments:
    """Return the settings for mock data and a mock tokenizer.

    LLM Foundry has neither, so the worker writes them before training.
    """
    place = f"{directory}/{MOCK}"
    found: Arguments = {
        MOCK_DIRECTORY: place,
        MOCK_VOCABULARY: plan.model.architecture.vocab_size,
        "tokenizer.name": f"{place}/tokenizer",
        "tokenizer.kwargs.revision": None,
    }
    if tokenizer_only:
        return found
    # Provide enough samples for all steps, so that the run stays within one epoch.
    found[MOCK_SAMPLES] = (plan.length.steps + 1) * plan.batch.global_batch_size
    for loader in LOADERS:
        if loader == "train_loader" or has_evaluation(plan):
            found |= {f"{loader}.dataset.local": place, f"{loader}.dataset.remote": None}
    return found


def trial_settings(plan: Plan, trial: Trial) -> Arguments:
    """Return the twin's settings, adapted to CPU and to a drill."""
    settings = engine_settings(plan) | cpu_settings(plan)
    settings["loggers.tensorboard.log_dir"] = None
    if plan.spec.data.mock or trial.mock_tokenizer:
        real = bool(plan.spec.data.sources)
        settings |= mock_settings(plan, trial.directory, tokenizer_only=real)
    settings["save_folder"] = trial.checkpoints or None
    if trial.resharding is not None:
        settings |= _resharded(plan, trial.checkpoints, trial.resharding)
    return {name: value for name, value in settings.items() if value is not None}


def _resharded(plan: Plan, checkpoints: str, other: Resharding) -> Arguments:
    """Return the settings to load a checkpoint on a different number of ranks, without saving."""
    directory = f"{checkpoints}/{NAMING.directory_name(other.step)}"
    sharded = plan.sharding is Sharding.FSDP
    micro = plan.batch.global_batch_size // other.layout.dp_size
    return {
        "save_folder": None,
        "autoresume": None,
        "load_path": directory if sharded else f"{directory}/rank0.pt",
        "device_train_microbatch_size": min(plan.batch.micro_batch_size, micro),
    }
