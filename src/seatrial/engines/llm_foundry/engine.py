# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""MosaicML's LLM Foundry: Composer's trainer, FSDP, MDS data."""

from collections.abc import Mapping

from seatrial.engines.engine import (
    Arguments,
    DataFormat,
    Engine,
    Installation,
    Problem,
    Trial,
    WorkerModules,
)
from seatrial.engines.llm_foundry.data_settings import (
    TRAIN,
    mds_directory,
    prepared_splits,
    source_place,
    tokenizer,
)
from seatrial.engines.llm_foundry.options import MODELLED, option_problems
from seatrial.engines.llm_foundry.settings import (
    NAMING,
    engine_settings,
    settings_words,
    settings_yaml,
)
from seatrial.engines.llm_foundry.support import plan_problems
from seatrial.engines.llm_foundry.trial import (
    CPU_KERNELS,
    cpu_settings,
    mock_settings,
    one_rank_settings,
    trial_settings,
)
from seatrial.planning.engine_limits import EngineLimits, UnseenRuns
from seatrial.planning.plan import Plan
from seatrial.spec.addresses import tokenizer_name
from seatrial.spec.engine import OptionValue
from seatrial.spec.model import Family
from seatrial.spec.parallelism import Recompute, Sharding
from seatrial.spec.run import RunSpec
from seatrial.spec.training import Precision


class LlmFoundryEngine(Engine):
    """The engine for MPT and for Hugging Face's causal language models."""

    name: str = "llm-foundry"
    title = "LLM Foundry"
    version = "0.22.0"
    package = f"llm-foundry {version}"
    splits_model = False
    data_format = DataFormat.MDS
    needs_tokenizer_class = True
    saves_to_object_stores = True
    installation = Installation(
        "SEATRIAL_LLM_FOUNDRY_PYTHON",
        ("torch", "llmfoundry"),
        "seatrial engines install llm-foundry",
        "llm-foundry.txt",
    )
    modules = WorkerModules(
        process="seatrial.worker.llm_foundry",
        pod="seatrial.worker.llm_foundry.pod",
        verdict="seatrial.worker.llm_foundry.verdict",
        compare="seatrial.worker.llm_foundry.compare",
        logits="seatrial.worker.llm_foundry.logits",
    )
    checkpoint_naming = NAMING
    checkpoint_class = "seatrial.engines.llm_foundry.checkpoints:ComposerCheckpoints"
    log_class = "seatrial.engines.llm_foundry.log_format:ComposerLog"
    modelled: Mapping[str, str] = MODELLED
    """Options that a spec field sets, with the name of that field."""

    def limits(self, spec: RunSpec) -> EngineLimits:
        """Return the limits: full or no sharding, full or no activation recomputation."""
        return EngineLimits(
            stack="llm-foundry",
            splits_model=self.splits_model,
            shardings=((Sharding.NONE, Sharding.FSDP),),
            recomputes=(Recompute.NONE, Recompute.FULL),
            has_fsdp_runs=True,
            unseen=UnseenRuns(inside=83, runs=84),
        )

    def option_problems(self, options: Mapping[str, OptionValue]) -> list[Problem]:
        """Check the settings that a spec passes to LLM Foundry."""
        return option_problems(options)

    def plan_problems(self, plan: Plan) -> list[Problem]:
        """Return the problems with settings that LLM Foundry does not support."""
        return plan_problems(plan)

    def arguments(self, plan: Plan) -> Arguments:
        """Return a plan's settings."""
        settings = engine_settings(plan)
        if plan.spec.data.mock:
            settings |= mock_settings(plan, plan.data_location)
        return settings

    def pod_arguments(self, plan: Plan, *, on_cpu: bool, scratch: str) -> Arguments:
        """Return the settings for a pod, whose node caches the data on its local disk."""
        cache = f"{scratch}/data" if scratch and plan.spec.data.sources else ""
        settings = engine_settings(plan, cache)
        if plan.spec.data.mock:
            settings |= mock_settings(plan, plan.data_location)
        if on_cpu:
            settings |= cpu_settings(plan)
        return settings

    def verdict_arguments(self, plan: Plan) -> Arguments:
        """Return the settings without data and services that validation would load or contact."""
        loggers = {name: None for name in engine_settings(plan) if name.startswith("loggers.")}
        # GPU kernels are not installed where validation runs, and no dimension depends on them.
        mpt = plan.model.architecture.family is Family.MPT
        kernels = CPU_KERNELS if mpt else {}
        return engine_settings(plan) | loggers | kernels | {"model.init_device": "meta"}

    def trial_arguments(self, plan: Plan, trial: Trial) -> Arguments:
        """Return the settings for a drill on CPU."""
        return trial_settings(plan, trial)

    def one_rank_arguments(self, arguments: Arguments) -> Arguments:
        """Return only the model settings, for CPU."""
        return one_rank_settings(arguments)

    def command_line(self, arguments: Arguments) -> list[str]:
        """Format each setting as `NAME=VALUE`."""
        return settings_words(arguments)

    def text(self, arguments: Arguments) -> str:
        """Format a file for `composer -c llmfoundry train`."""
        return settings_yaml(arguments)

    def no_rehearsal(self, plan: Plan) -> str:
        """Reject models from the Hub, because only the Hub has their config.json."""
        if plan.model.architecture.family is not Family.MPT:
            return (
                "An hf_causal_lm model cannot be rehearsed, because a scaled-down copy needs the "
                "configuration in its Hub repository. Rehearse an MPT model with the same layout."
            )
        return ""

    def cpu_precision(self, precision: Precision) -> Precision:
        """Return fp32, the only precision that Composer supports on CPU."""
        return Precision.FP32

    def data_files(self, prepared: str) -> tuple[str, ...]:
        """Return the index of the training split."""
        return (f"{prepared}/{TRAIN}/index.json",)

    def source_places(self, plan: Plan) -> tuple[str, ...]:
        """Return the directories that contain the splits."""
        return tuple(source_place(plan, source) for source in plan.spec.data.sources or ())

    def sample_directory(self, plan: Plan, source: str) -> str:
        """Return a directory whose name contains the sequence length and the split."""
        return mds_directory(plan, source)

    def prepared_splits(self, plan: Plan) -> list[tuple[str, str]]:
        """Return the training split, and the validation split if the run evaluates."""
        return prepared_splits(plan)

    def hub_tokenizer(self, plan: Plan) -> tuple[str, str] | None:
        """Return the tokenizer: LLM Foundry always uses Hugging Face's loader."""
        return str(tokenizer(plan)), tokenizer_name(plan.model.tokenizer)[1]
