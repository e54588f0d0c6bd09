# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Explain why a run is waiting, from its objects in the cluster."""

import re
from collections.abc import Iterator

from seatrial.cluster.transport import Json
from seatrial.codes.runs import RunCode
from seatrial.findings import Finding, Severity, Where
from seatrial.runs.status.container_reasons import is_running, pod_name, why_not_running
from seatrial.runs.status.observe import Observed, condition, is_suspended, wanted_pods

INSTANCE_TYPE = "node.kubernetes.io/instance-type"
_INSUFFICIENT = re.compile(r"(\d+) Insufficient ([A-Za-z0-9._/-]+[A-Za-z0-9])")
_TOTAL = re.compile(r"^0/(\d+) nodes")
_PLUGINS = {
    "vpc.amazonaws.com/efa": "Install the EFA device plugin (see the EKS guide).",
    "nvidia.com/gpu": "Install NVIDIA's device plugin or GPU operator.",
    "rdma/": "Install an RDMA device plugin (NVIDIA's network operator).",
    "hugepages-": "Enable huge pages in the kubelet configuration.",
}
"""How to make nodes offer a resource."""


def reasons(observed: Observed) -> list[Finding]:
    """Return why the run is not running, most important first. Merges equal reasons of pods."""
    if observed.job is None:
        return []
    found = [*_of_job(observed), *_of_pods(observed)]
    found.sort(key=lambda finding: list(Severity).index(finding.severity))
    return _merged(found, len(observed.pods))


def _of_job(observed: Observed) -> Iterator[Finding]:
    """Report why there are no pods."""
    job = observed.job
    if job is None or observed.pods:
        return
    where = f"{job.kind.name} {observed.namespace}/{observed.run}"
    failed = [e for e in observed.events if e.get("reason") in ("FailedCreate", "FailedCreatePod")]
    if observed.workload is not None or is_suspended(job.object):
        yield _queued(observed, where)
    elif failed:
        said = _words(failed[-1].get("message"))
        fix = "Request less, or ask an administrator for a larger quota or a different policy."
        rule = f"the cluster rejects the job's pods: {said}."
        yield Finding(RunCode.NO_PODS, Severity.ERROR, Where(field=where), rule, said, fix)
    elif not (job.object.get("status") or {}).get("conditions"):
        fix = "Check that the operator is running: kubectl get pods --all-namespaces."
        rule = "the operator has not processed the job yet, so there are no pods."
        yield Finding(RunCode.NO_PODS, Severity.WARNING, Where(field=where), rule, "", fix)


def _queued(observed: Observed, where: str) -> Finding:
    """Report a job that Kueue has suspended."""
    conditions = ((observed.workload or {}).get("status") or {}).get("conditions") or ()
    said = next(
        (
            _words(c.get("message"))
            for c in conditions
            if c.get("type") == "QuotaReserved" and c.get("status") == "False"
        ),
        "",
    )
    queue = observed.job.labels.get("kueue.x-k8s.io/queue-name", "") if observed.job else ""
    rule = f"the job is waiting in the queue {queue}" if queue else "the job is suspended"
    return Finding(
        RunCode.QUEUE,
        Severity.WARNING,
        Where(field=where),
        f"{rule}: {said}." if said else f"{rule}.",
        queue,
        "Check the queue's quota and the workloads ahead: kubectl get workloads."
        if queue
        else "Set suspend to false, or launch the run again.",
    )


def _of_pods(observed: Observed) -> Iterator[Finding]:
    for pod in observed.pods:
        if is_running(pod) and not (pod.get("status") or {}).get("reason"):
            # It may have been restarted, which is worth reporting.
            yield from (f for f in why_not_running(pod, []) if f.severity is not Severity.ERROR)
            continue
        events = [e for e in observed.events if _is_about(e, pod)]
        found = [*_unscheduled(observed, pod), *why_not_running(pod, events)]
        yield from found or _starting(pod)


def _is_about(event: Json, item: Json) -> bool:
    return bool(event.get("involvedObject", {}).get("uid") == item["metadata"]["uid"])


def _starting(pod: Json) -> list[Finding]:
    """Report a pod that is starting without known problems."""
    if (pod.get("status") or {}).get("phase") != "Pending":
        return []
    rule = (
        "the pod is starting: mounting volumes, pulling the image and running init containers take "
        "time."
    )
    where = Where(field=pod_name(pod))
    return [Finding(RunCode.STARTING, Severity.NOTE, where, rule, "", "Wait.")]


def _unscheduled(observed: Observed, pod: Json) -> Iterator[Finding]:
    """Report why a pod has no node."""
    status = pod.get("status") or {}
    said = next(
        (
            _words(c.get("message"))
            for c in status.get("conditions") or ()
            if c.get("type") == "PodScheduled" and c.get("status") == "False"
        ),
        "",
    )
    if not said:
        return
    if "PersistentVolumeClaim" in said or "persistentvolumeclaim" in said:
        yield from _unbound(observed, pod, said)
        return
    # The text after `preemption:` is about a second try, which counts the same nodes again.
    short = said.partition("preemption:")[0].rstrip(" ,.")
    lacking = _INSUFFICIENT.findall(short)
    for _, resource in lacking:
        yield _insufficient(observed, pod, resource, short)
    if not lacking:
        fix = "Compare the labels and taints of the nodes with cluster.node_type, "
        fix += "cluster.node_selector and cluster.tolerations."
        rule = f"no node accepts the pod: {short}."
        newest = observed.ledger.newest
        excluded = newest.excluded_nodes if newest else ()
        if excluded:
            rule += f" Excluded after preflight: {', '.join(excluded)}."
        yield _finding(RunCode.PLACEMENT, pod, rule, fix, short)


