# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The root of a spec: one run."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    PlainValidator,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from seatrial.codes.spec import SpecCode
from seatrial.spec.addresses import STORED, Address, check_address
from seatrial.spec.base import DEFAULTS, SpecModel, added_later, broken, require_one_of
from seatrial.spec.checkpoints import CheckpointsSpec
from seatrial.spec.cluster import ClusterSpec
from seatrial.spec.data import DataSpec
from seatrial.spec.engine import EngineSpec
from seatrial.spec.model import ModelSpec
from seatrial.spec.monitoring import MonitoringSpec
from seatrial.spec.parallelism import ParallelismSpec
from seatrial.spec.performance import PerformanceSpec
from seatrial.spec.scalars import Flag, RunName
from seatrial.spec.training import TrainingSpec, as_benchmark

WeightsAddress = Annotated[
    str,
    Field(pattern=rf"^(hf://[^\s@]+/[^\s@]+(@[^\s@]+)?|{STORED}|/\S*)$"),
    BeforeValidator(check_address),
]
"""The address of Hugging Face weights: on the Hub, in a store, or a path."""


class InitialWeights(SpecModel):
    """Weights that a new run starts from, with new optimizer state, schedule and data order."""

    checkpoint: Address | None = Field(default=None, min_length=1)
    """Path or URL of a checkpoint from the same engine."""
    huggingface: WeightsAddress | None = Field(default=None, validate_default=True)
    """Hugging Face weights: `hf://OWNER/NAME@REVISION`, a directory, or `s3://`, `abfs://`, `gs://`."""

    @field_validator("huggingface")
    @classmethod
    def _exactly_one(cls, huggingface: object, info: ValidationInfo) -> object:
        require_one_of(info.data, huggingface, "checkpoint", "huggingface")
        return huggingface


def _step(value: object) -> object:
    """Check that the value is a step number or `latest`."""
    if value == "latest" or (isinstance(value, int) and not isinstance(value, bool) and value > 0):
        return value
    raise broken("must be a step number or latest.", "Write a number such as 5000.", SpecCode.TYPE)


class ContinueFrom(SpecModel):
    """The parent run to continue: its weights, optimizer state and step, with a new spec."""

    run: RunName
    """Name of the parent run."""
    checkpoints: Address | None = Field(default=None, min_length=1)
    """Location of the parent's checkpoints; if not set, the default location for that run."""
    step: Annotated[
        int | Literal["latest"],
        PlainValidator(_step),
        WithJsonSchema(
            {"anyOf": [{"type": "integer", "exclusiveMinimum": 0}, {"const": "latest"}]}
        ),
    ] = "latest"
    """Step to continue from; `latest` is the newest verified checkpoint."""
    reset_schedule: Flag = False
    """True to restart the learning-rate schedule at that step; the optimizer state is kept."""


VariantOverride = Annotated[str, Field(pattern=r"^[A-Za-z_][^\s=]*=\S(.*\S)?$")]
"""An override as on the command line, such as `parallelism.tp_size=2`."""

API_VERSION = "seatrial.dev/v1alpha1"
"""The version of the spec format that this version of Seatrial writes."""


class RunSpec(SpecModel):
    """One run: the settings that you choose, without values that can be derived from them."""

    api_version: Literal["seatrial.dev/v1alpha1"] = Field(alias="apiVersion")
    """Version of the spec format."""
    name: RunName
    """Name of the run; used in Kubernetes objects, paths and labels."""
    description: str = ""
    """Free-text description of the run."""
    model: ModelSpec
    """The model to train."""
    initial_weights: InitialWeights | None = None
    """Weights to start from; defaults to random weights."""
    continue_from: ContinueFrom | None = None
    """Earlier run to continue; if not set, this is a new run."""
    data: DataSpec
    """The training data."""
    training: TrainingSpec
    """How the model is trained."""
    parallelism: ParallelismSpec = DEFAULTS
    """How the model is distributed over ranks."""
    performance: PerformanceSpec = added_later(PerformanceSpec())
    """Options that change speed and memory, not the result."""
    cluster: ClusterSpec
    """The cluster that the run uses."""
    checkpoints: CheckpointsSpec = DEFAULTS
    """When checkpoints are saved, and which are kept."""
    monitoring: MonitoringSpec = DEFAULTS
    """Where metrics are sent."""
    engine: EngineSpec = DEFAULTS
    """The training engine and its options."""
    # Left out of dumps: each variant is a run of its own, and adding one changes no other run.
    variants: Mapping[RunName, tuple[VariantOverride, ...]] = Field(default={}, exclude=True)
    """Names of variants and their overrides; `seatrial sweep` launches them in turn."""

    @model_validator(mode="before")
    @classmethod
    def _benchmark(cls, spec: Any) -> Any:
        training = spec.get("training") if isinstance(spec, dict) else None
        steps = training.get("benchmark_steps") if isinstance(training, dict) else None
        # The field itself reports a value that is not a positive number.
        if not isinstance(steps, int) or isinstance(steps, bool) or steps < 1:
            return spec
        return as_benchmark(spec, steps)

    @field_validator("continue_from")
    @classmethod
    def _one_beginning(
        cls, continue_from: ContinueFrom | None, info: ValidationInfo
    ) -> ContinueFrom | None:
        if continue_from is not None and info.data.get("initial_weights") is not None:
            raise broken(
                "a run that continues a parent run loads the parent's weights.",
                "Keep initial_weights or continue_from, not both.",
            )
        if continue_from is not None and continue_from.run == info.data.get("name"):
            raise broken(
                "a run cannot continue itself; to resume a stopped run, launch it again.",
                "Give this run a different name, or remove continue_from.",
                inside=("run",),
            )
        return continue_from
