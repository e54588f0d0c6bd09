# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The interface of a training engine. Each engine is a folder next to this file.

Only these folders know the names of an engine's options, of the files it writes and of the modules
that start it. All other code asks the engine of the spec, from `engines/registry.py`.
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
"""True for a flag that is on; None omits the argument; a tuple is a list of values."""

Arguments = dict[str, ArgumentValue]
"""An engine's arguments by its own names, before they become a command line."""


class DataFormat(StrEnum):
    """The format of an engine's prepared data."""

    INDEXED = "indexed"
    """Megatron's `.bin` and `.idx`: documents, which training splits into samples."""
    MDS = "mds"
    """The streaming library's shards: samples of the sequence length, one folder per split."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A setting of a spec that the engine would reject, or that belongs elsewhere."""

    code: EngineCode
    field: str
    """The field of the spec."""
    rule: str
    fix: str


@dataclass(frozen=True, slots=True)
class RunProblem:
    """An engine-specific problem of a run, reported by a check rule."""

    code: CheckCode
    field: str
    """The field of the spec."""
    rule: str
    fix: str
    value: str
    """The wrong value."""
    override: str = ""
    """The spec change that fixes it; empty to remove the field."""
    is_warning: bool = False
    """True if the engine would continue."""


@dataclass(frozen=True, slots=True)
class Installation:
    """How to install the engine. It has its own environment, because it includes torch."""

    variable: str
    """The environment variable with the path of that environment's Python."""
    packages: tuple[str, ...]
    """Packages that identify an environment with the engine."""
    command: str
    """The command that installs it."""
    lock: str
    """The complete lock file."""
    extra: str = ""
    """The extra of Seatrial that the command installs; empty if it is not an extra."""


@dataclass(frozen=True, slots=True)
class WorkerModules:
    """The worker modules for the engine, each started as a process."""

    process: str
    """One rank of a rehearsal."""
    pod: str
    """One rank in a pod. Its exit code distinguishes an early stop from a finished run."""
    verdict: str
    """Validates the arguments of a plan with the engine."""
    compare: str
    """Compares two checkpoints bit by bit."""
    logits: str
    """Writes the engine's logits of a checkpoint, to compare an export."""
    import_weights: str = ""
    """Writes Hugging Face weights as a checkpoint of step 0; empty if not supported."""
    index_cache: str = ""
    """Builds the engine's index of samples before training; empty if it has none."""


@dataclass(frozen=True, slots=True)
class Resharding:
    """Continue from a checkpoint in another layout."""

    step: int
    """The step of the checkpoint."""
    layout: Layout
    """The new layout."""


@dataclass(frozen=True, slots=True)
class Trial:
    """The settings of a drill, in addition to the plan of its twin."""

    directory: str
    """The drill's working directory, for files other than checkpoints."""
    checkpoints: str
    """The directory to save to, and to resume from if it has a checkpoint; empty to do neither."""
    mock_tokenizer: bool
    """True if a stand-in of the same size replaces the tokenizer."""
    resharding: Resharding | None = None
    """The layout to continue in, without saving; None to train in the plan's layout."""


