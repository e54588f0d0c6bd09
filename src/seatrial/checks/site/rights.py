# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What an account has to be allowed for launching a run."""

from collections.abc import Sequence

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


def manifests_of(situation: Situation) -> tuple[Manifest, ...]:
    """What a launch of the run would bring."""
    return render(situation.plan, situation.catalog, Part.RUN, Attempt()).manifests


def rights_for(manifests: Sequence[Manifest], namespace: str) -> list[Right]:
    """The verbs that applying these objects takes, each once."""
    wanted: dict[Right, None] = {}
    jobs = set(JOBS.values())
    for manifest in manifests:
        kind = str(manifest["kind"])
        verbs = ("get", "create", "delete") if kind in jobs else ("get", "create", "patch")
        wanted |= {Right(verb, PLURALS[kind], namespace): None for verb in verbs}
    # The ledger of a run is a config map, and a launch looks at pods of the attempt before.
    for verb, resource in (("create", "configmaps"), ("patch", "configmaps"), ("list", "pods")):
        wanted[Right(verb, resource, namespace)] = None
    return list(wanted)


def following_rights(manifests: Sequence[Manifest], namespace: str) -> list[Right]:
    """The verbs that status, watch, logs and stop take besides."""
    jobs = {str(each["kind"]) for each in manifests} & set(JOBS.values())
    pairs = [(verb, PLURALS[kind]) for kind in sorted(jobs) for verb in ("list", "watch", "patch")]
    pairs += [("watch", "pods"), ("get", "pods/log"), ("list", "events")]
    return [Right(verb, resource, namespace) for verb, resource in pairs]
