# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What Seatrial asks of a training engine; each engine is a folder beside this file.

Nothing outside these folders knows the name of an engine's option, of a file it writes or of a
module that starts it: it asks the engine of the spec, which `engines/registry.py` has by name.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from seatrial.codes.checks import CheckCode
from seatrial.codes.engines import EngineCode
from seatrial.planning.engine_limits import EngineLimits
from seatrial.planning.layout import Layout
from seatrial.planning.plan import Plan
from seatrial.spec.engine import OptionValue, class_at, instance_of
from seatrial.spec.run import RunSpec
from seatrial.spec.training import Precision

if TYPE_CHECKING:
    from seatrial.engines.checkpoints import EngineCheckpoints
    from seatrial.monitoring.logs.parser import LogParser

ArgumentValue = bool | int | float | str | tuple[str | int | float, ...] | None
"""True for a switch that is on; None leaves the argument out; a tuple is several words."""

Arguments = dict[str, ArgumentValue]
"""What an engine is told, by its own names, before it becomes words of a command line."""


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
    fix: str


@dataclass(frozen=True, slots=True)
class RunProblem:
    """Something of a run that only its engine minds, as a rule of the check reports it."""

    code: CheckCode
    """What kind of problem it is."""
    field: str
    """The field of the spec."""
    rule: str
    fix: str
    value: str
    """The value at fault."""
    override: str = ""
    """The change of the spec that removes it; empty to take the field away."""
    is_warning: bool = False
    """Whether the engine would go on."""


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
    extra: str = ""
    """The extra of Seatrial that the command installs; empty if it is not one."""


@dataclass(frozen=True, slots=True)
class WorkerModules:
    """The modules of the worker that talk to the engine, each started as a process."""

    process: str
    """One rank of a rehearsal."""
    pod: str
    """One rank in a pod, whose exit code tells an early end from a finished run."""
    verdict: str
    """Asks the engine's own validation about the arguments of a plan."""
    compare: str
    """Compares two checkpoints bit for bit."""
    logits: str
    """Writes the engine's logits of a checkpoint, for the gate of an export."""
    import_weights: str = ""
    """Writes Hugging Face weights as a checkpoint of step 0; empty if it cannot."""
    index_cache: str = ""
    """Builds the engine's index of samples before training asks for it; empty if it has none."""


@dataclass(frozen=True, slots=True)
class Resharding:
    """A layout to continue in that is not the one of the checkpoint."""

    step: int
    """The step of the checkpoint."""
    layout: Layout
    """What to continue in."""


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
    """A training engine as the rest of Seatrial sees it.

    What has a value here is what an engine has that says nothing else; the rest it must give.
    """

    name: str
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
    takes_hub_weights: bool = False
    """Whether Hugging Face weights can be brought in for it."""
    needs_tokenizer_class: bool = False
    """Whether its loader of tokenizers wants a class named beside the tokenizer's file."""
    saves_to_object_stores: bool = False
    """Whether it could write a checkpoint to an address; else it writes files alone."""
    is_version_bound: bool = False
    """Whether its arguments have other names and meanings in another minor version."""
    has_resume_checks: bool = False
    """Whether `check` can tell from the checkpoints that are there what a run would go on from."""
    installation: Installation
    """How it comes to a host."""
    modules: WorkerModules
    """What of the worker talks to it."""
    checkpoint_class: str
    """The class that knows its checkpoints, as module and class: few commands import it."""
    log_class: str
    """The class that reads its logs, as module and class."""
    blend_option: str = ""
    """The argument that names the file of the blend, where the engine reads one."""
    modelled: Mapping[str, str]
    """Options that a spec sets through a field of its own, and that field."""

    def limits(self, spec: RunSpec) -> EngineLimits:
        """The layouts that the planner may choose from for a spec, and what they cost."""
        ...

    def option_problems(self, options: Mapping[str, OptionValue]) -> list[Problem]:
        """What is wrong with options that a spec passes through to the engine."""
        ...

    def plan_problems(self, plan: Plan) -> list[Problem]:
        """What the engine cannot do of a plan."""
        ...

    def run_problems(self, plan: Plan, generation: str) -> list[RunProblem]:
        """What of a run it would stop at, or not read; `generation` is that of the GPUs."""
        return []

    def environment(self, plan: Plan) -> dict[str, str]:
        """Variables without which the engine refuses the plan, or would run another one."""
        return {}

    def arguments(self, plan: Plan) -> Arguments:
        """What the engine is told for a plan, options that the spec passes through included."""
        ...

    def pod_arguments(self, plan: Plan, *, on_cpu: bool, scratch: str) -> Arguments:
        """What it is told in a pod with local disk at `scratch`; asked to end, it saves first."""
        return self.arguments(plan)

    def verdict_arguments(self, plan: Plan) -> Arguments:
        """What its own validation is told: the plan's arguments, without what it would load."""
        return self.arguments(plan)

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
        return ""

    def cpu_precision(self, precision: Precision) -> Precision:
        """The number format that stands for the plan's on a CPU; the same where it can."""
        ...

    def data_files(self, prepared: str) -> tuple[str, ...]:
        """The files by which prepared data are known to be there."""
        ...

    def source_places(self, plan: Plan) -> tuple[str, ...]:
        """Where the prepared data of each source are; empty if the blend's file tells."""
        return ()

    def sample_directory(self, plan: Plan, source: str) -> str:
        """Where samples of a source are below the data's place, for `DataFormat.MDS`."""
        return ""

    def prepared_splits(self, plan: Plan) -> list[tuple[str, str]]:
        """The directories of given splits that are read, each after the field that names it."""
        return []

    def hub_tokenizer(self, plan: Plan) -> tuple[str, str] | None:
        """Name and revision of the plan's tokenizer where Hugging Face's loader reads it."""
        return None

    def checkpoint_name(self, step: int) -> str:
        """What the checkpoint of a step is called in its directory."""
        ...

    @property
    def checkpoints(self) -> "EngineCheckpoints":
        """What its checkpoints depend on and hold."""
        found: EngineCheckpoints = instance_of(self.checkpoint_class)
        return found

    def log_parser(self) -> "LogParser":
        """A reader for one log that the engine has printed."""
        parser: LogParser = class_at(self.log_class)()
        return parser
