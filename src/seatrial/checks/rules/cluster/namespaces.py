# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Rules about the run's namespace: existence, quotas, and the objects that pods use."""

from collections.abc import Iterator, Mapping

from seatrial.checks.cluster.demand import (
    Demand,
    cluster_of,
    demand_of,
    namespace_of,
    nearest,
    shown,
)
from seatrial.checks.cluster.facts import QuotaFacts, SecretFacts, Subject
from seatrial.checks.rule import Checked, Situation, of_cluster, proposed
from seatrial.checks.rules.cluster.rights import PLURALS, manifests_of
from seatrial.codes.cluster_checks import SiteCode
from seatrial.engines.registry import ENGINES
from seatrial.rendering.resources import capacity_bytes
from seatrial.rendering.security import user_of
from seatrial.rendering.volumes import LOCK_CONFIG

FIELD = "cluster.namespace"
PULL_KINDS = ("kubernetes.io/dockerconfigjson", "kubernetes.io/dockercfg", "")
"""Secret types that a kubelet can pull images with; empty if the type is unknown."""
PULL_KEYS = (".dockerconfigjson", ".dockercfg")


def no_namespace(situation: Situation) -> Iterator[Checked]:
    """Report a namespace that does not exist."""
    facts, name = cluster_of(situation), namespace_of(situation)
    if not facts.sees(Subject.NAMESPACES, name):
        return
    found = next((each for each in facts.namespaces if each.name == name), None)
    if found is not None and not found.ending:
        return
    # System namespaces and operator namespaces are not for training runs.
    alive = [each.name for each in facts.namespaces if not each.ending and each.name != name]
    claim = situation.spec.cluster.storage.claim
    with_claim = [c.namespace for c in facts.claims if c.name == claim and c.namespace in alive]
    own = [each for each in alive if not each.startswith("kube") and each != "default"]
    other = nearest(name, with_claim or own)
    state = "is being deleted" if found else "does not exist"
    yield situation.error(
        SiteCode.NO_NAMESPACE,
        FIELD,
        f"namespace {name} {state}: the API server would reject every object.",
        f"Use {other}, or create {name}." if other else f"Create it: kubectl create ns {name}.",
        name,
        proposed(*([f"{FIELD}={other}"] if other else [])),
    )


def pod_security(situation: Situation) -> Iterator[Checked]:
    """Report a namespace whose Pod Security level rejects the run's pods."""
    facts, name = cluster_of(situation), namespace_of(situation)
    found = next((each for each in facts.namespaces if each.name == name), None)
    level = found.enforces if found else ""
    scene = demand_of(situation).scene
    needs = []
    if level in ("baseline", "restricted") and scene.fabric.rdma:
        needs.append("the IPC_LOCK capability (RDMA locks memory)")
    daemon = scene.fabric.daemon
    if level in ("baseline", "restricted") and daemon is not None:
        needs.append(f"host directories and the capabilities of the {daemon.name} container")
    scratch = situation.spec.cluster.scratch
    if level in ("baseline", "restricted") and scratch is not None and scratch.host_path:
        needs.append(f"the host directory {scratch.host_path}")
    if level == "restricted" and user_of(scene) == 0:
        needs.append("to run as root (only root gets the capability)")
    if needs:
        yield situation.error(
            SiteCode.POD_SECURITY,
            FIELD,
            f"namespace {name} enforces the Pod Security level {level}, but the pods of this run "
            f"need {' and '.join(needs)}: every pod would be rejected, which only events show.",
            "Use a namespace with the level privileged, or ask an administrator to change the "
            "level of this namespace.",
            level,
        )


def quota(situation: Situation) -> Iterator[Checked]:
    """Report a quota that is smaller than the run's request."""
    facts, name = cluster_of(situation), namespace_of(situation)
    demand = demand_of(situation)
    for found in facts.quotas:
        if found.namespace != name or found.scoped:
            continue
        wanted = _counted(situation, demand)
        short = [
            each
            for each, amount in wanted.items()
            if each in found.hard and found.hard[each] - found.used.get(each, 0.0) < amount
        ]
        if short:
            yield _small_quota(situation, demand, found, short)


