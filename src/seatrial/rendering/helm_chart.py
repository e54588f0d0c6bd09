# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A rendered run as a Helm chart, for teams that ship charts.

What may be changed are values that do not touch the plan: where it goes, in which image, under
which account and queue. Nodes, layout and arguments belong together and stay as they were planned;
for others, change the spec and render again. A value that the chart does not know is an error, by
its schema: charts that ignore one in silence are how volumes got wrong names (see ADR 8).
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from seatrial.planning.plan import Plan
from seatrial.rendering.files import file_name
from seatrial.rendering.manifest import Manifest
from seatrial.rendering.render import Rendering
from seatrial.rendering.scheduling import QUEUE_LABEL
from seatrial.rendering.yaml_text import yaml_text
from seatrial.version import VERSION


@dataclass(frozen=True, slots=True)
class Value:
    """Something that the chart's user may set."""

    key: str
    """Its name in values.yaml."""
    given: str
    """What was rendered."""
    about: str
    """What it is, for values.yaml and the schema."""
    pattern: str
    """What it must look like."""

    @property
    def token(self) -> str:
        """What stands in its place while YAML is written."""
        return f"SEATRIAL_HELM_VALUE_{self.key}"


def chart_files(rendering: Rendering, plan: Plan) -> dict[str, str]:
    """The files of the chart."""
    values = _values(rendering, plan)
    files = {
        "Chart.yaml": yaml_text(_chart(plan)),
        "values.yaml": "".join(
            f"# {value.about}\n{value.key}: {json.dumps(value.given)}\n" for value in values
        ),
        "values.schema.json": json.dumps(_schema(values), indent=2) + "\n",
    }
    for number, manifest in enumerate(rendering.manifests, start=1):
        files[f"templates/{file_name(number, manifest)}"] = _template(manifest, values)
    return files


def _chart(plan: Plan) -> Manifest:
    return {
        "apiVersion": "v2",
        "name": plan.spec.name,
        "description": plan.spec.description or f"The run {plan.spec.name}",
        "type": "application",
        "version": VERSION,
        "appVersion": VERSION,
        "annotations": {"seatrial.dev/plan-digest": plan.digest},
    }


def _values(rendering: Rendering, plan: Plan) -> list[Value]:
    name = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"
    cluster = plan.spec.cluster
    values = [
        Value("image", _image(rendering), "Container image of training.", r"^[^\s]+$"),
        Value("namespace", cluster.namespace, "Namespace of the run.", name),
    ]
    if cluster.queue is not None:
        values.append(Value("queue", cluster.queue, "Kueue local queue that admits it.", name))
    if cluster.storage.claim is not None:
        about = "Existing claim of the shared volume."
        values.append(Value("claim", cluster.storage.claim, about, name))
    if cluster.service_account is not None:
        about = "Existing service account of the pods."
        values.append(Value("serviceAccount", cluster.service_account, about, name))
    return values


def _image(rendering: Rendering) -> str:
    found: list[str] = []

    def look(key: str, value: Any) -> Any:
        if key == "image" and isinstance(value, str):
            found.append(value)
        return value

    _changed(rendering.manifests[-1], look)
    _changed(list(rendering.manifests), look)
    return found[0]


def _template(manifest: Manifest, values: list[Value]) -> str:
    """The manifest with values in place of what they replace; all else is taken as it stands."""
    places = {
        "image": ("image",),
        "namespace": ("namespace", "kubernetes.io/metadata.name"),
        "queue": (QUEUE_LABEL,),
        "claim": ("claimName",),
        "serviceAccount": ("serviceAccountName",),
    }
    tokens = {(place, v.given): v.token for v in values for place in places[v.key]}

    def replaced(key: str, value: Any) -> Any:
        return tokens.get((key, value), value) if isinstance(value, str) else value

    text = yaml_text(_changed(manifest, replaced))
    # Braces of the run's own are no template; Helm prints a text in backquotes as it is.
    text = text.replace("{{", "{{ `{{` }}")
    for value in values:
        text = text.replace(value.token, f"{{{{ .Values.{value.key} | quote }}}}")
    return text


def _changed(value: Any, change: Callable[[str, Any], Any], key: str = "") -> Any:
    """A copy of plain data in which each value went through a function, with its key."""
    if isinstance(value, dict):
        return {name: _changed(below, change, name) for name, below in value.items()}
    if isinstance(value, list | tuple):
        return [_changed(below, change, key) for below in value]
    return change(key, value)


def _schema(values: list[Value]) -> Manifest:
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "additionalProperties": False,
        "required": [value.key for value in values],
        "properties": {
            # Helm itself puts this one in.
            "global": {"type": "object"},
            **{
                value.key: {
                    "type": "string",
                    "description": value.about,
                    "pattern": value.pattern,
                }
                for value in values
            },
        },
    }
