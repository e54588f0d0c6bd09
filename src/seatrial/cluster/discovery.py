# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Discover which operators and API versions a cluster serves.

Uses discovery and OpenAPI, which every account may read. Reading the CRDs themselves needs a
cluster role.
"""

from seatrial.cluster.api import Api
from seatrial.cluster.errors import error_of
from seatrial.cluster.kinds import HYPERPOD_JOB, PYTORCH_JOB, TRAIN_JOB, ObjectKind
from seatrial.cluster.transport import Call, Json
from seatrial.rendering.train_job import TrainerApi
from seatrial.spec.cluster import Operator

GROUPS = (
    "kubeflow.org",
    "trainer.kubeflow.org",
    "sagemaker.amazonaws.com",
    "jobset.x-k8s.io",
    "cert-manager.io",
    "mellanox.com",
    "kueue.x-k8s.io",
    "monitoring.coreos.com",
    "ray.io",
    "scheduling.volcano.sh",
    "scheduling.x-k8s.io",
    "karpenter.sh",
    "autoscaling.x-k8s.io",
)
"""API groups that a run may need, or that show how a cluster behaves."""


def served_definitions(api: Api) -> dict[str, tuple[str, ...]]:
    """Return the served versions by name, such as `pytorchjobs.kubeflow.org`, in these groups."""
    answer = api.call(Call("GET", "/apis", about="the cluster's API groups"))
    found: dict[str, list[str]] = {}
    for group in answer.body.get("groups") or ():
        if group["name"] not in GROUPS:
            continue
        for version in group.get("versions") or ():
            for name in _plurals(api, str(version["groupVersion"])):
                found.setdefault(f"{name}.{group['name']}", []).append(str(version["version"]))
    return {name: tuple(versions) for name, versions in found.items()}


def _plurals(api: Api, group_version: str) -> list[str]:
    """Return the kinds in a group version, without subresources such as the status."""
    path = f"/apis/{group_version}"
    body: Json = api.call(Call("GET", path, about=group_version)).body
    names = [str(each["name"]) for each in body.get("resources") or ()]
    return [name for name in names if "/" not in name]


def server_version(api: Api) -> str:
    """Return the version of the API server, such as `1.31`. Empty if unknown."""
    answer = api.answer(Call("GET", "/version", about="the version of the cluster"))
    if answer.status != 200:
        return ""
    # Some clouds report the minor version as 31+.
    major, minor = str(answer.body.get("major", "")), str(answer.body.get("minor", ""))
    return f"{major}.{minor.rstrip('+')}" if major and minor else ""


JOB_KINDS = {
    Operator.PYTORCHJOB: PYTORCH_JOB,
    Operator.TRAINJOB: TRAIN_JOB,
    Operator.HYPERPOD: HYPERPOD_JOB,
}
"""The kind of job that each operator runs."""

_OVERRIDES = {
    "runtimePatches": TrainerApi.V2_2,
    "podTemplateOverrides": TrainerApi.V2_1,
    "podSpecOverrides": TrainerApi.V2_0,
}
"""The field that identifies each version of Trainer's API, newest first."""


def serves(api: Api, kind: ObjectKind) -> bool:
    """True if the cluster serves a kind of object."""
    call = Call("GET", kind.group_path, about=kind.api_version)
    answer = api.answer(call)
    if answer.status == 404:
        return False
    if answer.status >= 400:
        raise error_of(call, answer)
    return any(each["name"] == kind.plural for each in answer.body.get("resources") or ())


def served_operators(api: Api) -> tuple[Operator, ...]:
    """Return the operators whose jobs the cluster serves."""
    return tuple(operator for operator, kind in JOB_KINDS.items() if serves(api, kind))


def trainer_form(api: Api) -> TrainerApi | None:
    """Return the served version of Trainer's API. None if its schema is unknown."""
    path = f"/openapi/v3{TRAIN_JOB.group_path}"
    answer = api.answer(Call("GET", path, about="the schema of TrainJob"))
    return form_of_schema(answer.body) if answer.status == 200 else None


def form_of_schema(document: Json) -> TrainerApi | None:
    """Return the API version in an OpenAPI document, from the override field of TrainJob."""
    schemas = (document.get("components") or {}).get("schemas") or {}
    for name, schema in schemas.items():
        if name.endswith(".TrainJob"):
            spec = (schema.get("properties") or {}).get("spec") or {}
            known = spec.get("properties") or {}
            return next((form for field, form in _OVERRIDES.items() if field in known), None)
    return None
