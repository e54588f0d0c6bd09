# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A stored plan: the planner's choices, with digests of the spec, facts and constants.

A plan that is read back is not trusted: its choices are resolved again with the same rules, and the
result must have the stored digest.
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
from seatrial.planning.plan import Origin, Plan
from seatrial.planning.resolve import Basis
from seatrial.planning.saving.interval import rate_of
from seatrial.planning.timing.constants import constants_for, table
from seatrial.spec.run import RunSpec
from seatrial.spec.scalars import AUTO
from seatrial.storage.state_files import parse_json

FORMAT = 1
"""Version of the file's format."""
_FIELDS = frozenset((*LAYOUT_FIELDS, *STAGE_ENDS, SAVES))


@dataclass(frozen=True, slots=True)
class Inputs:
    """Digests of everything that a plan depends on.

    Choices are used until the spec or the facts change. Constants and calibration only affect how
    layouts are compared: if these change, the choices stay valid.
    """

    spec: str
    facts: str
    """The catalog entries that the plan uses."""
    constants: str
    """The constants of the memory and time models."""
    calibration: str
    """The user's measurements."""

    def ask_the_same(self, earlier: "Inputs") -> bool:
        """Return True if choices for the earlier inputs are valid for these."""
        return (self.spec, self.facts) == (earlier.spec, earlier.facts)

    def changed_since(self, earlier: "Inputs") -> list[str]:
        """Return the names of the inputs that changed."""
        words = {
            "spec": "the spec",
            "facts": "the catalog",
            "constants": "the planner's constants",
            "calibration": "the calibration",
        }
        pairs = [(words[f.name], f.name) for f in fields(self)]
        return [word for word, name in pairs if getattr(self, name) != getattr(earlier, name)]


@dataclass(frozen=True, slots=True)
class KeptPlan:
    inputs: Inputs
    choices: Choices
    """The fields that the planner filled."""
    layout_digest: str


UNUSED: Mapping[str, Any] = {
    # A price changes the cost of a layout, but not which one is chosen.
    "price": True,
    # Facts for manifests only. Plans that were stored before the catalog had them stay valid.
    "topology": True,
    "other_fabrics": True,
    "cpu_node_labels": True,
    "cpu_tolerations": True,
    "auto_resume_namespaces": True,
    "visible_after_seconds": True,
    # Where the architecture was read; the architecture itself is a fact of its own.
    "series": True,
    "config": True,
    "without": True,
    "huggingface": True,
    "verified": True,
    "init_std": True,
    "exact_gelu": True,
    "differences": True,
    "quantized": True,
    "images": {"tensorboard"},
    "sources": {"auto_resume_namespaces", "visible_after_seconds"},
}
"""Catalog facts that do not affect which layout is chosen."""


def inputs_of(basis: Basis, calibration: Calibration | None) -> Inputs:
    """Return the digests of everything that a plan for the spec depends on."""
    spec, catalog = basis.loaded.spec, basis.catalog
    wanted = spec.model_dump(mode="json", by_alias=True)
    # The description does not affect the layout.
    del wanted["description"]
    machines = basis.machines
    names = [(Kind.PROFILES, machines.profile), (Kind.NODE_TYPES, machines.node_type)]
    if machines.accelerator:
        names.append((Kind.ACCELERATORS, machines.accelerator))
    if spec.model.preset is not None and basis.preset is not None:
        names.append((Kind.MODELS, basis.preset[0]))
    claimed = machines.storage.startswith("claim/")
    # The tier of an existing PVC is unknown; the profile's default is assumed for saves.
    tier = catalog.profile(machines.profile).default_storage if claimed else machines.storage
    names.append((Kind.STORAGE, tier))
    facts = {
        f"{kind}/{name}": catalog.entry(kind, name).model_dump(mode="json", exclude=UNUSED)
        for kind, name in names
    }
    if spec.model.huggingface is not None and basis.preset is not None:
        # The source has the digest of the config.json.
        address = f"huggingface/{spec.model.huggingface}"
        facts[address] = basis.preset[1].model_dump(mode="json", exclude=UNUSED)
    measured = asdict(calibration) if calibration is not None else None
    return Inputs(
        digest(wanted),
        digest(facts),
        _constants(spec, machines.accelerator, basis.limits.stack),
        digest(measured),
    )


def _constants(spec: RunSpec, accelerator: str, stack: str) -> str:
    """Return the digest of every fitted constant that a plan for the spec depends on."""
    used: dict[str, Any] = {
        "memory": memory_constants(stack),
        "failures": rate_of(spec.cluster.failures_per_gpu_year),
    }
    if accelerator:
        # The version covers the whole file, including accelerators that this plan does not use.
        own = constants_for(accelerator, spec.training.precision, stack)
        used["time"] = replace(own, version="")
        used["errors"] = replace(table(), version="", fits=())
    return digest(to_jsonable_python(used))


def record_text(inputs: Inputs, choices: Choices, plan: Plan, spec_file: str) -> str:
    """Return the file content of a stored plan; `spec_file` is the name of its spec."""
    content: dict[str, Any] = {
        "format": FORMAT,
        "run": plan.spec.name,
        "spec_file": spec_file,
        "inputs": asdict(inputs),
        "choices": dict(choices),
        "plan_digest": plan.digest,
        "layout_digest": layout_digest(plan),
        "plan": plan.to_dict(),
    }
    content["digest"] = digest(content)
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def layout_digest(plan: Plan) -> str:
    """Return the digest of a plan without the performance options that the planner chose.

    These follow from the layout. If a later version chooses others, the layout stays valid.
    """
    spec = plan.spec
    chosen = {
        name: AUTO
        for name in type(spec.performance).model_fields
        if plan.origins.get(f"performance.{name}") is Origin.PLANNER
    }
    performance = spec.performance.model_copy(update=chosen)
    return replace(plan, spec=spec.model_copy(update={"performance": performance})).digest


def read_record(text: bytes | str) -> KeptPlan | None:
    """Return the stored plan in a file, or None if the file was modified."""
    try:
        content = parse_json(text)
        kept = content.pop("digest")
        if content["format"] != FORMAT or digest(content) != kept:
            return None
        choices = _choices(content["choices"])
        # Plans of version 0.1.0 have no performance options.
        own = content.get("layout_digest", content["plan_digest"])
        return KeptPlan(Inputs(**content["inputs"]), choices, own)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def spec_file_of(text: bytes | str) -> str:
    """Return the name of the spec that a stored plan belongs to; empty if it is unknown."""
    try:
        return str(parse_json(text).get("spec_file", ""))
    except (ValueError, AttributeError):
        return ""


def _choices(given: Mapping[str, Any]) -> Choices:
    """Return the choices; raise if they contain a field that the planner never fills."""
    for field, value in given.items():
        if field not in _FIELDS or not isinstance(value, int | str):
            raise ValueError(field)
    return dict(given)
