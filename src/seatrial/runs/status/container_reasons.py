# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Why one pod does not run, or has ended: from its status and its events, without its log."""

import re
from collections.abc import Iterator

from seatrial.cluster.transport import Json
from seatrial.codes.runs import RunCode
from seatrial.findings import Finding, Severity, Where
from seatrial.secrets.redaction import redact_beginning
from seatrial.storage.state_files import parse_json

PREFLIGHT = "preflight"
"""The init container that looks at the node."""
INSTALL = "install"
"""The init container that installs the worker."""
UNFINISHED = 75
"""The exit code of a worker that saved because it was asked to end (worker/process.py)."""
_PULL = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")
_SETTINGS = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError")
_MOUNT = ("FailedMount", "FailedAttachVolume", "FailedMapVolume")
_LONGEST = 400
_KUBELET_TAIL = 2048
"""Bytes of a log that the kubelet keeps as the termination message of a container that failed."""


def pod_name(pod: Json) -> str:
    return str(pod["metadata"]["name"])


def node_of(pod: Json) -> str:
    """The node that a pod is on; empty while it has none."""
    return str(pod["spec"].get("nodeName") or "")


def is_running(pod: Json) -> bool:
    """Whether all containers of a pod run."""
    status = pod.get("status") or {}
    states = status.get("containerStatuses") or ()
    return status.get("phase") == "Running" and all(
        "running" in (s.get("state") or {}) for s in states
    )


def container_statuses(pod: Json) -> list[Json]:
    """The statuses of all containers, init containers first."""
    status = pod.get("status") or {}
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def why_not_running(pod: Json, events: list[Json]) -> Iterator[Finding]:
    """What holds a pod back that is on a node, or what ended it."""
    yield from preflight_findings(pod)
    yield from _taken_away(pod)
    for container in container_statuses(pod):
        yield from _waiting(pod, container)
        yield from _ended(pod, container)
    yield from _mount_trouble(pod, events)


def preflight_findings(pod: Json) -> list[Finding]:
    """What the look at the node found, from the container's last words."""
    found: dict[Finding, None] = {}
    for container in container_statuses(pod):
        if container["name"] != PREFLIGHT:
            continue
        for state in (container.get("state") or {}, container.get("lastState") or {}):
            message = (state.get("terminated") or {}).get("message", "")
            found |= dict.fromkeys(_read(message, node_of(pod)))
    return list(found)


def _read(message: str, node: str) -> list[Finding]:
    """Findings as the pre-flight writes them; anything else is none."""
    try:
        entries = parse_json(message)
        return [
            Finding(
                entry["code"],
                Severity(entry["severity"]),
                Where(field=entry["where"].get("field") or node),
                entry["rule"],
                entry["value"],
                entry["fix"],
            )
            for entry in entries
        ]
    except (ValueError, KeyError, TypeError, AttributeError):
        return []


def _taken_away(pod: Json) -> Iterator[Finding]:
    """A pod that lost its node, or its place on it."""
    status = pod.get("status") or {}
    for condition in status.get("conditions") or ():
        if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True":
            said = _words(condition.get("message") or condition.get("reason"))
            yield _finding(
                RunCode.NODE,
                pod,
                f"it was taken from {node_of(pod) or 'its node'}: {said}.",
                "The operator starts it again elsewhere, from the last checkpoint.",
                said,
                Severity.WARNING,
            )
            return
    if status.get("reason") in ("Evicted", "NodeLost", "Preempting", "Shutdown"):
        said = _words(status.get("message") or status["reason"])
        fix = "See the node's pressure and its other pods: kubectl describe node."
        yield _finding(RunCode.NODE, pod, f"it was evicted: {said}.", fix, said, Severity.WARNING)


def _waiting(pod: Json, container: Json) -> Iterator[Finding]:
    """A container that cannot be made."""
    waiting = (container.get("state") or {}).get("waiting") or {}
    reason, said = waiting.get("reason", ""), _words(waiting.get("message"))
    if reason in _PULL:
        yield _finding(
            RunCode.IMAGE,
            pod,
            f"the image {container.get('image', '')} cannot be pulled: {said or reason}.",
            _pull_fix(said),
            str(container.get("image", "")),
        )
    elif reason in _SETTINGS:
        fix = "Make the secret or config map that it names in the run's namespace: cluster.secrets."
        rule = f"the container {container['name']} cannot be made: {said or reason}."
        yield _finding(RunCode.SETTINGS, pod, rule, fix, said)


