# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Rules about responses from the API server: permissions, rejected objects, hidden resources."""

from collections.abc import Iterator, Sequence

from seatrial.checks.cluster.demand import cluster_of, namespace_of
from seatrial.checks.cluster.facts import Right, Subject
from seatrial.checks.rule import Checked, Situation, of_cluster
from seatrial.codes.cluster_checks import SiteCode
from seatrial.findings import Finding, Severity, Where
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
"""The kinds that a launch creates, by their names in RBAC rules."""
JOBS = {
    Operator.PYTORCHJOB: "PyTorchJob",
    Operator.TRAINJOB: "TrainJob",
    Operator.HYPERPOD: "HyperPodPyTorchJob",
}


def manifests_of(situation: Situation) -> tuple[Manifest, ...]:
    """Return the objects that a launch of the run would create."""
    return render(situation.plan, situation.catalog, Part.RUN, Attempt()).manifests


def rights_for(manifests: Sequence[Manifest], namespace: str) -> list[Right]:
    """Return the permissions needed to apply these objects, without duplicates."""
    wanted: dict[Right, None] = {}
    jobs = set(JOBS.values())
    for manifest in manifests:
        kind = str(manifest["kind"])
        verbs = ("get", "create", "delete") if kind in jobs else ("get", "create", "patch")
        wanted |= {Right(verb, PLURALS[kind], namespace): None for verb in verbs}
    # The ledger is a ConfigMap, and `launch` lists the pods of the previous attempt.
    for verb, resource in (("create", "configmaps"), ("patch", "configmaps"), ("list", "pods")):
        wanted[Right(verb, resource, namespace)] = None
    return list(wanted)


def following_rights(manifests: Sequence[Manifest], namespace: str) -> list[Right]:
    """Return the additional permissions that status, watch, logs and stop need."""
    jobs = {str(each["kind"]) for each in manifests} & set(JOBS.values())
    pairs = [(verb, PLURALS[kind]) for kind in sorted(jobs) for verb in ("list", "watch", "patch")]
    pairs += [("watch", "pods"), ("get", "pods/log"), ("list", "events")]
    return [Right(verb, resource, namespace) for verb, resource in pairs]


SILENT = ("failed calling webhook", "exceeded quota")
"""Rejections that a different rule explains better."""


def rights(situation: Situation) -> Iterator[Checked]:
    """Report missing permissions for launching and monitoring the run."""
    facts, namespace = cluster_of(situation), namespace_of(situation)
    manifests = manifests_of(situation)
    for asked, what, make in (
        (rights_for(manifests, namespace), "launching the run", situation.error),
        (following_rights(manifests, namespace), "monitoring the run", situation.warning),
    ):
        missing = [right for right in asked if right in facts.denied]
        words = ", ".join(f"{right.verb} {right.resource}" for right in missing)
        if missing:
            yield make(
                SiteCode.RIGHTS,
                "cluster.namespace",
                f"{what} needs permissions in namespace {namespace} that the account lacks: "
                f"{words}.",
                "Ask an administrator to bind the role seatrial-launcher in this namespace, with "
                "charts/seatrial or seatrial render --part admin.",
                words,
            )


def refused(situation: Situation) -> Iterator[Checked]:
    """Report objects that the API server rejected in a dry run."""
    for refusal in cluster_of(situation).refusals:
        if any(words in refusal.said for words in SILENT):
            continue
        yield Checked(
            Finding(
                SiteCode.OBJECT_REFUSED,
                Severity.ERROR,
                Where(field=refusal.about),
                f"the API server rejects this object: {refusal.said}.",
                "",
                "Compare the objects with seatrial render --diff, and check "
                "cluster.operator_version and the policies in the cluster.",
            )
        )


def taken(situation: Situation) -> Iterator[Checked]:
    """Report objects with the same names that belong to other owners and prevent a launch."""
    yield from map(Checked, cluster_of(situation).taken)


def unseen(situation: Situation) -> Iterator[Checked]:
    """Report the resources that this account cannot list."""
    facts = cluster_of(situation)
    hidden = [str(subject) for subject in Subject if subject in facts.unseen]
    if hidden:
        yield situation.note(
            SiteCode.UNSEEN,
            "cluster",
            f"this account cannot list {', '.join(hidden)}: rules about them were skipped.",
            "No action needed. The role seatrial-observer allows listing most of them.",
            ", ".join(hidden),
        )


RULES = (
    of_cluster(SiteCode.RIGHTS, look=rights),
    of_cluster(SiteCode.OBJECT_REFUSED, look=refused),
    # Reported with the code that a launch uses, ST-RUN-001.
    of_cluster(look=taken),
    of_cluster(SiteCode.UNSEEN, look=unseen),
)
