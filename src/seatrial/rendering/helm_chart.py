# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A rendered run as a Helm chart, for teams that ship charts.

The chart's values are settings that do not affect the plan: namespace, image, account and queue.
Nodes, layout and arguments depend on each other and stay as planned; to change them, change the
spec and render again. The schema rejects unknown values: charts that silently ignore them have led
to wrong volume names (see ADR 8).
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from seatrial.planning.plan import Plan
from seatrial.rendering.manifest import Manifest
from seatrial.rendering.network import METADATA_NAME
from seatrial.rendering.render import Rendering
from seatrial.rendering.scheduling import QUEUE_LABEL
from seatrial.rendering.yaml_text import Expression, file_name, yaml_text
from seatrial.version import VERSION
from seatrial.yaml_scalars import quoted


@dataclass(frozen=True, slots=True)
class Value:
    """A setting of the chart."""

    key: str
    """Its key in values.yaml."""
    given: str
    about: str
    """Its description in values.yaml and the schema."""
    pattern: str
    """Regular expression for valid values."""

    places: tuple[tuple[str, str], ...]
    """Where manifests contain it: the section and the key."""

    @property
    def expression(self) -> Expression:
        """The Helm expression that replaces it."""
        return Expression(f"{{{{ .Values.{self.key} | quote }}}}")


def chart_files(rendering: Rendering, plan: Plan) -> dict[str, str]:
    values = _values(rendering, plan)
    files = {
        "Chart.yaml": yaml_text(_chart(plan)),
        "values.yaml": "".join(
            f"# {value.about}\n{value.key}: {quoted(value.given)}\n" for value in values
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
    spaces = (("metadata", "namespace"), ("matchLabels", METADATA_NAME))
    values = [
        Value("image", _image(rendering), "Container image for training.", r"^[^\s]+$", _IMAGES),
        Value("namespace", cluster.namespace, "Namespace of the run.", name, spaces),
    ]
    if cluster.queue is not None:
        about = "Kueue local queue that admits it."
        values.append(Value("queue", cluster.queue, about, name, (("labels", QUEUE_LABEL),)))
    if cluster.storage.claim is not None:
        about, places = "Existing PVC for the shared volume.", _CLAIMS
        values.append(Value("claim", cluster.storage.claim, about, name, places))
    if cluster.service_account is not None:
        about, places = "Existing service account for the pods.", (("spec", "serviceAccountName"),)
        values.append(Value("serviceAccount", cluster.service_account, about, name, places))
    return values


_IMAGES = (("containers", "image"), ("initContainers", "image"))
_CLAIMS = (("persistentVolumeClaim", "claimName"),)


def _image(rendering: Rendering) -> str:
    """Return the image of the job, which is the last manifest with pods."""
    images = (
        str(value)
        for manifest in reversed(rendering.manifests)
        for section, key, value in _leaves(manifest)
        if (section, key) in _IMAGES
    )
    return next(images)


def _leaves(value: Any, section: str = "", key: str = "") -> Iterator[tuple[str, str, Any]]:
    """Yield every scalar with its key and the section around it."""
    if isinstance(value, dict):
        for name, below in value.items():
            yield from _leaves(below, key, name)
    elif isinstance(value, list | tuple):
        for below in value:
            yield from _leaves(below, section, key)
    else:
        yield section, key, value


def _template(manifest: Manifest, values: list[Value]) -> str:
    """Render the manifest with Helm expressions in place of the chart's values."""
    expressions = {(*place, v.given): v.expression for v in values for place in v.places}
    # Braces of the run itself are not a template. Helm prints text in backquotes verbatim.
    return yaml_text(
        _with_expressions(manifest, expressions), lambda text: text.replace("{{", "{{ `{{` }}")
    )


def _with_expressions(
    value: Any,
    expressions: Mapping[tuple[str, str, str], Expression],
    section: str = "",
    key: str = "",
) -> Any:
    """Return a copy of plain data with expressions in the right positions."""
    if isinstance(value, dict):
        return {
            name: _with_expressions(below, expressions, key, name) for name, below in value.items()
        }
    if isinstance(value, list | tuple):
        return [_with_expressions(below, expressions, section, key) for below in value]
    return expressions.get((section, key, value), value) if isinstance(value, str) else value


def _schema(values: list[Value]) -> Manifest:
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "additionalProperties": False,
        "required": [value.key for value in values],
        "properties": {
            # Helm adds this property itself.
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
