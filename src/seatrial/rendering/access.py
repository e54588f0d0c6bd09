# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Access: the service account of the pods, the launcher role and the observer role."""

from seatrial.catalog.node_types import Cloud
from seatrial.planning.plan import Plan
from seatrial.rendering.context import Scene
from seatrial.rendering.manifest import Manifest, manifest
from seatrial.rendering.names import Component, metadata, shared_labels
from seatrial.spec.cluster import Operator

LAUNCHER = "seatrial-launcher"
"""The role for users who launch runs in a namespace."""
OBSERVER = "seatrial-observer"
"""The read-only role for nodes, volumes and resource definitions."""

READ = ["get", "list", "watch"]
OWN = ["get", "list", "watch", "create", "patch", "delete"]

IDENTITY_ANNOTATIONS = {
    Cloud.AWS: "eks.amazonaws.com/role-arn",
    Cloud.AZURE: "azure.workload.identity/client-id",
    Cloud.GOOGLE: "iam.gke.io/gcp-service-account",
}
"""The annotation that binds a service account to a cloud identity."""

_OPERATOR_KINDS = {
    Operator.PYTORCHJOB: [("kubeflow.org", ["pytorchjobs"])],
    Operator.TRAINJOB: [("trainer.kubeflow.org", ["trainjobs", "trainingruntimes"])],
    Operator.HYPERPOD: [("sagemaker.amazonaws.com", ["hyperpodpytorchjobs"])],
}
_MADE_BY_OPERATOR = {Operator.TRAINJOB: [("jobset.x-k8s.io", ["jobsets"])]}
"""Objects that operators create for a job. `launch` checks that nobody else uses their names."""


OPTIONAL_KINDS = {
    "rayJobs": ("ray.io", "rayjobs"),
    "tensorboard": ("apps", "deployments"),
    "podMonitors": ("monitoring.coreos.com", "podmonitors"),
    "serviceAccounts": ("", "serviceaccounts"),
}
"""What the chart can leave out of the launcher role, by the names of its values."""


def service_account(scene: Scene) -> Manifest:
    """Return the service account of the run's pods, bound to a cloud identity."""
    identity = scene.plan.spec.cluster.identity
    if identity is None:
        raise ValueError("the spec names no identity")
    account = metadata(scene.plan, Component.ACCESS)
    own = {IDENTITY_ANNOTATIONS[scene.profile.cloud]: identity}
    account["annotations"] = account.get("annotations", {}) | own
    return manifest("v1", "ServiceAccount", account, automountServiceAccountToken=False)


def launchable_operators() -> tuple[Operator, ...]:
    return tuple(_OPERATOR_KINDS)


def launcher_rules(operators: tuple[Operator, ...] = tuple(_OPERATOR_KINDS)) -> list[Manifest]:
    """Return the permissions to launch, watch, stop and delete runs of these operators.

    They exclude secrets, pods/exec, nodes and everything outside the namespace. Kubernetes cannot
    limit `create` to some names or labels, so they apply to all objects of these kinds in the
    namespace, not only to those of runs. Seatrial creates pods only to read a run's volume.
    """
    return [rule for each in operators for rule in operator_rules(each)] + common_rules()


def operator_rules(operator: Operator) -> list[Manifest]:
    """Return the permissions for the jobs of one operator."""
    own = [_rule(group, kinds, OWN) for group, kinds in _OPERATOR_KINDS[operator]]
    made = _MADE_BY_OPERATOR.get(operator, [])
    return own + [_rule(group, kinds, ["get"]) for group, kinds in made]


def common_rules() -> list[Manifest]:
    """Return the permissions that every run needs, independent of the operator."""
    return [
        _rule("batch", ["jobs"], OWN),
        _rule("ray.io", ["rayjobs"], OWN),
        _rule("apps", ["deployments"], OWN),
        _rule("networking.k8s.io", ["networkpolicies"], OWN),
        _rule("monitoring.coreos.com", ["podmonitors"], OWN),
        _rule("", ["configmaps", "services", "persistentvolumeclaims", "serviceaccounts"], OWN),
        _rule("", ["pods"], [*READ, "create", "delete"]),
        _rule("", ["pods/log"], ["get"]),
        # Port forwarding over WebSockets starts with a GET, and needs both verbs.
        _rule("", ["pods/portforward"], ["get", "create"]),
        _rule("", ["events"], READ),
        # `seatrial check` reads these to find out why pods would not be scheduled.
        _rule("", ["resourcequotas", "limitranges"], READ),
        _rule("kueue.x-k8s.io", ["localqueues", "workloads"], READ),
        # Gang schedulers: an operator would modify a pod group that has a different owner.
        _rule("scheduling.x-k8s.io", ["podgroups"], ["get"]),
        _rule("scheduling.volcano.sh", ["podgroups"], ["get"]),
    ]


def required_rules() -> list[Manifest]:
    """Return the common permissions without those that the chart can leave out."""
    optional = set(OPTIONAL_KINDS.values())
    made = []
    for rule in common_rules():
        (group,) = rule["apiGroups"]
        kinds = [kind for kind in rule["resources"] if (group, kind) not in optional]
        made += [rule | {"resources": kinds}] if kinds else []
    return made


def optional_rules() -> dict[str, list[Manifest]]:
    """Return the permissions that the chart can leave out, by the names of its values."""
    return {name: [_rule(group, [kind], OWN)] for name, (group, kind) in OPTIONAL_KINDS.items()}


def observer_rules() -> list[Manifest]:
    """Return optional permissions that help to explain why a run waits."""
    return [
        _rule("", ["nodes", "persistentvolumes", "namespaces"], READ),
        # They show which components are running, and their versions.
        _rule("apps", ["deployments", "daemonsets"], READ),
        _rule("storage.k8s.io", ["storageclasses", "csidrivers"], READ),
        _rule("apiextensions.k8s.io", ["customresourcedefinitions"], READ),
        _rule("kueue.x-k8s.io", ["clusterqueues", "resourceflavors", "topologies"], READ),
        _rule("scheduling.k8s.io", ["priorityclasses"], READ),
    ]


def launcher_role(plan: Plan) -> Manifest:
    """Return the namespaced role for one run's operator."""
    head = {
        "name": LAUNCHER,
        "namespace": plan.spec.cluster.namespace,
        "labels": shared_labels(Component.ACCESS),
    }
    rules = launcher_rules((plan.machines.operator,))
    return manifest("rbac.authorization.k8s.io/v1", "Role", head, rules=rules)


def observer_role() -> Manifest:
    """Return the read-only cluster role."""
    head = {"name": OBSERVER, "labels": shared_labels(Component.ACCESS)}
    return manifest("rbac.authorization.k8s.io/v1", "ClusterRole", head, rules=observer_rules())


def _rule(group: str, kinds: list[str], verbs: list[str]) -> Manifest:
    return {"apiGroups": [group], "resources": kinds, "verbs": verbs}
