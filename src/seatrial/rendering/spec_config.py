# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The spec inside the cluster, for whoever works on the run there, with the facts it speaks of."""

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
"""The part of a run that is the config map with its spec."""


def spec_text(spec: RunSpec) -> str:
    """The spec as it was given, overrides included, in text that is JSON and YAML alike."""
    given = spec.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return _BEYOND_ASCII.sub(_readable, json.dumps(given, indent=2, ensure_ascii=False)) + "\n"


_BEYOND_ASCII = re.compile(r"[\x7f-\uffff]")


def _readable(character: re.Match[str]) -> str:
    """Escape what JSON takes as it is and YAML does not allow, such as U+FFFF."""
    text = character[0]
    return text if text.isprintable() else f"\\u{ord(text):04x}"


def spec_config(scene: Scene, part: str = PART) -> Manifest:
    """The config map that holds the spec, and the catalog of the user's own where there is one."""
    head = metadata(scene.plan, Component.TRAINING, part)
    data = {FILE: spec_text(scene.plan.spec), **scene.own_catalog}
    return manifest("v1", "ConfigMap", head, data=data)


def catalog_environment(scene: Scene) -> dict[str, str]:
    """Where a command in a pod finds the user's own facts; nothing where there are none."""
    return {"SEATRIAL_CATALOG": DIRECTORY} if scene.own_catalog else {}


def spec_mount(plan: Plan, part: str = PART) -> Mount:
    """The spec as a file in a pod."""
    source = {"configMap": {"name": object_name(plan, part)}}
    return Mount("spec", DIRECTORY, source, read_only=True)
