# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Rules about the run's namespace: there, with room, and with what pods are given."""

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
"""Types of secrets that a kubelet pulls images with; empty where the type is not known."""
PULL_KEYS = (".dockerconfigjson", ".dockercfg")


def no_namespace(situation: Situation) -> Iterator[Checked]:
    """A namespace that is not there."""
    facts, name = cluster_of(situation), namespace_of(situation)
    if not facts.sees(Subject.NAMESPACES, name):
        return
    found = next((each for each in facts.namespaces if each.name == name), None)
    if found is not None and not found.ending:
        return
    # The namespaces of the system, and those of the operators, are nobody's to train in.
    alive = [each.name for each in facts.namespaces if not each.ending and each.name != name]
    claim = situation.spec.cluster.storage.claim
    with_claim = [c.namespace for c in facts.claims if c.name == claim and c.namespace in alive]
    own = [each for each in alive if not each.startswith("kube") and each != "default"]
    other = nearest(name, with_claim or own)
    state = "is being deleted" if found else "is not there"
    yield situation.error(
        SiteCode.NO_NAMESPACE,
        FIELD,
        f"the namespace {name} {state}: every object would be refused.",
        f"Use {other}, or make the namespace." if other else f"Make it: kubectl create ns {name}.",
        name,
        proposed(*([f"{FIELD}={other}"] if other else [])),
    )


def pod_security(situation: Situation) -> Iterator[Checked]:
    """A namespace that refuses what pods need for RDMA."""
    facts, name = cluster_of(situation), namespace_of(situation)
    found = next((each for each in facts.namespaces if each.name == name), None)
    level = found.enforces if found else ""
    scene = demand_of(situation).scene
    needs = []
    if level in ("baseline", "restricted") and scene.fabric.rdma:
        needs.append("the capability IPC_LOCK, to lock memory for RDMA")
    if level == "restricted" and user_of(scene) == 0:
        needs.append("to run as root, for only root is given a capability")
    if needs:
        yield situation.error(
            SiteCode.POD_SECURITY,
            FIELD,
            f"namespace {name} enforces {level} pods, and the pods of this run need "
            f"{' and '.join(needs)}: each would be refused, in events only.",
            "Use a namespace that enforces privileged, or have this one's label changed.",
            level,
        )


def quota(situation: Situation) -> Iterator[Checked]:
    """A quota that ends below what the run asks for."""
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
    """What the run takes, by the names that quotas count under."""
    wanted: dict[str, float] = {"pods": float(demand.pods), "count/pods": float(demand.pods)}
    for manifest in manifests_of(situation):
        plural = PLURALS[str(manifest["kind"])]
        # Some kinds are counted under their plain name too, from before there was a general one.
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
    """The finding for a quota; GPUs are named before processors."""
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
    others = f", of which others use {used:,.0f}" if used else ""
    rule = (
        f"the run takes {shown(plain, wanted[name])}, and the quota {found.name} of namespace "
        f"{found.namespace} ends at {shown(plain, found.hard[name])}{others}."
    )
    fix = "Ask an administrator for a larger quota, or use another namespace."
    if 0 < fitting < demand.pods:
        fix = f"Use cluster.nodes={fitting}, or ask for a larger quota."
    by = [f"cluster.nodes={fitting}"] if 0 < fitting < demand.pods else []
    field_name = "cluster.storage.capacity" if "storage" in name else "cluster.nodes"
    make = situation.error if wanted[name] > found.hard[name] else situation.warning
    return make(SiteCode.QUOTA, field_name, rule, fix, f"{left:,.0f}", proposed(*by))


def _grows_with_nodes(name: str, demand: Demand) -> bool:
    """Whether fewer nodes take less of what a quota counts."""
    plain = name.removeprefix("requests.").removeprefix("limits.")
    return plain in demand.of_pod or plain.removeprefix("count/") == "pods"


