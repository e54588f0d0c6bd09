# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Objects of other owners that have a name of a run, and perhaps its labels."""

import copy
import json
from typing import Any

from seatrial.cluster.transport import Json
from tests.unit.cluster.fake_api import FakeTransport
from tests.unit.runs.fake_cluster import wanted

RUN = wanted().plan.spec.name
NAMESPACE = wanted().plan.spec.cluster.namespace
HELM = {
    "labels": {"app.kubernetes.io/managed-by": "Helm"},
    "annotations": {
        "meta.helm.sh/release-name": "baseline",
        "meta.helm.sh/release-namespace": "platform",
    },
}


def set_by(manager: str, operation: str = "Update") -> Json:
    """The record of the API server about who has set the run's label."""
    fields: Json = {"f:metadata": {"f:labels": {"f:seatrial.dev/run": {}}}}
    return {"manager": manager, "operation": operation, "fieldsV1": fields}


LABELS = {"app.kubernetes.io/managed-by": "seatrial", "seatrial.dev/run": RUN}
COPIED: dict[str, Json] = {
    "kubectl": {"labels": LABELS, "managedFields": [set_by("kubectl-client-side-apply")]},
    "unrecorded": {"labels": LABELS},
    "applied by an earlier version": {
        "labels": LABELS,
        "managedFields": [set_by("kubectl-create"), set_by("seatrial", "Apply")],
    },
    "Helm": {
        "labels": LABELS,
        "annotations": {"meta.helm.sh/release-name": RUN},
        "managedFields": [set_by("helm")],
    },
    "adopted by Helm": {
        "labels": LABELS,
        "annotations": {"meta.helm.sh/release-name": RUN},
        "managedFields": [set_by("seatrial")],
    },
    "Argo CD": {
        "labels": LABELS,
        "annotations": {"argocd.argoproj.io/tracking-id": f"{RUN}:v1/ConfigMap:x/y"},
        "managedFields": [set_by("argocd-controller", "Apply")],
    },
    "Flux": {
        "labels": LABELS | {"kustomize.toolkit.fluxcd.io/name": "platform"},
        "managedFields": [set_by("kustomize-controller", "Apply")],
    },
    "owned": {
        "labels": LABELS,
        "ownerReferences": [{"kind": "Platform", "name": "base", "uid": "1"}],
        "managedFields": [set_by("seatrial")],
    },
}
"""Objects with both labels of the run that belong to somebody else all the same."""


def agree(_: object) -> bool:
    return True


def put(server: FakeTransport, api: str, kind: str, name: str, **head: Any) -> Json:
    """An object of somebody else's."""
    metadata = {"name": name, "namespace": NAMESPACE, **copy.deepcopy(head)}
    return server.put({"apiVersion": api, "kind": kind, "metadata": metadata, "spec": {"of": 1}})


def put_policy(server: FakeTransport, **head: Any) -> Json:
    return put(server, "networking.k8s.io/v1", "NetworkPolicy", RUN, **head)


def state(server: FakeTransport) -> str:
    return json.dumps([[*key, item] for key, item in server.objects.items()])
