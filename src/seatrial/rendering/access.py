# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Who may do what: the pods' account, the launcher's role, and a look at the cluster."""

from seatrial.catalog.node_types import Cloud
from seatrial.planning.plan import Plan
from seatrial.rendering.context import Scene
from seatrial.rendering.manifest import Manifest, manifest
from seatrial.rendering.names import Component, metadata, shared_labels
from seatrial.spec.cluster import Operator

LAUNCHER = "seatrial-launcher"
"""The role of whoever launches runs in a namespace."""
OBSERVER = "seatrial-observer"
"""The role that looks at nodes, volumes and kinds of objects, and changes nothing."""

READ = ["get", "list", "watch"]
OWN = ["get", "list", "watch", "create", "patch", "delete"]

IDENTITY_ANNOTATIONS = {
    Cloud.AWS: "eks.amazonaws.com/role-arn",
    Cloud.AZURE: "azure.workload.identity/client-id",
    Cloud.GOOGLE: "iam.gke.io/gcp-service-account",
}
"""How a service account is tied to an identity of each cloud."""

_OPERATOR_KINDS = {
    Operator.PYTORCHJOB: [("kubeflow.org", ["pytorchjobs"])],
    Operator.TRAINJOB: [("trainer.kubeflow.org", ["trainjobs", "trainingruntimes"])],
    Operator.HYPERPOD: [("sagemaker.amazonaws.com", ["hyperpodpytorchjobs"])],
}
_MADE_BY_OPERATOR = {Operator.TRAINJOB: [("jobset.x-k8s.io", ["jobsets"])]}
"""What operators make of a job; a launch looks whether somebody else has the name."""


def service_account(scene: Scene) -> Manifest:
    """The account of the run's pods, tied to an identity of the cloud."""
    identity = scene.plan.spec.cluster.identity
    if identity is None:
        raise ValueError("the spec names no identity")
    account = metadata(scene.plan, Component.ACCESS)
    account["annotations"] = {IDENTITY_ANNOTATIONS[scene.profile.cloud]: identity}
    return manifest("v1", "ServiceAccount", account, automountServiceAccountToken=False)


def launchable_operators() -> tuple[Operator, ...]:
    """The operators whose jobs can be launched."""
    return tuple(_OPERATOR_KINDS)


def launcher_rules(operators: tuple[Operator, ...] = tuple(_OPERATOR_KINDS)) -> list[Manifest]:
    """What launching, following, stopping and deleting runs of these operators takes.

    No secrets, no pods/exec, no nodes, nothing outside the namespace. Pods are created only to
    read a run's volume.
    """
    return [rule for each in operators for rule in operator_rules(each)] + common_rules()


def operator_rules(operator: Operator) -> list[Manifest]:
    """What the jobs of one operator take."""
    own = [_rule(group, kinds, OWN) for group, kinds in _OPERATOR_KINDS[operator]]
    made = _MADE_BY_OPERATOR.get(operator, [])
    return own + [_rule(group, kinds, ["get"]) for group, kinds in made]


def common_rules() -> list[Manifest]:
    """What every run takes, whoever starts its processes."""
    return [
        _rule("batch", ["jobs"], OWN),
        _rule("ray.io", ["rayjobs"], OWN),
        _rule("apps", ["deployments"], OWN),
        _rule("networking.k8s.io", ["networkpolicies"], OWN),
        _rule("monitoring.coreos.com", ["podmonitors"], OWN),
        _rule("", ["configmaps", "services", "persistentvolumeclaims", "serviceaccounts"], OWN),
        _rule("", ["pods"], [*READ, "create", "delete"]),
        _rule("", ["pods/log"], ["get"]),
        # A forward over WebSockets begins with a GET, and asks for both.
        _rule("", ["pods/portforward"], ["get", "create"]),
        _rule("", ["events"], READ),
        # What would hold pods back is looked at before they are asked for: seatrial check.
        _rule("", ["resourcequotas", "limitranges"], READ),
        _rule("kueue.x-k8s.io", ["localqueues", "workloads"], READ),
        # Of a gang scheduler: an operator would change one of another owner.
        _rule("scheduling.x-k8s.io", ["podgroups"], ["get"]),
        _rule("scheduling.volcano.sh", ["podgroups"], ["get"]),
    ]


def observer_rules() -> list[Manifest]:
    """What helps to see, or to explain, why a run waits; all works without it, and says so."""
    return [
        _rule("", ["nodes", "persistentvolumes", "namespaces"], READ),
        # Whether an operator runs shows in its deployment.
        _rule("apps", ["deployments"], READ),
        _rule("storage.k8s.io", ["storageclasses", "csidrivers"], READ),
        _rule("apiextensions.k8s.io", ["customresourcedefinitions"], READ),
        _rule("kueue.x-k8s.io", ["clusterqueues", "resourceflavors", "topologies"], READ),
        _rule("scheduling.k8s.io", ["priorityclasses"], READ),
    ]


def launcher_role(plan: Plan) -> Manifest:
    """The namespaced role for the operator of one run."""
    head = {
        "name": LAUNCHER,
        "namespace": plan.spec.cluster.namespace,
        "labels": shared_labels(Component.ACCESS),
    }
    rules = launcher_rules((plan.machines.operator,))
    return manifest("rbac.authorization.k8s.io/v1", "Role", head, rules=rules)


def observer_role() -> Manifest:
    """The read-only role over the cluster."""
    head = {"name": OBSERVER, "labels": shared_labels(Component.ACCESS)}
    return manifest("rbac.authorization.k8s.io/v1", "ClusterRole", head, rules=observer_rules())


def _rule(group: str, kinds: list[str], verbs: list[str]) -> Manifest:
    return {"apiGroups": [group], "resources": kinds, "verbs": verbs}