def limits(situation: Situation) -> Iterator[Checked]:
    """A namespace that lets no container be as large as the run's."""
    facts, name, demand = cluster_of(situation), namespace_of(situation), demand_of(situation)
    for found in facts.limits:
        short = [each for each, most in found.most.items() if demand.of_pod.get(each, 0.0) > most]
        if found.namespace == name and short:
            yield situation.error(
                SiteCode.LIMITS,
                FIELD,
                f"a container of the run asks for {shown(short[0], demand.of_pod[short[0]])}, and "
                f"the limit range {found.name} of namespace {name} ends at "
                f"{shown(short[0], found.most[short[0]])}: no pod would be made.",
                "Ask an administrator for a larger limit, or use another namespace.",
                short[0],
            )


def no_account(situation: Situation) -> Iterator[Checked]:
    """A service account that is not there."""
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
        f"namespace {namespace} has no service account {name}: the operator could not make a pod, "
        "and would say so in events only.",
        f"Use {other}, or make the account." if other else "Make the account, or give identity.",
        name,
        proposed(*([f"cluster.service_account={other}"] if other else [])),
    )


def no_priority(situation: Situation) -> Iterator[Checked]:
    """A priority class that is not there."""
    facts, name = cluster_of(situation), situation.spec.cluster.priority_class
    if name is None or not facts.sees(Subject.PRIORITIES) or name in facts.priorities:
        return
    own = [each for each in facts.priorities if not each.startswith("system-")]
    other = nearest(name, own)
    yield situation.error(
        SiteCode.NO_PRIORITY,
        "cluster.priority_class",
        f"the cluster has no priority class {name}: no pod would be admitted.",
        f"Use {other}, or remove the line." if other else "Remove the line, or make the class.",
        name,
        proposed(f"cluster.priority_class={other or 'null'}"),
    )


def no_lock(situation: Situation) -> Iterator[Checked]:
    """An image without the worker, and no list by which pods could install it."""
    keys, image = cluster_of(situation).lock_keys, demand_of(situation).scene.image
    lock = ENGINES[situation.spec.engine.name].installation.lock
    if image.brings_worker or keys is None or lock in keys:
        return
    name, namespace = situation.plan.machines.image, namespace_of(situation)
    lacks = f"no {lock} in its config map {LOCK_CONFIG}" if keys else f"no config map {LOCK_CONFIG}"
    yield situation.error(
        SiteCode.NO_LOCK,
        "cluster.image",
        f"{name} lacks the worker, and namespace {namespace} has {lacks}, by which pods would "
        "install it: no pod would start.",
        "Use an image with the worker in it (guide: images), or have an administrator make the "
        "map: workerLock in the chart's values.",
        name,
    )


def secrets(situation: Situation) -> Iterator[Checked]:
    """Secrets, or keys of them, that are not there."""
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
                f"the secret {found.name} has no key {wanted.key}; it has "
                f"{', '.join(found.keys) or 'none'}: no container would be made.",
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
        f"namespace {namespace_of(situation)} has no secret {name}: no container would be made.",
        f"Use {other}, or make the secret." if other else "Make the secret in this namespace.",
        name,
        proposed(*([f"{field_name}={other}"] if other else [])),
    )


def no_pull_secret(situation: Situation) -> Iterator[Checked]:
    """A pull secret that is not there, or is none."""
    facts, name = cluster_of(situation), situation.spec.cluster.image_pull_secret
    namespace, field_name = namespace_of(situation), "cluster.image_pull_secret"
    if name is None or not facts.sees(Subject.SECRETS, namespace):
        return
    there = [each for each in facts.secrets if each.namespace == namespace]
    found = next((each for each in there if each.name == name), None)
    if found is not None and _pulls(found):
        return
    other = nearest(name, [each.name for each in there if _pulls(each)])
    rule = f"namespace {namespace} has no secret {name}: nodes could not pull the image."
    if found is not None:
        rule = f"the secret {name} is of type {found.kind}, and no kubelet pulls images with it."
    yield situation.error(
        SiteCode.NO_PULL_SECRET,
        field_name,
        rule,
        f"Use {other}." if other else "Make it: kubectl create secret docker-registry.",
        name,
        proposed(*([f"{field_name}={other}"] if other else [])),
    )


def _pulls(secret: SecretFacts) -> bool:
    """Whether images can be pulled with a secret."""
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
