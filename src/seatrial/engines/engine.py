# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What Seatrial asks of a training engine; each engine is a folder beside this file.

Nothing outside these folders knows the name of an engine's option, of a file it writes or of a
module that starts it: it asks the engine of the spec, which `engines/registry.py` has by name.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from seatrial.planning.plan import Plan
from seatrial.spec.engine import EngineName, OptionValue
from seatrial.spec.training import Precision

ArgumentValue = bool | int | float | str | tuple[str | int | float, ...] | None
"""True for a switch that is on; None leaves the argument out; a tuple is several words."""

Arguments = dict[str, ArgumentValue]
"""What an engine is told, by its own names, before it becomes words of a command line."""


class EngineCode(StrEnum):
    """What can be wrong with the options that are passed through; the codes are stable."""

    UNKNOWN_OPTION = "ST-ENGINE-001"
    """The engine has no such option."""
    MODELLED_OPTION = "ST-ENGINE-002"
    """A field of the spec covers the option."""
    OPTION_VALUE = "ST-ENGINE-003"
    """The option does not take such a value."""
    UNCHECKED_OPTION = "ST-ENGINE-004"
    """Only the engine knows whether it has such an option; it is passed on as it is."""
    DERIVED_OPTION = "ST-ENGINE-005"
    """The option would make what the plan says untrue."""
    UNSUPPORTED = "ST-ENGINE-006"
    """The engine cannot train this model or layout."""


class DataFormat(StrEnum):
    """What prepared data of an engine look like."""

    INDEXED = "indexed"
    """Megatron's `.bin` and `.idx`: documents, which training cuts into samples."""
    MDS = "mds"
    """The streaming library's shards: samples of the sequence length, a folder for each split."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in a spec that the engine would refuse, or that belongs elsewhere."""

    code: EngineCode
    """What kind of problem it is."""
    field: str
    """The field of the spec."""
    rule: str
    """What is wrong."""
    fix: str
    """What to do."""


@dataclass(frozen=True, slots=True)
class Installation:
    """How the engine comes to a host: it has an environment of its own, for it brings torch."""

    variable: str
    """The environment variable that names the Python of that environment."""
    packages: tuple[str, ...]
    """Packages by which an environment is known to hold the engine."""
    command: str
    """The command that installs it."""
    lock: str
    """The lock file that has all of it."""


@dataclass(frozen=True, slots=True)
class WorkerModules:
    """The modules of the worker that talk to the engine, each started as a process."""

    process: str
    """One rank of a rehearsal."""
    pod: str
    """One rank in a pod, whose exit code tells an early end from a finished run."""
    verdict: str
    """Asks the engine's own validation about the arguments of a plan; below `seatrial.worker`."""
    compare: str
    """Compares two checkpoints bit for bit; below `seatrial.worker`."""
    logits: str
    """Writes the engine's logits of a checkpoint; below `seatrial.worker`."""


@dataclass(frozen=True, slots=True)
class Resharding:
    """A layout to continue in that is not the one of the checkpoint."""

    step: int
    """The step of the checkpoint."""
    tp_size: int
    """Tensor parallel degree to continue with."""
    pp_size: int
    """Pipeline stages to continue with."""
    cp_size: int
    """Context parallel degree to continue with."""
    dp_size: int
    """Data-parallel ranks to continue with."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What a drill asks of the engine beside the plan of its twin."""

    directory: str
    """Where the drill works, for what the engine keeps beside checkpoints."""
    checkpoints: str
    """Where the drill saves, and resumes from when there is something; empty for nowhere."""
    mock_tokenizer: bool
    """Whether something of the same size stands for the tokenizer, which is not loaded."""
    resharding: Resharding | None = None
    """The layout to continue in without saving; none to train in the plan's own."""


class Engine(Protocol):
    """A training engine as the rest of Seatrial sees it."""

    name: EngineName
    """The name that a spec uses."""
    title: str
    """The name in a sentence."""
    version: str
    """The version that Seatrial is made for."""
    package: str
    """The package of that version, as records of checkpoints name it."""
    splits_model: bool
    """Whether it can cut a model by tp, pp and cp; else every rank is a data-parallel one."""
    data_format: DataFormat
    """What its prepared data look like."""
    takes_hub_weights: bool
    """Whether Hugging Face weights can be brought in for it."""
    installation: Installation
    """How it comes to a host."""
    modules: WorkerModules
    """What of the worker talks to it."""
    modelled: Mapping[str, str]
    """Options that a spec sets through a field of its own, and that field."""

    def option_problems(self, options: Mapping[str, OptionValue]) -> list[Problem]:
        """What is wrong with options that a spec passes through to the engine."""
        ...

    def plan_problems(self, plan: Plan) -> list[Problem]:
        """What the engine cannot do of a plan."""
        ...

    def environment(self, plan: Plan) -> dict[str, str]:
        """Variables without which the engine refuses the plan, or would run another one."""
        ...

    def arguments(self, plan: Plan) -> Arguments:
        """What the engine is told for a plan, options that the spec passes through included."""
        ...

    def pod_arguments(self, plan: Plan, *, on_cpu: bool, scratch: str) -> Arguments:
        """What it is told in a pod with local disk at `scratch`; asked to end, it saves first."""
        ...

    def verdict_arguments(self, plan: Plan) -> Arguments:
        """What its own validation is told: the plan's arguments, without what it would load."""
        ...

    def trial_arguments(self, plan: Plan, trial: Trial) -> Arguments:
        """What it is told in a drill on a CPU."""
        ...

    def one_rank_arguments(self, arguments: Arguments) -> Arguments:
        """A run's arguments for one rank in fp32 that saves nothing, for the engine's logits."""
        ...

    def command_line(self, arguments: Arguments) -> list[str]:
        """The arguments as words for a process of the worker."""
        ...

    def text(self, arguments: Arguments) -> str:
        """The arguments as people would keep them in a file of the engine's own."""
        ...

    def no_rehearsal(self, plan: Plan) -> str:
        """Why a plan cannot be rehearsed on a CPU, and what can; empty when it can."""
        ...

    def cpu_precision(self, precision: Precision) -> Precision:
        """The number format that stands for the plan's on a CPU; the same where it can."""
        ...

    def data_files(self, prepared: str) -> tuple[str, ...]:
        """The files by which prepared data are known to be there."""
        ...

    def hub_tokenizer(self, plan: Plan) -> tuple[str, str] | None:
        """Name and revision of the plan's tokenizer where Hugging Face's loader reads it."""
        ...

    def checkpoint_name(self, step: int) -> str:
        """What the checkpoint of a step is called in its directory."""
        ...
