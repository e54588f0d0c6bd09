# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Explain why a pod is not running, or why it exited, from its status and events."""

import re
from collections.abc import Iterator
from dataclasses import replace

from seatrial.cluster.transport import Json
from seatrial.codes.runs import RunCode
from seatrial.findings import Finding, Severity, Where
from seatrial.monitoring.node_measurements import MEASURED, NodeMeasurement, read_measurement
from seatrial.secrets.redaction import redact_beginning
from seatrial.storage.state_files import parse_json

PREFLIGHT = "preflight"
"""The init container that checks the node."""
INSTALL = "install"
"""The init container that installs the worker."""
UNFINISHED = 75
"""The exit code of a worker that saved after SIGTERM (worker/process.py)."""
_PULL = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")
_SETTINGS = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError")
_MOUNT = ("FailedMount", "FailedAttachVolume", "FailedMapVolume")
_LONGEST = 400
_KUBELET_TAIL = 2048
"""The size of a failed container's termination message: the end of its log."""


def pod_name(pod: Json) -> str:
    return str(pod["metadata"]["name"])


def node_of(pod: Json) -> str:
    """Return the node of a pod. Empty if it is not scheduled."""
    return str(pod["spec"].get("nodeName") or "")


def is_running(pod: Json) -> bool:
    """True if all containers of a pod are running."""
    status = pod.get("status") or {}
    states = status.get("containerStatuses") or ()
    return status.get("phase") == "Running" and all(
        "running" in (s.get("state") or {}) for s in states
    )


def container_statuses(pod: Json) -> list[Json]:
    """Return the statuses of all containers, init containers first."""
    status = pod.get("status") or {}
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def why_not_running(pod: Json, events: list[Json]) -> Iterator[Finding]:
    """Yield the reasons why a scheduled pod is not running, or why it exited."""
    yield from preflight_findings(pod)
    yield from _taken_away(pod)
    for container in container_statuses(pod):
        yield from _waiting(pod, container)
        if not _is_stopped_sidecar(pod, container):
            yield from _ended(pod, container)
    yield from _mount_trouble(pod, events)


def preflight_findings(pod: Json) -> list[Finding]:
    """Return the findings of the preflight check from its termination message."""
    found: dict[Finding, None] = {}
    for message in _preflight_messages(pod):
        found |= dict.fromkeys(_read(message, node_of(pod)))
    return list(found)


def node_measurement(pod: Json) -> NodeMeasurement | None:
    """Return the newest preflight measurements of a pod's node; None if there are none."""
    for message in _preflight_messages(pod):
        for entry in _entries(message):
            found = read_measurement(entry.get(MEASURED)) if MEASURED in entry else None
            if found is not None:
                return replace(found, node=node_of(pod) or found.node)
    return None


def _preflight_messages(pod: Json) -> Iterator[str]:
    """Yield the termination messages of the preflight container, newest first."""
    for container in container_statuses(pod):
        if container["name"] != PREFLIGHT:
            continue
        for state in (container.get("state") or {}, container.get("lastState") or {}):
            yield str((state.get("terminated") or {}).get("message") or "")


def _entries(message: str) -> list[Json]:
    """Parse a list of objects. Empty for any other text."""
    try:
        entries = parse_json(message)
    except ValueError:
        return []
    whole = isinstance(entries, list) and all(isinstance(entry, dict) for entry in entries)
    return entries if whole else []


def _read(message: str, node: str) -> list[Finding]:
    """Parse the findings that the preflight check writes. Empty for any other text."""
    try:
        return [
            Finding(
                entry["code"],
                Severity(entry["severity"]),
                Where(field=entry["where"].get("field") or node),
                entry["rule"],
                entry["value"],
                entry["fix"],
            )
            for entry in _entries(message)
            if MEASURED not in entry
        ]
    except (ValueError, KeyError, TypeError, AttributeError):
        return []


def _taken_away(pod: Json) -> Iterator[Finding]:
    """Report a pod that was evicted, preempted, or lost its node."""
    status = pod.get("status") or {}
    for condition in status.get("conditions") or ():
        if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True":
            said = _words(condition.get("message") or condition.get("reason"))
            yield _finding(
                RunCode.NODE,
                pod,
                f"the pod was removed from {node_of(pod) or 'its node'}: {said}.",
                "The operator restarts it on another node, from the last checkpoint.",
                said,
                Severity.WARNING,
            )
            return
    if status.get("reason") in ("Evicted", "NodeLost", "Preempting", "Shutdown"):
        said = _words(status.get("message") or status["reason"])
        fix = "Check the node's conditions and its other pods: kubectl describe node."
        rule = f"the pod was evicted: {said}."
        yield _finding(RunCode.NODE, pod, rule, fix, said, Severity.WARNING)


def _waiting(pod: Json, container: Json) -> Iterator[Finding]:
    """Report a container that cannot be created."""
    waiting = (container.get("state") or {}).get("waiting") or {}
    reason, said = waiting.get("reason", ""), _words(waiting.get("message"))
    if reason in _PULL:
        yield _finding(
            RunCode.IMAGE,
            pod,
            f"cannot pull the image {container.get('image', '')}: {said or reason}.",
            _pull_fix(said),
            str(container.get("image", "")),
        )
    elif reason in _SETTINGS:
        fix = "Create the missing secret or ConfigMap in the run's namespace: cluster.secrets."
        rule = f"cannot create the container {container['name']}: {said or reason}."
        yield _finding(RunCode.SETTINGS, pod, rule, fix, said)


