# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""MosaicML's LLM Foundry: Composer's trainer, FSDP, MDS data."""

from collections.abc import Mapping

from seatrial.engines.engine import (
    Arguments,
    DataFormat,
    Installation,
    Problem,
    Trial,
    WorkerModules,
)
from seatrial.engines.llm_foundry.data_settings import TRAIN, tokenizer
from seatrial.engines.llm_foundry.options import MODELLED, option_problems
from seatrial.engines.llm_foundry.settings import STEP_DIRECTORY, engine_settings
from seatrial.engines.llm_foundry.support import plan_problems
from seatrial.engines.llm_foundry.trial import (
    CPU_KERNELS,
    cpu_settings,
    mock_settings,
    one_rank_settings,
    trial_settings,
)
from seatrial.engines.llm_foundry.words import settings_words, settings_yaml
from seatrial.planning.plan import Plan
from seatrial.spec.addresses import tokenizer_name
from seatrial.spec.architecture import Family
from seatrial.spec.engine import EngineName, OptionValue
from seatrial.spec.training import Precision


class LlmFoundryEngine:
    """The engine of MPT, and of Hugging Face's causal models."""

    name = EngineName.LLM_FOUNDRY
    title = "LLM Foundry"
    version = "0.22.0"
    package = f"llm-foundry {version}"
    splits_model = False
    data_format = DataFormat.MDS
    takes_hub_weights = False
    installation = Installation(
        "SEATRIAL_LLM_FOUNDRY_PYTHON",
        ("torch", "llmfoundry"),
        "seatrial engines install llm-foundry",
        "llm-foundry.txt",
    )
    modules = WorkerModules(
        "seatrial.worker.llm_foundry",
        "seatrial.worker.llm_foundry.pod",
        "llm_foundry.verdict",
        "llm_foundry.compare",
        "llm_foundry.engine_logits",
    )
    modelled: Mapping[str, str] = MODELLED
    """Options that a spec sets through a field of its own, and that field."""

    def option_problems(self, options: Mapping[str, OptionValue]) -> list[Problem]:
        """What is wrong with settings that a spec passes through."""
        return option_problems(options)

    def plan_problems(self, plan: Plan) -> list[Problem]:
        """What LLM Foundry has no code for."""
        return plan_problems(plan)

    def environment(self, plan: Plan) -> dict[str, str]:
        """Nothing: revisions of tokenizers and the like are settings of it."""
        return {}

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

    def hub_tokenizer(self, plan: Plan) -> tuple[str, str] | None:
        """It loads every tokenizer by Hugging Face's loader."""
        return str(tokenizer(plan)), tokenizer_name(plan.model.tokenizer)[1]

    def checkpoint_name(self, step: int) -> str:
        """The directory of a step."""
        return STEP_DIRECTORY.format(batch=step)
