# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The fields that a spec leaves to the planner, and the values that fill them."""

from collections.abc import Mapping
from typing import Any

from seatrial.planning.plan import Origin
from seatrial.spec.model import Architecture
from seatrial.spec.parallelism import Recompute, Sharding
from seatrial.spec.run import RunSpec
from seatrial.spec.scalars import AUTO

Choice = int | bool | str
Choices = Mapping[str, Choice]
"""The chosen values by the dotted names of their fields."""

SAVES = "checkpoints.every_steps"
BATCH = "training.global_batch_size"
LAYOUT_FIELDS = (
    "parallelism.tp_size",
    "parallelism.pp_size",
    "parallelism.vp_size",
    "parallelism.cp_size",
    "parallelism.ep_size",
    "parallelism.sequence_parallel",
    "parallelism.sharding",
    "parallelism.recompute",
    "training.micro_batch_size",
    BATCH,
)
"""Fields that the search fills."""
STAGE_ENDS = ("parallelism.first_stage_layers", "parallelism.last_stage_layers")
"""Fields that the search sets for uneven stages; they are never `auto`."""


def value_at(spec: RunSpec, field: str) -> Any:
    """Return the value of a field such as `parallelism.tp_size`."""
    section, _, key = field.partition(".")
    return getattr(getattr(spec, section), key)


def open_fields(spec: RunSpec, model: Architecture) -> list[str]:
    """Return the `auto` fields in a spec, except fields with only one possible value."""
    given = spec.parallelism
    forced = {
        "parallelism.ep_size": model.moe is None,
        "parallelism.vp_size": given.pp_size == 1,
        "parallelism.sequence_parallel": given.tp_size == 1,
    }
    return [
        field
        for field in (*LAYOUT_FIELDS, SAVES)
        if value_at(spec, field) == AUTO and not forced.get(field)
    ]


def origins_of(choices: Choices, published_batch: int) -> dict[str, Origin]:
    """Return the origins of chosen values: forced values and published batches are separate."""
    origins = dict.fromkeys(choices, Origin.PLANNER)
    forced = {
        "parallelism.vp_size": choices.get("parallelism.pp_size") == 1,
        "parallelism.sequence_parallel": choices.get("parallelism.tp_size") == 1,
    }
    origins |= {field: Origin.DEFAULT for field in origins if forced.get(field)}
    if BATCH in choices and choices[BATCH] == published_batch:
        origins[BATCH] = Origin.CATALOG
    return origins


def fill(spec: RunSpec, choices: Choices) -> RunSpec:
    """Return the spec with values in place of `auto`; raise ValueError for an invalid value."""
    by_section: dict[str, dict[str, Any]] = {}
    for field, value in choices.items():
        section, _, key = field.partition(".")
        by_section.setdefault(section, {})[key] = _typed(key, value)
    changed = {
        section: getattr(spec, section).model_copy(update=values)
        for section, values in by_section.items()
    }
    return spec.model_copy(update=changed)


def _typed(key: str, value: Choice) -> Any:
    """Convert the value to the type of its field."""
    if key == "sharding":
        return Sharding(str(value))
    return Recompute(str(value)) if key == "recompute" else value