def _counted(situation: Situation, demand: Demand) -> Mapping[str, float]:
    """Return the resources that the run uses, by their names in quotas."""
    wanted: dict[str, float] = {"pods": float(demand.pods), "count/pods": float(demand.pods)}
    for manifest in manifests_of(situation):
        plural = PLURALS[str(manifest["kind"])]
        # Older kinds can also have a quota under their plain name, without the prefix count/.
        for name in (f"count/{plural}", plural):
            wanted[name] = wanted.get(name, 0.0) + 1.0
    for name, amount in demand.in_all.items():
        wanted |= {f"requests.{name}": amount, f"limits.{name}": amount}
        if name in ("cpu", "memory"):
            wanted[name] = amount
    tier = demand.scene.tier
    if tier is not None:
        size = float(capacity_bytes(situation.plan, tier))
        wanted["requests.storage"] = size
        wanted[f"{tier.storage_class}.storageclass.storage.k8s.io/requests.storage"] = size
    return wanted


def _small_quota(
    situation: Situation, demand: Demand, found: QuotaFacts, short: list[str]
) -> Checked:
    """Return the finding for a quota; GPUs come before CPUs."""
    wanted = _counted(situation, demand)
    name = next((each for each in short if demand.gpu and each.endswith(demand.gpu)), short[0])
    left = found.hard[name] - found.used.get(name, 0.0)
    used = found.used.get(name, 0.0)
    plain = name.removeprefix("requests.").removeprefix("limits.")
    of_pods = [each for each in short if _grows_with_nodes(each, demand)]
    fitting = 0
    if of_pods and len(of_pods) == len(short):
        fitting = int(
            min(
                (found.hard[each] - found.used.get(each, 0.0)) // (wanted[each] / demand.pods)
                for each in short
            )
        )
    others = f", of which {used:,.0f} are in use" if used else ""
    rule = (
        f"the run needs {shown(plain, wanted[name])}, but the quota {found.name} in namespace "
        f"{found.namespace} allows {shown(plain, found.hard[name])}{others}."
    )
    fix = "Ask an administrator for a larger quota, or use a different namespace."
    if 0 < fitting < demand.pods:
        fix = f"Use cluster.nodes={fitting}, or ask an administrator for a larger quota."
    by = [f"cluster.nodes={fitting}"] if 0 < fitting < demand.pods else []
    field_name = "cluster.storage.capacity" if "storage" in name else "cluster.nodes"
    make = situation.error if wanted[name] > found.hard[name] else situation.warning
    return make(SiteCode.QUOTA, field_name, rule, fix, f"{left:,.0f}", proposed(*by))


def _grows_with_nodes(name: str, demand: Demand) -> bool:
    """True if fewer nodes use less of a quota."""
    plain = name.removeprefix("requests.").removeprefix("limits.")
    return plain in demand.of_pod or plain.removeprefix("count/") == "pods"


def limits(situation: Situation) -> Iterator[Checked]:
    """Report a limit range that is smaller than the run's containers."""
    facts, name, demand = cluster_of(situation), namespace_of(situation), demand_of(situation)
    for found in facts.limits:
        short = [each for each, most in found.most.items() if demand.of_pod.get(each, 0.0) > most]
        if found.namespace == name and short:
            yield situation.error(
                SiteCode.LIMITS,
                FIELD,
                f"a container of the run requests {shown(short[0], demand.of_pod[short[0]])}, but "
                f"the limit range {found.name} in namespace {name} allows "
                f"{shown(short[0], found.most[short[0]])}: no pod would be created.",
                "Ask an administrator for a larger limit, or use a different namespace.",
                short[0],
            )


def no_account(situation: Situation) -> Iterator[Checked]:
    """Report a service account that does not exist."""
    facts, namespace = cluster_of(situation), namespace_of(situation)
    name = situation.spec.cluster.service_account
    if name is None or not facts.sees(Subject.ACCOUNTS, namespace):
        return
    there = [account for place, account in facts.accounts if place == namespace]
    if name in there:
        return
    other = nearest(name, [each for each in there if each != "default"])
    yield situation.error(
        SiteCode.NO_ACCOUNT,
        "cluster.service_account",
        f"namespace {namespace} has no service account {name}: the operator cannot create pods, "
        "and only events show the reason.",
        f"Use {other}, or create {name}." if other else "Create it, or set cluster.identity.",
        name,
        proposed(*([f"cluster.service_account={other}"] if other else [])),
    )


def no_priority(situation: Situation) -> Iterator[Checked]:
    """Report a priority class that does not exist."""
    facts, name = cluster_of(situation), situation.spec.cluster.priority_class
    if name is None or not facts.sees(Subject.PRIORITIES) or name in facts.priorities:
        return
    own = [each for each in facts.priorities if not each.startswith("system-")]
    other = nearest(name, own)
    yield situation.error(
        SiteCode.NO_PRIORITY,
        "cluster.priority_class",
        f"the cluster has no priority class {name}: the API server would reject every pod.",
        f"Use {other}, or remove the line." if other else "Remove the line, or create the class.",
        name,
        proposed(f"cluster.priority_class={other or 'null'}"),
    )


