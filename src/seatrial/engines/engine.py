# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The interface of a training engine. Each engine is a folder next to this file.

Only these folders contain the names of an engine's options, of the files that it writes and of the
modules that start it. All other code calls the spec's engine, from `engines/registry.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from seatrial.checkpoints.naming import CheckpointNaming
from seatrial.codes.checks import CheckCode
from seatrial.codes.engines import EngineCode
from seatrial.monitoring.engine_signals import EngineSignals
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
"""An engine's arguments under its own names, before they become a command line."""


class DataFormat(StrEnum):
    """The format of an engine's prepared data."""

    INDEXED = "indexed"
    """Megatron's `.bin` and `.idx` files: documents, which training splits into samples."""
    MDS = "mds"
    """The streaming library's shards: samples with the sequence length, one folder per split."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A setting in a spec that the engine would reject, or that a different field must set."""

    code: EngineCode
    field: str
    """The spec field."""
    rule: str
    fix: str


@dataclass(frozen=True, slots=True)
class RunProblem:
    """An engine-specific problem with a run, reported by a check rule."""

    code: CheckCode
    field: str
    """The spec field."""
    rule: str
    fix: str
    value: str
    """The wrong value."""
    override: str = ""
    """The spec change that fixes the problem; empty to remove the field."""
    is_warning: bool = False
    """True if the engine would run in spite of the problem."""


@dataclass(frozen=True, slots=True)
class Installation:
    """How to install the engine, which has its own environment because it includes torch."""

    variable: str
    """The environment variable that contains the path of that environment's Python."""
    packages: tuple[str, ...]
    """Packages that identify an environment with the engine."""
    command: str
    """The command that installs the engine."""
    lock: str
    """The complete lock file."""
    extra: str = ""
    """The Seatrial extra that the command installs; empty if the engine is not an extra."""


@dataclass(frozen=True, slots=True)
class WorkerModules:
    """The worker modules for the engine, each started as a process."""

    process: str
    """Runs one rank in a rehearsal."""
    pod: str
    """Runs one rank in a pod. Its exit code distinguishes an early stop from a finished run."""
    verdict: str
    """Validates a plan's arguments with the engine."""
    compare: str
    """Compares two checkpoints bit by bit."""
    logits: str
    """Writes the engine's logits for a checkpoint, to compare them with those of an export."""
    import_weights: str = ""
    """Writes Hugging Face weights as a step-0 checkpoint; empty if not supported."""
    index_cache: str = ""
    """Builds the engine's sample index before training; empty if the engine has no index."""
    full_size: str = ""
    """Counts one rank of the full-size run without a GPU; empty if not supported."""


@dataclass(frozen=True, slots=True)
class Resharding:
    """A resume from a checkpoint with a different layout."""

    step: int
    """The checkpoint's step."""
    layout: Layout
    """The new layout."""


@dataclass(frozen=True, slots=True)
class ShortRun:
    """A few steps in fp32 without dropout and without saving, to compare layouts."""

    steps: int
    layout: Layout
    without_mtp: bool = False
    """True to train without the layers for multi-token prediction."""


@dataclass(frozen=True, slots=True)
class Trial:
    """The settings of a drill, in addition to the twin's plan."""

    directory: str
    """The drill's working directory, for files other than checkpoints."""
    checkpoints: str
    """The directory to save to, and to resume from if it contains a checkpoint; empty for none."""
    mock_tokenizer: bool
    """True if a mock tokenizer with the same vocabulary size replaces the real one."""
    resharding: Resharding | None = None
    """The layout to resume with, without saving; None to train with the plan's layout."""
    short: ShortRun | None = None
    """The layout to compare with another; None to train as the plan does."""


