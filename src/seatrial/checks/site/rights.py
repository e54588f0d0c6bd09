# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What an account has to be allowed for launching a run."""

from seatrial.checks.site.facts import Right
from seatrial.checks.situation import Situation
from seatrial.rendering.attempt import Attempt
from seatrial.rendering.manifest import Manifest
from seatrial.rendering.render import Part, render
from seatrial.spec.cluster import Operator

PLURALS = {
    "ConfigMap": "configmaps",
    "ServiceAccount": "serviceaccounts",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "Service": "services",
    "NetworkPolicy": "networkpolicies.networking.k8s.io",
    "Deployment": "deployments.apps",
    "PodMonitor": "podmonitors.monitoring.coreos.com",
    "PyTorchJob": "pytorchjobs.kubeflow.org",
    "TrainJob": "trainjobs.trainer.kubeflow.org",
    "TrainingRuntime": "trainingruntimes.trainer.kubeflow.org",
    "HyperPodPyTorchJob": "hyperpodpytorchjobs.sagemaker.amazonaws.com",
}
"""The kinds that a launch makes, as rights name them."""
JOBS = {
    Operator.PYTORCHJOB: "PyTorchJob",
    Operator.TRAINJOB: "TrainJob",
    Operator.HYPERPOD: "HyperPodPyTorchJob",
}


def needed_rights(situation: Situation) -> list[Right]:
    """The verbs that launch, status and stop of the run take, each once."""
    made = render(situation.plan, situation.catalog, Part.RUN, Attempt()).manifests
    return rights_for(list(made), situation.spec.cluster.namespace)


def rights_for(manifests: list[Manifest], namespace: str) -> list[Right]:
    """The verbs that applying these objects, and following their job, takes."""
    wanted: dict[Right, None] = {}
    jobs = set(JOBS.values())
    for manifest in manifests:
        kind = str(manifest["kind"])
        verbs = ("get", "create", "delete") if kind in jobs else ("get", "create", "patch")
        wanted |= {Right(verb, PLURALS[kind], namespace): None for verb in verbs}
    # The ledger of a run is a config map, and what holds it back is read from pods and events.
    for verb in ("create", "patch"):
        wanted[Right(verb, "configmaps", namespace)] = None
    for resource in ("pods", "events"):
        wanted[Right("list", resource, namespace)] = None
    return list(wanted)
