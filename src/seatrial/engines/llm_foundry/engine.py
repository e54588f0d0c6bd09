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
    STEP_DIRECTORY,
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
from seatrial.planning.engine_limits import EngineLimits
from seatrial.planning.plan import Plan
from seatrial.spec.addresses import tokenizer_name
from seatrial.spec.engine import OptionValue
from seatrial.spec.model import Family
from seatrial.spec.parallelism import Recompute, Sharding
from seatrial.spec.run import RunSpec
from seatrial.spec.training import Precision


class LlmFoundryEngine(Engine):
    """The engine of MPT, and of Hugging Face's causal models."""

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
    checkpoint_class = "seatrial.engines.llm_foundry.checkpoints:ComposerCheckpoints"
    log_class = "seatrial.engines.llm_foundry.log_format:ComposerLog"
    modelled: Mapping[str, str] = MODELLED
    """Options that a spec sets through a field of its own, and that field."""

    def limits(self, spec: RunSpec) -> EngineLimits:
        """It shares out everything or nothing, and computes whole layers again, or none."""
        return EngineLimits(
            stack="llm-foundry",
            splits_model=self.splits_model,
            shardings=((Sharding.NONE, Sharding.FSDP),),
            recomputes=(Recompute.NONE, Recompute.FULL),
            has_fsdp_runs=True,
        )

    def option_problems(self, options: Mapping[str, OptionValue]) -> list[Problem]:
        """What is wrong with settings that a spec passes through."""
        return option_problems(options)

    def plan_problems(self, plan: Plan) -> list[Problem]:
        """What LLM Foundry has no code for."""
        return plan_problems(plan)

    def arguments(self, plan: Plan) -> Arguments:
        """The settings of a plan."""
        settings = engine_settings(plan)
        if plan.spec.data.mock:
            settings |= mock_settings(plan, plan.data_location)
        return settings

    def pod_arguments(self, plan: Plan, *, on_cpu: bool, scratch: str) -> Arguments:
        """The settings in a pod, whose node copies what it reads to its own disk."""
        cache = f"{scratch}/data" if scratch and plan.spec.data.sources else ""
        settings = engine_settings(plan, cache)
        if plan.spec.data.mock:
            settings |= mock_settings(plan, plan.data_location)
        if on_cpu:
            settings |= cpu_settings(plan)
        return settings

    def verdict_arguments(self, plan: Plan) -> Arguments:
        """The settings without what validation would load or reach."""
        loggers = {name: None for name in engine_settings(plan) if name.startswith("loggers.")}
        # A GPU's kernels are not installed where this runs; no dimension depends on them.
        mpt = plan.model.architecture.family is Family.MPT
        kernels = CPU_KERNELS if mpt else {}
        return engine_settings(plan) | loggers | kernels | {"model.init_device": "meta"}

    def trial_arguments(self, plan: Plan, trial: Trial) -> Arguments:
        """The settings of a drill on a CPU."""
        return trial_settings(plan, trial)

    def one_rank_arguments(self, arguments: Arguments) -> Arguments:
        """The model alone, for a CPU: the rest is of training."""
        return one_rank_settings(arguments)

    def command_line(self, arguments: Arguments) -> list[str]:
        """`NAME=VALUE` for each setting."""
        return settings_words(arguments)

    def text(self, arguments: Arguments) -> str:
        """A file for `composer -c llmfoundry train`."""
        return settings_yaml(arguments)

    def no_rehearsal(self, plan: Plan) -> str:
        """Models of the Hub need their own config.json, which only the Hub has."""
        if plan.model.architecture.family is not Family.MPT:
            return (
                "A twin of hf_causal_lm needs the configuration of its repository on the Hub and "
                "cannot be made here. Rehearse an MPT model of the same layout."
            )
        return ""

    def cpu_precision(self, precision: Precision) -> Precision:
        """Composer takes nothing but fp32 on a CPU."""
        return Precision.FP32

    def data_files(self, prepared: str) -> tuple[str, ...]:
        """The index of the training split."""
        return (f"{prepared}/{TRAIN}/index.json",)

    def source_places(self, plan: Plan) -> tuple[str, ...]:
        """The directories in which the splits are."""
        return tuple(source_place(plan, source) for source in plan.spec.data.sources or ())

    def sample_directory(self, plan: Plan, source: str) -> str:
        """A directory that is named after how samples were cut."""
        return mds_directory(plan, source)

    def prepared_splits(self, plan: Plan) -> list[tuple[str, str]]:
        """Training, and validation where the run looks at it."""
        return prepared_splits(plan)

    def hub_tokenizer(self, plan: Plan) -> tuple[str, str] | None:
        """It loads every tokenizer by Hugging Face's loader."""
        return str(tokenizer(plan)), tokenizer_name(plan.model.tokenizer)[1]

    def checkpoint_name(self, step: int) -> str:
        """The directory of a step."""
        return STEP_DIRECTORY.format(batch=step)