class TrafficKind(StrEnum):
    """What a process group carries."""

    TENSOR = "tensor"
    """Parts of a layer's inputs and outputs, between tensor-parallel ranks."""
    CONTEXT = "context"
    """Keys and values, between context-parallel ranks."""
    EXPERTS = "experts"
    """Tokens, between ranks with different experts."""
    PIPELINE = "pipeline"
    """Activations and their gradients, between stages."""
    REPLICAS = "replicas"
    """Gradients and weights, between model replicas."""
    OTHER = "other"
    """Norms, flags and barriers."""


@dataclass(frozen=True, slots=True)
class DistinctRank:
    """A rank that stands for all ranks that do the same."""

    rank: int
    stage: int
    """Its pipeline stage."""
    represents: int
    """How many ranks of the run do the same."""


@dataclass(frozen=True, slots=True)
class FullSizeArguments:
    """The arguments for counting one rank of the real run on CPU."""

    arguments: Arguments
    dropped: tuple[str, ...]
    """What the count leaves out, in words."""


class Engine(Protocol):
    """A training engine as the rest of Seatrial sees it.

    Members with a value or a body are defaults. An engine must define the other members.
    """

    name: str
    """The name in a spec."""
    title: str
    """The name in a sentence."""
    version: str
    """The version that Seatrial supports."""
    package: str
    """The package and its version, as in checkpoint records."""
    splits_model: bool
    """True if the engine supports tp, pp and cp; otherwise all ranks are data-parallel."""
    data_format: DataFormat
    takes_hub_weights: bool = False
    """True if the engine supports Hugging Face weights as initial weights."""
    needs_tokenizer_class: bool = False
    """True if its tokenizer loader needs a class name in addition to the tokenizer file."""
    saves_to_object_stores: bool = False
    """True if the engine can save checkpoints to an object store; otherwise only to a volume."""
    is_version_bound: bool = False
    """True if the names and meanings of its arguments change between minor versions."""
    takes_strong_weights: bool = False
    """True if drills can start it from strong weights that do not depend on the layout."""
    has_resume_checks: bool = False
    """True if `check` can determine from existing checkpoints what a run would resume from."""
    installation: Installation
    modules: WorkerModules
    checkpoint_naming: CheckpointNaming
    """The names of its checkpoints, and of the files in them that it reads."""
    checkpoint_class: str
    """The class for its checkpoints, as module and class, because few commands import it."""
    log_class: str
    """The class that parses its logs, as module and class."""
    signals: EngineSignals = EngineSignals()
    """What the monitor looks for in its timers, its log and its exit codes."""
    sharp_option: str = ""
    """The argument that lets it reduce gradients in InfiniBand switches (SHARP); empty if
    NCCL_COLLNET_ENABLE is sufficient."""
    blend_option: str = ""
    """The argument that sets the path of the blend file; empty if the engine reads none."""
    rank_timeout_option: str = ""
    """The option for how long ranks wait for each other, in minutes, if the engine has one."""
    rank_timeout_minutes: int = 0
    """How long they wait if the option is not set; 0 if the engine has no such option."""
    vocab_multiple: int = 1
    """It pads the vocabulary to a multiple of this times tp_size."""
    group_kinds: Mapping[str, TrafficKind] = {}
    """What the engine's process groups carry, by their names in a full-size count."""
    modelled: Mapping[str, str]
    """Options that a spec field sets, with the name of that field."""
    message_terms: Mapping[str, str] = {}
    """Terms in its error messages that refer to a spec field but are not option names."""

    def limits(self, spec: RunSpec) -> EngineLimits:
        """Return the layouts that the planner may choose for a spec, and their costs."""
        ...

    def option_problems(self, options: Mapping[str, OptionValue]) -> list[Problem]:
        """Check the options that a spec passes to the engine."""
        ...

    def plan_problems(self, plan: Plan) -> list[Problem]:
        """Return the problems with settings in a plan that the engine does not support."""
        ...

    def run_problems(self, plan: Plan, generation: str, domain: int) -> list[RunProblem]:
        """Return settings that the engine would reject or ignore.

        `generation` is the GPU generation, `domain` the number of GPUs that the fast link connects.
        """
        return []

    def growing_decay_option(self, options: Mapping[str, OptionValue]) -> str:
        """Return the option that makes the weight decay grow over the run; empty if none does."""
        return ""

    def environment(self, plan: Plan) -> dict[str, str]:
        """Return the environment variables without which the engine rejects or changes the plan."""
        return {}

    def gpu_packages(self, plan: Plan) -> dict[str, str]:
        """Return the Python packages, with titles, that a plan needs in addition on GPUs."""
        return {}

    def arguments(self, plan: Plan) -> Arguments:
        """Return the engine's arguments for a plan, including the spec's engine options."""
        ...

    def pod_arguments(self, plan: Plan, *, on_cpu: bool, scratch: str) -> Arguments:
        """Return the arguments for a pod with a local disk at `scratch`.

        The pod saves before it exits.
        """
        return self.arguments(plan)

    def verdict_arguments(self, plan: Plan) -> Arguments:
        """Return the arguments for the engine's validation, without the files it would load."""
        return self.arguments(plan)

    def trial_arguments(self, plan: Plan, trial: Trial) -> Arguments:
        """Return the arguments for a drill on CPU."""
        ...

    def one_rank_arguments(self, arguments: Arguments) -> Arguments:
        """Adapt a run's arguments to one rank in fp32 without saving, for the engine's logits."""
        ...

    def command_line(self, arguments: Arguments) -> list[str]:
        """Format the arguments as the command line of a worker process."""
        ...

    def text(self, arguments: Arguments) -> str:
        """Format the arguments as a file in the engine's own format."""
        ...

    def no_rehearsal(self, plan: Plan) -> str:
        """Return why a plan cannot be rehearsed on CPU, and an alternative; empty if it can."""
        return ""

    def no_full_size(self, plan: Plan) -> str:
        """Return why the engine cannot count a plan's ranks at full size; empty if it can."""
        return f"{self.title} does not support the full-size drill yet. Run the other drills."

    def full_size_ranks(self, plan: Plan) -> tuple[DistinctRank, ...]:
        """Return a rank of each kind that needs different memory or does different work."""
        return ()

    def full_size_arguments(self, plan: Plan, micro_batches: int) -> FullSizeArguments:
        """Return the arguments for counting a rank of the real run on CPU.

        Args:
            plan: The plan.
            micro_batches: How many micro-batches a rank executes.
        """
        raise ValueError(self.no_full_size(plan))

    def not_proven(self, plan: Plan) -> tuple[str, ...]:
        """Return what a rehearsal on CPU cannot verify of this plan, in addition."""
        return ()

    def cpu_precision(self, precision: Precision) -> Precision:
        """Return the precision that replaces the plan's precision on CPU."""
        ...

    def data_files(self, prepared: str) -> tuple[str, ...]:
        """Return the files that exist if the data is prepared."""
        ...

    def source_places(self, plan: Plan) -> tuple[str, ...]:
        """Return the location of each source's prepared data; empty if the blend file lists it."""
        return ()

    def sample_directory(self, plan: Plan, source: str) -> str:
        """Return the directory of a source's samples in the data location, for `DataFormat.MDS`."""
        return ""

    def prepared_splits(self, plan: Plan) -> list[tuple[str, str]]:
        """Return the directories of prepared splits that a run reads, with their spec fields."""
        return []

    def hub_tokenizer(self, plan: Plan) -> tuple[str, str] | None:
        """Return the name and revision of the plan's tokenizer, if Hugging Face loads it."""
        return None

    @property
    def checkpoints(self) -> "EngineCheckpoints":
        """The functions for the engine's checkpoints."""
        found: EngineCheckpoints = instance_of(self.checkpoint_class)
        return found

    def log_parser(self) -> "LogParser":
        """Return a parser for one of the engine's logs."""
        parser: LogParser = class_at(self.log_class)()
        return parser
