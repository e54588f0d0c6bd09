# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A kept plan: what the planner chose, for which spec, facts and constants, under a digest.

A plan that is read back is not believed: the choices in it are resolved again by the same rules,
and the result must have the digest that was kept.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from pydantic_core import to_jsonable_python

from seatrial.catalog.catalog import Kind
from seatrial.hashing import digest
from seatrial.planning.calibration import Calibration
from seatrial.planning.choices import LAYOUT_FIELDS, SAVES, STAGE_ENDS, Choices
from seatrial.planning.memory.constants import constants as memory_constants
from seatrial.planning.plan import Plan
from seatrial.planning.resolve import Basis
from seatrial.planning.saving.interval import rate_of
from seatrial.planning.timing.constants import constants_for, table
from seatrial.spec.run import RunSpec
from seatrial.storage.state_files import parse_json

FORMAT = 1
"""Version of the file's format."""
_FIELDS = frozenset((*LAYOUT_FIELDS, *STAGE_ENDS, SAVES))


@dataclass(frozen=True, slots=True)
class Inputs:
    """Digests of all that a plan depends on.

    Spec and facts say what is asked; choices are used until one of them changes. Constants and
    calibration say how the answers were compared; another comparison leaves them legal.
    """

    spec: str
    """What was asked for."""
    facts: str
    """The entries of the catalog that it uses."""
    constants: str
    """The constants of memory and time."""
    calibration: str
    """The user's own measurements."""

    def ask_the_same(self, earlier: "Inputs") -> bool:
        """Whether choices for the earlier question answer this one."""
        return (self.spec, self.facts) == (earlier.spec, earlier.facts)

    def changed_since(self, earlier: "Inputs") -> list[str]:
        """What is not as it was, in words."""
        words = {
            "spec": "the spec",
            "facts": "facts of the catalog",
            "constants": "the planner's constants",
            "calibration": "the calibration",
        }
        pairs = [(words[f.name], f.name) for f in fields(self)]
        return [word for word, name in pairs if getattr(self, name) != getattr(earlier, name)]


@dataclass(frozen=True, slots=True)
class KeptPlan:
    inputs: Inputs
    """What it was made from."""
    choices: Choices
    """The fields that the planner filled."""
    plan_digest: str


def inputs_of(basis: Basis, calibration: Calibration | None) -> Inputs:
    """The digests of what a plan of the spec depends on."""
    spec, catalog = basis.loaded.spec, basis.catalog
    wanted = spec.model_dump(mode="json", by_alias=True)
    # Words for people change no layout.
    del wanted["description"]
    machines = basis.machines
    names = [(Kind.PROFILES, machines.profile), (Kind.NODE_TYPES, machines.node_type)]
    if machines.accelerator:
        names.append((Kind.ACCELERATORS, machines.accelerator))
    if basis.preset is not None:
        names.append((Kind.MODELS, basis.preset[0]))
    claimed = machines.storage.startswith("claim/")
    # Of a claim the tier is not known; saves are then reckoned with the profile's own.
    tier = catalog.profile(machines.profile).default_storage if claimed else machines.storage
    names.append((Kind.STORAGE, tier))
    facts = {
        # Another price changes what a layout costs, and not which one is chosen.
        f"{kind}/{name}": catalog.entry(kind, name).model_dump(mode="json", exclude={"price"})
        for kind, name in names
    }
    measured = asdict(calibration) if calibration is not None else None
    return Inputs(
        digest(wanted),
        digest(facts),
        _constants(spec, machines.accelerator, basis.limits.stack),
        digest(measured),
    )


def _constants(spec: RunSpec, accelerator: str, stack: str) -> str:
    """The digest of every fitted figure that a plan of the spec depends on."""
    used: dict[str, Any] = {
        "memory": memory_constants(stack),
        "failures": rate_of(spec.cluster.failures_per_gpu_year),
    }
    if accelerator:
        # The version is of the whole file, and other accelerators in it are not of this plan.
        own = constants_for(accelerator, spec.training.precision, stack)
        used["time"] = replace(own, version="")
        used["errors"] = replace(table(), version="", fits=())
    return digest(to_jsonable_python(used))


def record_text(inputs: Inputs, choices: Choices, plan: Plan) -> str:
    """The file of a kept plan."""
    content: dict[str, Any] = {
        "format": FORMAT,
        "run": plan.spec.name,
        "inputs": asdict(inputs),
        "choices": dict(choices),
        "plan_digest": plan.digest,
        "plan": plan.to_dict(),
    }
    content["digest"] = digest(content)
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def read_record(text: bytes | str) -> KeptPlan | None:
    """The kept plan in a file; nothing when it is not as it was written."""
    try:
        content = parse_json(text)
        kept = content.pop("digest")
        if content["format"] != FORMAT or digest(content) != kept:
            return None
        choices = _choices(content["choices"])
        return KeptPlan(Inputs(**content["inputs"]), choices, content["plan_digest"])
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _choices(given: Mapping[str, Any]) -> Choices:
    """The choices, refused when they name a field that the planner never fills."""
    for field, value in given.items():
        if field not in _FIELDS or not isinstance(value, int | str):
            raise ValueError(field)
    return dict(given)
