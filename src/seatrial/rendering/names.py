# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Names, labels and annotations of a run's objects."""

from enum import StrEnum

from seatrial.hashing import digest
from seatrial.naming import part_name
from seatrial.planning.plan import Plan
from seatrial.rendering.attempt import Attempt
from seatrial.rendering.manifest import Manifest, without_empty
from seatrial.spec.run import RunSpec
from seatrial.version import VERSION

MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
"""The tool that manages an object; `MANAGED_BY` for Seatrial."""
MANAGED_BY = "seatrial"
RUN_LABEL = "seatrial.dev/run"
"""The run's name, on every object of a run."""
ATTEMPT_LABEL = "seatrial.dev/attempt"
"""The attempt's number, on the objects of one attempt."""
SPEC_LABEL = "seatrial.dev/spec"
"""The first digits of the spec's digest, for selectors."""
PLAN_LABEL = "seatrial.dev/plan"
"""The first digits of the plan's digest, for selectors."""
COMPONENT_LABEL = "app.kubernetes.io/component"
"""The component of the run that an object belongs to."""
_SHORT = 16


class Component(StrEnum):
    """The components of a run, as in the component label."""

    TRAINING = "training"
    """Training processes."""
    DATA = "data"
    """Data preparation."""
    TENSORBOARD = "tensorboard"
    """TensorBoard."""
    STORAGE = "storage"
    """The volume, which outlives all attempts."""
    ACCESS = "access"
    """Roles and service accounts."""


def spec_digest(spec: RunSpec) -> str:
    """Return the digest of a spec, without its description."""
    return digest(spec.model_dump(mode="json", by_alias=True, exclude={"description"}))


def selector(plan: Plan, component: Component) -> dict[str, str]:
    """Return the labels that select the pods of a component."""
    return {RUN_LABEL: plan.spec.name, COMPONENT_LABEL: str(component)}


def labels(plan: Plan, component: Component) -> dict[str, str]:
    """Return the labels of an object of the run, including the spec's."""
    return {
        **plan.spec.cluster.labels,
        "app.kubernetes.io/name": "seatrial",
        "app.kubernetes.io/instance": plan.spec.name,
        MANAGED_BY_LABEL: MANAGED_BY,
        **selector(plan, component),
    }


def shared_labels(component: Component) -> dict[str, str]:
    """Return the labels of objects that the runs of a namespace or cluster share."""
    return {
        "app.kubernetes.io/name": "seatrial",
        MANAGED_BY_LABEL: MANAGED_BY,
        COMPONENT_LABEL: str(component),
    }


def digest_labels(plan: Plan) -> dict[str, str]:
    """Return the digests of spec and plan, shortened because labels have at most 63 characters."""
    return {
        SPEC_LABEL: spec_digest(plan.spec).partition(":")[2][:_SHORT],
        PLAN_LABEL: plan.digest.partition(":")[2][:_SHORT],
    }


def annotations(plan: Plan, attempt: Attempt) -> dict[str, str]:
    """Return the spec's annotations, the version and the full digests of spec, plan and code."""
    return dict(plan.spec.cluster.annotations) | without_empty(
        {
            "seatrial.dev/version": VERSION,
            "seatrial.dev/spec-digest": spec_digest(plan.spec),
            "seatrial.dev/plan-digest": plan.digest,
            "seatrial.dev/code-digest": attempt.code_digest,
        }
    )


def metadata(plan: Plan, component: Component, part: str = "") -> Manifest:
    """Return name, namespace and labels of an object that outlives attempts."""
    return {
        "name": object_name(plan, part),
        "namespace": plan.spec.cluster.namespace,
        "labels": labels(plan, component),
        **without_empty({"annotations": dict(plan.spec.cluster.annotations)}),
    }


def attempt_metadata(plan: Plan, attempt: Attempt, component: Component) -> Manifest:
    """Return name, namespace, labels and annotations of the objects of one attempt.

    The name does not contain the attempt. So while one job exists, the API server rejects a second
    one, no matter who submits it.
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
    """Return the name of an object: the run's name, and the part if there is one."""
    return part_name(plan.spec.name, part)
