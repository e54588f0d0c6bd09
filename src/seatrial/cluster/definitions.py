# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Which kinds a cluster serves, and in which versions; every account may ask."""

from seatrial.cluster.api import Api
from seatrial.cluster.transport import Call, Json

GROUPS = (
    "kubeflow.org",
    "trainer.kubeflow.org",
    "sagemaker.amazonaws.com",
    "kueue.x-k8s.io",
    "monitoring.coreos.com",
    "ray.io",
    "scheduling.volcano.sh",
    "scheduling.x-k8s.io",
    "karpenter.sh",
    "autoscaling.x-k8s.io",
)
"""Groups of kinds that a run may need, or that tell how a cluster behaves."""


def served_definitions(api: Api) -> dict[str, tuple[str, ...]]:
    """Served versions by name, such as `pytorchjobs.kubeflow.org`, of the groups above."""
    answer = api.call(Call("GET", "/apis", about="the groups that the cluster serves"))
    found: dict[str, list[str]] = {}
    for group in answer.body.get("groups") or ():
        if group["name"] not in GROUPS:
            continue
        for version in group.get("versions") or ():
            for name in _plurals(api, str(version["groupVersion"])):
                found.setdefault(f"{name}.{group['name']}", []).append(str(version["version"]))
    return {name: tuple(versions) for name, versions in found.items()}


def _plurals(api: Api, group_version: str) -> list[str]:
    """The kinds of one group in one version, without parts of objects such as their status."""
    path = f"/apis/{group_version}"
    body: Json = api.call(Call("GET", path, about=group_version)).body
    names = [str(each["name"]) for each in body.get("resources") or ()]
    return [name for name in names if "/" not in name]


def server_version(api: Api) -> str:
    """The version of the API server, such as `1.31`; empty where it does not say."""
    answer = api.answer(Call("GET", "/version", about="the version of the cluster"))
    if answer.status != 200:
        return ""
    # Some clouds write the minor version as 31+.
    major, minor = str(answer.body.get("major", "")), str(answer.body.get("minor", ""))
    return f"{major}.{minor.rstrip('+')}" if major and minor else ""
