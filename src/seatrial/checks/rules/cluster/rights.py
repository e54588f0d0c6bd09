# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Rules about what the API server itself answered: rights, refusals, and what it hid."""

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


SILENT = ("failed calling webhook", "exceeded quota")
"""Refusals that another rule tells better."""


def rights(situation: Situation) -> Iterator[Checked]:
    """What launching takes, or following afterwards, and the account may not do."""
    facts, namespace = cluster_of(situation), namespace_of(situation)
    manifests = manifests_of(situation)
    for asked, what, make in (
        (rights_for(manifests, namespace), "launching", situation.error),
        (following_rights(manifests, namespace), "following the run", situation.warning),
    ):
        missing = [right for right in asked if right in facts.denied]
        words = ", ".join(f"{right.verb} {right.resource}" for right in missing)
        if missing:
            yield make(
                SiteCode.RIGHTS,
                "cluster.namespace",
                f"{what} takes rights in namespace {namespace} that the account lacks: {words}.",
                "Let an administrator bind the role seatrial-launcher there: charts/seatrial, or "
                "seatrial render --part admin.",
                words,
            )


def refused(situation: Situation) -> Iterator[Checked]:
    """Objects that the API server refused, asked without keeping them."""
    for refusal in cluster_of(situation).refusals:
        if any(words in refusal.said for words in SILENT):
            continue
        yield Checked(
            Finding(
                SiteCode.OBJECT_REFUSED,
                Severity.ERROR,
                Where(field=refusal.about),
                f"the API server would refuse it: {refusal.said}.",
                "",
                "Compare with seatrial render --diff; see cluster.operator_version and the "
                "policies of the cluster.",
            )
        )


def taken(situation: Situation) -> Iterator[Checked]:
    """Names that objects of other owners have, so that a launch is refused."""
    yield from map(Checked, cluster_of(situation).taken)


def unseen(situation: Situation) -> Iterator[Checked]:
    """Parts of the cluster that this account may not look at."""
    facts = cluster_of(situation)
    hidden = [str(subject) for subject in Subject if subject in facts.unseen]
    if hidden:
        yield situation.note(
            SiteCode.UNSEEN,
            "cluster",
            f"this account may not list {', '.join(hidden)}, so that nothing is said of them.",
            "Nothing needs doing; the role seatrial-observer lets it look at most of them.",
            ", ".join(hidden),
        )


RULES = (
    of_cluster(SiteCode.RIGHTS, look=rights),
    of_cluster(SiteCode.OBJECT_REFUSED, look=refused),
    # Its code is that of a launch, ST-RUN-001.
    of_cluster(look=taken),
    of_cluster(SiteCode.UNSEEN, look=unseen),
)