def no_lock(situation: Situation) -> Iterator[Checked]:
    """Report an image without the worker if the namespace has no lock file to install it from."""
    keys, image = cluster_of(situation).lock_keys, demand_of(situation).scene.image
    lock = ENGINES[situation.spec.engine.name].installation.lock
    if image.brings_worker or keys is None or lock in keys:
        return
    name, namespace = situation.plan.machines.image, namespace_of(situation)
    lacks = f"no {lock} in its ConfigMap {LOCK_CONFIG}" if keys else f"no ConfigMap {LOCK_CONFIG}"
    yield situation.error(
        SiteCode.NO_LOCK,
        "cluster.image",
        f"{name} does not contain the worker, and pods cannot install it: namespace {namespace} "
        f"has {lacks}. No pod would start.",
        "Use an image that contains the worker (guide: images), or ask an administrator to create "
        "the ConfigMap (workerLock in the chart's values).",
        name,
    )


def secrets(situation: Situation) -> Iterator[Checked]:
    """Report secrets and keys that do not exist."""
    facts, namespace = cluster_of(situation), namespace_of(situation)
    if not facts.sees(Subject.SECRETS, namespace):
        return
    there = {each.name: each for each in facts.secrets if each.namespace == namespace}
    for index, wanted in enumerate(situation.spec.cluster.secrets):
        found = there.get(wanted.secret)
        if found is None:
            yield _no_secret(situation, index, wanted.secret, there, wanted.key)
        elif wanted.key is not None and wanted.key not in found.keys:
            other = nearest(wanted.key, found.keys)
            field_name = f"cluster.secrets[{index}].key"
            yield situation.error(
                SiteCode.NO_KEY,
                field_name,
                f"the secret {found.name} has no key {wanted.key} (its keys: "
                f"{', '.join(found.keys) or 'none'}): no container would start.",
                f"Use {other}." if other else "Add the key to the secret.",
                wanted.key,
                proposed(*([f"{field_name}={other}"] if other else [])),
            )


def _no_secret(
    situation: Situation, index: int, name: str, there: Mapping[str, SecretFacts], key: str | None
) -> Checked:
    field_name = f"cluster.secrets[{index}].secret"
    fitting = [each.name for each in there.values() if key is None or key in each.keys]
    other = nearest(name, fitting)
    return situation.error(
        SiteCode.NO_SECRET,
        field_name,
        f"namespace {namespace_of(situation)} has no secret {name}: no container would start.",
        f"Use {other}, or create {name}." if other else "Create the secret in this namespace.",
        name,
        proposed(*([f"{field_name}={other}"] if other else [])),
    )


def no_pull_secret(situation: Situation) -> Iterator[Checked]:
    """Report a pull secret that does not exist or has the wrong type."""
    facts, name = cluster_of(situation), situation.spec.cluster.image_pull_secret
    namespace, field_name = namespace_of(situation), "cluster.image_pull_secret"
    if name is None or not facts.sees(Subject.SECRETS, namespace):
        return
    there = [each for each in facts.secrets if each.namespace == namespace]
    found = next((each for each in there if each.name == name), None)
    if found is not None and _pulls(found):
        return
    other = nearest(name, [each.name for each in there if _pulls(each)])
    rule = f"namespace {namespace} has no secret {name}: nodes cannot pull the image."
    if found is not None:
        rule = f"the secret {name} has type {found.kind}, which cannot be used to pull images."
    yield situation.error(
        SiteCode.NO_PULL_SECRET,
        field_name,
        rule,
        f"Use {other}." if other else "Create it: kubectl create secret docker-registry.",
        name,
        proposed(*([f"{field_name}={other}"] if other else [])),
    )


def _pulls(secret: SecretFacts) -> bool:
    """True if a secret can be used to pull images."""
    return secret.kind in PULL_KINDS and any(key in secret.keys for key in PULL_KEYS)


RULES = (
    of_cluster(SiteCode.NO_NAMESPACE, look=no_namespace),
    of_cluster(SiteCode.POD_SECURITY, look=pod_security),
    of_cluster(SiteCode.QUOTA, look=quota),
    of_cluster(SiteCode.LIMITS, look=limits),
    of_cluster(SiteCode.NO_ACCOUNT, look=no_account),
    of_cluster(SiteCode.NO_PRIORITY, look=no_priority),
    of_cluster(SiteCode.NO_LOCK, look=no_lock),
    of_cluster(SiteCode.NO_SECRET, SiteCode.NO_KEY, look=secrets),
    of_cluster(SiteCode.NO_PULL_SECRET, look=no_pull_secret),
)
