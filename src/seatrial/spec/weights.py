# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What a run starts from: earlier weights, or an earlier run."""

from typing import Annotated, Literal

from pydantic import Field, PlainValidator, ValidationInfo, WithJsonSchema, field_validator

from seatrial.spec.addresses import Address
from seatrial.spec.base import SpecModel, broken, require_one_of
from seatrial.spec.codes import SpecCode
from seatrial.spec.scalars import Flag, RunName


class InitialWeights(SpecModel):
    """Weights that a new run starts from, with a fresh optimizer, schedule and data order."""

    checkpoint: Address | None = Field(default=None, min_length=1)
    """Path or address of a checkpoint of the same engine."""
    huggingface: str | None = Field(
        default=None, validate_default=True, pattern=r"^(hf://[^\s@]+/[^\s@]+(@[^\s@]+)?|/\S*)$"
    )
    """Hugging Face weights, as `hf://OWNER/NAME@REVISION` or a directory; brought in once."""

    @field_validator("huggingface")
    @classmethod
    def _exactly_one(cls, huggingface: object, info: ValidationInfo) -> object:
        require_one_of(info.data, huggingface, "checkpoint", "huggingface")
        return huggingface


def _step(value: object) -> object:
    """A step's number, or `latest`."""
    if value == "latest" or (isinstance(value, int) and not isinstance(value, bool) and value > 0):
        return value
    raise broken(
        "must be the number of a step or latest.", "Write a number such as 5000.", SpecCode.TYPE
    )


class ContinueFrom(SpecModel):
    """A run that this one follows: its weights, optimizer state and step go on, with a new spec."""

    run: RunName
    """Name of the parent run."""
    checkpoints: Address | None = Field(default=None, min_length=1)
    """Where the parent's checkpoints lie; its usual place when absent."""
    step: Annotated[
        int | Literal["latest"],
        PlainValidator(_step),
        WithJsonSchema(
            {"anyOf": [{"type": "integer", "exclusiveMinimum": 0}, {"const": "latest"}]}
        ),
    ] = "latest"
    """The step to continue from; the newest verified checkpoint when `latest`."""
    reset_schedule: Flag = False
    """Whether the learning-rate schedule starts anew there; the optimizer's state is kept."""
