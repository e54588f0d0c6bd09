# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The ConfigMap with the spec and the user's own catalog, for commands inside the cluster."""

import json
import re

from seatrial.planning.plan import Plan
from seatrial.rendering.context import Scene
from seatrial.rendering.manifest import Manifest, manifest
from seatrial.rendering.names import Component, metadata, object_name
from seatrial.rendering.volumes import Mount
from seatrial.spec.run import RunSpec

DIRECTORY = "/etc/seatrial"
FILE = "run.yaml"
PART = "spec"
"""Name part of the ConfigMap."""
DATA_PART = "data-spec"
"""Name part of the ConfigMap of data preparation, which may have other overrides than the run."""


def spec_text(spec: RunSpec) -> str:
    """Return the spec with overrides, as text that is both JSON and YAML."""
    given = spec.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return _BEYOND_ASCII.sub(_readable, json.dumps(given, indent=2, ensure_ascii=False)) + "\n"


_BEYOND_ASCII = re.compile(r"[\x7f-\uffff]")


def _readable(character: re.Match[str]) -> str:
    """Escape characters that JSON allows and YAML does not, such as U+FFFF."""
    text = character[0]
    return text if text.isprintable() else f"\\u{ord(text):04x}"


def spec_config(
    scene: Scene, part: str = PART, component: Component = Component.TRAINING
) -> Manifest:
    """Return the ConfigMap with the spec, and the user's own catalog if there is one."""
    head = metadata(scene.plan, component, part)
    data = {FILE: spec_text(scene.plan.spec), **scene.own_catalog}
    return manifest("v1", "ConfigMap", head, data=data)


def catalog_environment(scene: Scene) -> dict[str, str]:
    """Return the variable that locates the user's own catalog; empty if there is none."""
    return {"SEATRIAL_CATALOG": DIRECTORY} if scene.own_catalog else {}


def spec_mount(plan: Plan, part: str = PART) -> Mount:
    """Return the mount of the spec."""
    source = {"configMap": {"name": object_name(plan, part)}}
    return Mount("spec", DIRECTORY, source, read_only=True)