def _pull_fix(said: str) -> str:
    """Suggest a fix for an image from the registry's message."""
    low = said.lower()
    if "unauthorized" in low or "denied" in low or "forbidden" in low:
        return "Set cluster.image_pull_secret to a valid pull secret."
    if "not found" in low or "manifest unknown" in low:
        return "Check that cluster.image exists in the registry, with its tag and digest."
    if "toomanyrequests" in low or "rate limit" in low:
        return "The registry limits pulls: use a mirror, or a pull secret with an account."
    if "no such host" in low or "timeout" in low or "refused" in low:
        return "Nodes cannot reach the registry: check DNS, proxy and egress, or use a mirror."
    return "Check cluster.image and cluster.image_pull_secret."


def _is_stopped_sidecar(pod: Json, container: Json) -> bool:
    """True for a sidecar, such as a fabric's daemon, that the kubelet stopped after training."""
    sidecars = {
        each["name"]
        for each in pod["spec"].get("initContainers") or ()
        if each.get("restartPolicy") == "Always"
    }
    states = (pod.get("status") or {}).get("containerStatuses") or ()
    ended = states and all("terminated" in (each.get("state") or {}) for each in states)
    return bool(ended) and container["name"] in sidecars


def _ended(pod: Json, container: Json) -> Iterator[Finding]:
    """Report a container that failed, now or before its restart."""
    state, last = container.get("state") or {}, container.get("lastState") or {}
    end = state.get("terminated") or last.get("terminated") or {}
    code = int(end.get("exitCode") or 0)
    if code in (0, UNFINISHED) and end.get("reason") != "OOMKilled":
        return
    said = _last_line(end.get("message"))
    # It was restarted, so the failure is in the past.
    severity = Severity.WARNING if "running" in state else Severity.ERROR
    if end.get("reason") == "OOMKilled":
        rule = f"{container['name']} was killed because it ran out of memory."
        fix = "Use fewer data workers, or get more of the node: raise cluster.processes_per_node."
        yield _finding(RunCode.MEMORY, pod, rule, fix, str(code), severity)
    elif container["name"] == INSTALL:
        rule = f"the worker installation failed: {said or f'exit code {code}'}."
        fix = "Give pods access to a package index, or use an image that contains the worker."
        yield _finding(RunCode.INSTALL, pod, rule, fix, str(code), severity)
    elif container["name"] != PREFLIGHT or not preflight_findings(pod):
        rule = f"{container['name']} exited with {_exit(code)}" + (f": {said}." if said else ".")
        run = pod["metadata"].get("labels", {}).get("seatrial.dev/run", "RUN")
        fix = f"Read its log: seatrial logs {run}."
        yield _finding(RunCode.CRASH, pod, rule, fix, str(code), severity)


def _exit(code: int) -> str:
    """Format an exit code, with its signal."""
    signals = {134: "SIGABRT", 135: "SIGBUS", 137: "SIGKILL", 139: "SIGSEGV", 143: "SIGTERM"}
    return f"exit code {code} ({signals[code]})" if code in signals else f"exit code {code}"


def _mount_trouble(pod: Json, events: list[Json]) -> Iterator[Finding]:
    """Report a volume that cannot be mounted. Only events show mount errors."""
    if container_statuses(pod) and is_running(pod):
        return
    for event in reversed(events):
        if event.get("reason") in _MOUNT:
            said = _words(event.get("message"))
            fix = "Check that the PVC, secret or ConfigMap exists, and that the driver is running."
            yield _finding(RunCode.VOLUME, pod, f"cannot mount a volume: {said}.", fix, said)
            return


def _finding(
    code: RunCode,
    pod: Json,
    rule: str,
    fix: str,
    value: str = "",
    severity: Severity = Severity.ERROR,
) -> Finding:
    return Finding(code, severity, Where(field=pod_name(pod)), rule, value, fix)


def _words(text: object) -> str:
    """Format a message on one line, without the final period."""
    words = re.sub(r"\s+", " ", str(text or "")).strip().rstrip(".")
    return redact_beginning(words, _LONGEST)


def end_lines(message: object) -> list[str]:
    """Return the lines of a termination message, without a first line that may be cut.

    The kubelet keeps the last bytes of the log. It may cut through a token, which redaction would
    then not recognise.
    """
    text = str(message or "")
    lines = text.splitlines()
    if len(text.encode()) < _KUBELET_TAIL:
        return lines
    return lines[1:] if len(lines) > 1 else [text.partition(" ")[2]]


def _last_line(text: object) -> str:
    """Return the most useful line of a termination message: the last error, or the last line."""
    lines = [line.strip() for line in end_lines(text) if line.strip()]
    errors = [line for line in lines if "Error" in line and "ChildFailedError" not in line]
    return _words((errors or lines or [""])[-1])
