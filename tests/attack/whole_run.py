# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A run with every part that a run can have, under any name."""

from dataclasses import replace
from functools import cache

from seatrial.catalog.catalog import Catalog
from seatrial.planning.plan import Plan
from seatrial.rendering.attempt import Attempt
from seatrial.rendering.context import scene_of
from seatrial.rendering.manifest import Manifest
from seatrial.rendering.reader_pod import VolumeCommand, reader_pod
from seatrial.rendering.render import Part, render
from tests.conftest import resolved

CATALOG = Catalog()
OPERATORS = ("pytorchjob", "trainjob", "hyperpod-pytorchjob")
_HYPERPOD = ("cluster.profile=hyperpod-eks", "cluster.node_type=ml.p4d.24xlarge")


@cache
def _plan(operator: str, *overrides: str) -> Plan:
    return resolved(
        f"cluster.operator={operator}",
        "cluster.identity=arn:aws:iam::123456789012:role/training",
        "cluster.preparation.image=registry.example.com/data:1",
        "monitoring.prometheus.pod_monitor={labels: {release: prometheus}}",
        "data={sources: [{from: 's3://corpus/raw'}], tokenizer: 'hf://gpt2'}",
        *(_HYPERPOD if operator.startswith("hyperpod") else ()),
        *overrides,
    )


def whole_plan(operator: str, name: str, namespace: str, *overrides: str) -> Plan:
    """Plan the run under a name; planning itself does not depend on the name."""
    plan = _plan(operator, *overrides)
    cluster = plan.spec.cluster.model_copy(update={"namespace": namespace})
    return replace(plan, spec=plan.spec.model_copy(update={"name": name, "cluster": cluster}))


def namespaced_manifests(plan: Plan) -> list[Manifest]:
    """All that commands write to the namespace of the run, jobs of data and pods included."""
    scene = scene_of(plan, CATALOG, Attempt())
    parts = (Part.RUN, Part.DATA, Part.DATA_RAY)
    made = [each for part in parts for each in _rendered(plan, part)]
    return [*made, reader_pod(scene, VolumeCommand(("checkpoints", "list")), "0" * 8)]


def admin_manifests(plan: Plan) -> list[Manifest]:
    """What an administrator makes for this run alone; roles and classes belong to all runs."""
    made = _rendered(plan, Part.ADMIN)
    return [each for each in made if "seatrial.dev/run" in each["metadata"]["labels"]]


def _rendered(plan: Plan, part: Part) -> tuple[Manifest, ...]:
    return render(plan, CATALOG, part).manifests
