# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""How the objects of a run are called, and what they are found by."""

from enum import StrEnum

from seatrial.hashing import digest
from seatrial.naming import part_name
from seatrial.planning.plan import Plan
from seatrial.rendering.attempt import Attempt
from seatrial.rendering.manifest import Manifest, without_empty
from seatrial.spec.run import RunSpec
from seatrial.version import VERSION

MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
"""Whose tool made an object; `MANAGED_BY` on ours."""
MANAGED_BY = "seatrial"
RUN_LABEL = "seatrial.dev/run"
"""The run's name; every object of a run has it."""
ATTEMPT_LABEL = "seatrial.dev/attempt"
"""The attempt's number, on what belongs to one attempt."""
SPEC_LABEL = "seatrial.dev/spec"
"""The first digits of the spec's digest, to select by."""
PLAN_LABEL = "seatrial.dev/plan"
"""The first digits of the plan's digest, to select by."""
COMPONENT_LABEL = "app.kubernetes.io/component"
"""Which part of the run an object is."""
_SHORT = 16


class Component(StrEnum):
    """The parts of a run, as the component label has them."""

    TRAINING = "training"
    """The processes that train."""
    DATA = "data"
    """The preparation of data."""
    TENSORBOARD = "tensorboard"
    """TensorBoard over the run's files."""
    STORAGE = "storage"
    """The volume that outlives all attempts."""
    ACCESS = "access"
    """Who may do what."""


def spec_digest(spec: RunSpec) -> str:
    """The identity of a spec: what is wanted, not how it is described."""
    return digest(spec.model_dump(mode="json", by_alias=True, exclude={"description"}))


def selector(plan: Plan, component: Component) -> dict[str, str]:
    """The labels by which the pods of a part of the run are found."""
    return {RUN_LABEL: plan.spec.name, COMPONENT_LABEL: str(component)}


def labels(plan: Plan, component: Component) -> dict[str, str]:
    """The labels of an object of the run."""
    return {
        "app.kubernetes.io/name": "seatrial",
        "app.kubernetes.io/instance": plan.spec.name,
        MANAGED_BY_LABEL: MANAGED_BY,
        **selector(plan, component),
    }


def shared_labels(component: Component) -> dict[str, str]:
    """The labels of what all runs of a namespace or a cluster have in common."""
    return {
        "app.kubernetes.io/name": "seatrial",
        MANAGED_BY_LABEL: MANAGED_BY,
        COMPONENT_LABEL: str(component),
    }


def digest_labels(plan: Plan) -> dict[str, str]:
    """Spec and plan as labels, which end at 63 characters and so hold their first digits."""
    return {
        SPEC_LABEL: spec_digest(plan.spec).partition(":")[2][:_SHORT],
        PLAN_LABEL: plan.digest.partition(":")[2][:_SHORT],
    }


def annotations(plan: Plan, attempt: Attempt) -> dict[str, str]:
    """Where an object came from: spec, plan and code, in full."""
    return without_empty(
        {
            "seatrial.dev/version": VERSION,
            "seatrial.dev/spec-digest": spec_digest(plan.spec),
            "seatrial.dev/plan-digest": plan.digest,
            "seatrial.dev/code-digest": attempt.code_digest,
        }
    )


def metadata(plan: Plan, component: Component, part: str = "") -> Manifest:
    """Name, namespace and labels of an object of the run that outlives its attempts."""
    return {
        "name": object_name(plan, part),
        "namespace": plan.spec.cluster.namespace,
        "labels": labels(plan, component),
    }


def attempt_metadata(plan: Plan, attempt: Attempt, component: Component) -> Manifest:
    """Name, namespace, labels and annotations of what one attempt submits.

    The name is that of the run, without the attempt: the API server then refuses a second job
    while a first is there, whoever submits it.
    """
    return {
        "name": plan.spec.name,
        "namespace": plan.spec.cluster.namespace,
        "labels": {
            **labels(plan, component),
            **digest_labels(plan),
            ATTEMPT_LABEL: str(attempt.number),
        },
        "annotations": annotations(plan, attempt),
    }


def object_name(plan: Plan, part: str = "") -> str:
    """The run's name, with the part that tells this object from its others."""
    return part_name(plan.spec.name, part)