def _insufficient(observed: Observed, pod: Json, resource: str, said: str) -> Finding:
    """Report that no node has enough of a resource."""
    amount = _requested(pod, resource)
    rule = f"no node has {amount} free {resource}".replace("  ", " ")
    total = _TOTAL.search(said)
    fix = "Wait for other runs to finish, or request fewer or smaller nodes."
    if observed.nodes is None:
        rule += f" ({total[1]} nodes checked)." if total else "."
        fix += " To see why, use an account with the role seatrial-observer."
        return _finding(RunCode.RESOURCES, pod, rule, fix, resource)
    kind = _wanted_type(pod)
    alike = [n for n in observed.nodes if not kind or _labels(n).get(INSTANCE_TYPE) == kind]
    offering = [n for n in alike if _allocatable(n).get(resource, "0") not in ("0", "")]
    named = f"{kind} nodes" if kind else "nodes"
    if not alike:
        rule += f": the cluster has no {named}."
        fix = "Add nodes of this type, or set cluster.node_type to a different type."
    elif not offering:
        rule += f": 0 of {len(alike)} {named} offer it."
        plugin = next((text for name, text in _PLUGINS.items() if resource.startswith(name)), "")
        fix = plugin or f"Install the component that provides {resource}."
        if resource == "vpc.amazonaws.com/efa":
            fix += " Or set cluster.fabric=none to test without the fabric (slow)."
    else:
        largest = max((_allocatable(n).get(resource, "0") for n in offering), key=_number)
        rule += f": {len(offering)} of {len(alike)} {named} offer it, at most {largest} each"
        busy = _number(largest) >= _number(amount)
        rule += ", but other pods are using this capacity." if busy else "."
    return _finding(RunCode.RESOURCES, pod, rule, fix, resource)


def _unbound(observed: Observed, pod: Json, said: str) -> Iterator[Finding]:
    """Report why a PVC has no volume."""
    for claim in observed.claims:
        if (claim.get("status") or {}).get("phase") == "Bound":
            continue
        trouble = [e for e in observed.events if _is_about(e, claim) and e.get("type") == "Warning"]
        words = _words(trouble[-1].get("message")) if trouble else "it is not provisioned yet"
        storage_class = claim["spec"].get("storageClassName") or "the default storage class"
        rule = f"the PVC {claim['metadata']['name']} ({storage_class}) has no volume: {words}."
        fix = "Check the storage class (to create it: seatrial render --part admin) and its driver."
        yield _finding(RunCode.VOLUME, pod, rule, fix, words)
        return
    fix = "Create the PVC, or correct cluster.storage.claim."
    yield _finding(RunCode.VOLUME, pod, f"{said}.", fix, said)


def _requested(pod: Json, resource: str) -> str:
    """Return the amount of a resource that the pod requests. Empty if no container does."""
    asked = [
        (container.get("resources") or {}).get("requests", {}).get(resource, "")
        for container in pod["spec"]["containers"]
    ]
    return next((str(amount) for amount in asked if amount), "")


def _wanted_type(pod: Json) -> str:
    """Return the node type that the pod requires."""
    affinity = ((pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {}
    for term in affinity.get("nodeSelectorTerms") or ():
        for wanted in term.get("matchExpressions") or ():
            if wanted["key"] == INSTANCE_TYPE:
                return str(wanted["values"][0])
    return ""


def _labels(node: Json) -> dict[str, str]:
    return node["metadata"].get("labels") or {}


def _allocatable(node: Json) -> dict[str, str]:
    return (node.get("status") or {}).get("allocatable") or {}


def _number(quantity: str) -> float:
    """Convert a Kubernetes quantity to a number, precise enough to compare."""
    match = re.fullmatch(r"([0-9.]+)([A-Za-z]*)", quantity or "0")
    if match is None:
        return 0.0
    scale = {"m": 1e-3, "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
    scale |= {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
    return float(match[1]) * scale.get(match[2], 1.0)


def _finding(code: RunCode, pod: Json, rule: str, fix: str, value: str) -> Finding:
    return Finding(code, Severity.ERROR, Where(field=pod_name(pod)), rule, value, fix)


def _merged(found: list[Finding], pods: int) -> list[Finding]:
    """Merge equal reasons of several pods, and count the pods."""
    groups: dict[tuple[str, Severity, str, str], list[Finding]] = {}
    for finding in found:
        groups.setdefault((finding.code, finding.severity, finding.rule, finding.fix), []).append(
            finding
        )
    merged = []
    for same in groups.values():
        names = list(dict.fromkeys(finding.where.field for finding in same))
        first = same[0]
        place = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} of {pods} pods"
        if len(names) == pods > 1:
            place = f"all {pods} pods"
        merged.append(
            Finding(
                first.code, first.severity, Where(field=place), first.rule, first.value, first.fix
            )
        )
    return merged


def _words(text: object) -> str:
    return re.sub(r"\s+", " ", str(text or "")).strip().rstrip(".")


def wanted_and_running(observed: Observed) -> tuple[int, int]:
    """Return how many pods the job should have, and how many are running."""
    if observed.job is None:
        return 0, 0
    return wanted_pods(observed.job.object), sum(map(is_running, observed.pods))


def operator_message(observed: Observed) -> str:
    """Return the operator's message about a failed job."""
    found = condition(observed.job.object, "Failed") if observed.job else None
    return _words(found.get("message")) if found else ""