def _pull_fix(said: str) -> str:
    """What to do about an image, by what the registry said."""
    low = said.lower()
    if "unauthorized" in low or "denied" in low or "forbidden" in low:
        return "Name a pull secret by cluster.image_pull_secret, and see whether it is valid."
    if "not found" in low or "manifest unknown" in low:
        return "See whether cluster.image is written as the registry has it, tag and digest too."
    if "toomanyrequests" in low or "rate limit" in low:
        return "The registry limits pulls: use a mirror, or name a pull secret of an account."
    if "no such host" in low or "timeout" in low or "refused" in low:
        return "Nodes do not reach the registry: see their DNS, proxy and egress, or use a mirror."
    return "See cluster.image and cluster.image_pull_secret."


def _ended(pod: Json, container: Json) -> Iterator[Finding]:
    """A container that ended with an error, now or before it was started again."""
    state, last = container.get("state") or {}, container.get("lastState") or {}
    end = state.get("terminated") or last.get("terminated") or {}
    code = int(end.get("exitCode") or 0)
    if code in (0, UNFINISHED) and end.get("reason") != "OOMKilled":
        return
    said = _last_line(end.get("message"))
    # Started again, it is a story of the past.
    severity = Severity.WARNING if "running" in state else Severity.ERROR
    if end.get("reason") == "OOMKilled":
        rule = f"{container['name']} took more memory of the node than it may, and was killed."
        fix = "Fewer data workers, or a larger share of the node: cluster.processes_per_node."
        yield _finding(RunCode.MEMORY, pod, rule, fix, str(code), severity)
    elif container["name"] == INSTALL:
        rule = f"the worker could not be installed: {said or f'exit code {code}'}."
        fix = "Let pods reach a package index, or use an image that brings the worker."
        yield _finding(RunCode.INSTALL, pod, rule, fix, str(code), severity)
    elif container["name"] != PREFLIGHT or not preflight_findings(pod):
        rule = f"{container['name']} ended with {_exit(code)}" + (f": {said}." if said else ".")
        run = pod["metadata"].get("labels", {}).get("seatrial.dev/run", "RUN")
        fix = f"Read its log: seatrial logs {run}."
        yield _finding(RunCode.CRASH, pod, rule, fix, str(code), severity)


def _exit(code: int) -> str:
    """An exit code, with the signal that it stands for."""
    signals = {134: "SIGABRT", 135: "SIGBUS", 137: "SIGKILL", 139: "SIGSEGV", 143: "SIGTERM"}
    return f"exit code {code} ({signals[code]})" if code in signals else f"exit code {code}"


def _mount_trouble(pod: Json, events: list[Json]) -> Iterator[Finding]:
    """A volume that cannot be mounted; only events tell."""
    if container_statuses(pod) and is_running(pod):
        return
    for event in reversed(events):
        if event.get("reason") in _MOUNT:
            said = _words(event.get("message"))
            fix = "See whether the claim, the secret or the config map exists, and its driver runs."
            yield _finding(RunCode.VOLUME, pod, f"a volume is not mounted: {said}.", fix, said)
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
    """A message in one line, without its last dot."""
    words = re.sub(r"\s+", " ", str(text or "")).strip().rstrip(".")
    return redact_beginning(words, _LONGEST)


def end_lines(message: object) -> list[str]:
    """The lines of a container's termination message, without one that may have lost its beginning.

    The kubelet takes the last bytes of the log, and cuts through a token that is no longer
    recognised then.
    """
    text = str(message or "")
    lines = text.splitlines()
    if len(text.encode()) < _KUBELET_TAIL:
        return lines
    return lines[1:] if len(lines) > 1 else [text.partition(" ")[2]]


def _last_line(text: object) -> str:
    """The line of a container's last words that says most: the last error, else the last line."""
    lines = [line.strip() for line in end_lines(text) if line.strip()]
    errors = [line for line in lines if "Error" in line and "ChildFailedError" not in line]
    return _words((errors or lines or [""])[-1])