class Engine(Protocol):
    """A training engine as the rest of Seatrial sees it.

    Members with a value or a body are defaults. An engine must define the others.
    """

    name: str
    """The name in a spec."""
    title: str
    """The name in a sentence."""
    version: str
    """The version that Seatrial supports."""
    package: str
    """The package of that version, as in records of checkpoints."""
    splits_model: bool
    """True if it supports tp, pp and cp; otherwise all ranks are data-parallel."""
    data_format: DataFormat
    takes_hub_weights: bool = False
    """True if it supports Hugging Face weights as initial weights."""
    needs_tokenizer_class: bool = False
    """True if its tokenizer loader needs a class name in addition to the tokenizer's file."""
    saves_to_object_stores: bool = False
    """True if it can save checkpoints to an object store; otherwise only to files."""
    is_version_bound: bool = False
    """True if names and meanings of its arguments change between minor versions."""
    has_resume_checks: bool = False
    """True if `check` can find out from existing checkpoints what a run would resume from."""
    installation: Installation
    modules: WorkerModules
    checkpoint_class: str
    """The class for its checkpoints, as module and class, because few commands import it."""
    log_class: str
    """The class that parses its logs, as module and class."""
    sharp_option: str = ""
    """The argument that lets it reduce gradients in InfiniBand switches (SHARP); empty if
    NCCL_COLLNET_ENABLE is sufficient."""
    blend_option: str = ""
    """The argument that names the blend file, if the engine reads one."""
    modelled: Mapping[str, str]
    """Options that a field of the spec sets, with that field."""

    def limits(self, spec: RunSpec) -> EngineLimits:
        """Return the layouts that the planner may choose for a spec, and their costs."""
        ...

    def option_problems(self, options: Mapping[str, OptionValue]) -> list[Problem]:
        """Check the options that a spec passes to the engine."""
        ...

    def plan_problems(self, plan: Plan) -> list[Problem]:
        """Return what the engine does not support in a plan."""
        ...

    def run_problems(self, plan: Plan, generation: str) -> list[RunProblem]:
        """Return settings that it would reject or ignore. `generation` is that of the GPUs."""
        return []

    def environment(self, plan: Plan) -> dict[str, str]:
        """Return variables without which the engine rejects the plan or changes it."""
        return {}

    def arguments(self, plan: Plan) -> Arguments:
        """Return the engine's arguments for a plan, including the spec's engine options."""
        ...

    def pod_arguments(self, plan: Plan, *, on_cpu: bool, scratch: str) -> Arguments:
        """Return the arguments for a pod with local disk at `scratch`. It saves before it exits."""
        return self.arguments(plan)

    def verdict_arguments(self, plan: Plan) -> Arguments:
        """Return the arguments for the engine's validation, without files that it would load."""
        return self.arguments(plan)

    def trial_arguments(self, plan: Plan, trial: Trial) -> Arguments:
        """Return the arguments of a drill on a CPU."""
        ...

    def one_rank_arguments(self, arguments: Arguments) -> Arguments:
        """Adapt a run's arguments to one rank in fp32 without saving, for the engine's logits."""
        ...

    def command_line(self, arguments: Arguments) -> list[str]:
        """Format the arguments as the command line of a worker process."""
        ...

    def text(self, arguments: Arguments) -> str:
        """Format the arguments as a file of the engine's own format."""
        ...

    def no_rehearsal(self, plan: Plan) -> str:
        """Return why a plan cannot be rehearsed on a CPU, and the alternative; empty if it can."""
        return ""

    def cpu_precision(self, precision: Precision) -> Precision:
        """Return the precision that replaces the plan's on a CPU."""
        ...

    def data_files(self, prepared: str) -> tuple[str, ...]:
        """Return the files that exist if the data is prepared."""
        ...

    def source_places(self, plan: Plan) -> tuple[str, ...]:
        """Return where each source's prepared data is; empty if the blend file names it."""
        return ()

    def sample_directory(self, plan: Plan, source: str) -> str:
        """Return the directory of a source's samples in the data location, for `DataFormat.MDS`."""
        return ""

    def prepared_splits(self, plan: Plan) -> list[tuple[str, str]]:
        """Return the directories of given splits that a run reads, with their fields."""
        return []

    def hub_tokenizer(self, plan: Plan) -> tuple[str, str] | None:
        """Return name and revision of the plan's tokenizer, if Hugging Face's loader reads it."""
        return None

    def checkpoint_name(self, step: int) -> str:
        """Return the directory name of a step's checkpoint."""
        ...

    @property
    def checkpoints(self) -> "EngineCheckpoints":
        """The functions for its checkpoints."""
        found: EngineCheckpoints = instance_of(self.checkpoint_class)
        return found

    def log_parser(self) -> "LogParser":
        """Return a parser for one log of the engine."""
        parser: LogParser = class_at(self.log_class)()
        return parser
