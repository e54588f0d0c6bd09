# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Errors from the API server as findings: where, rule, value, fix."""

from seatrial.cluster.transport import Answer, Call
from seatrial.codes.cluster import ClusterCode
from seatrial.errors import ExitCode, FindingsError
from seatrial.findings import Finding, Severity, Where


class ClusterError(FindingsError):
    """The cluster is unreachable or rejects a call. Its one finding has the reason."""

    exit_code = ExitCode.CLUSTER

    def __init__(self, code: ClusterCode, where: str, rule: str, fix: str, value: str = "") -> None:
        self.code = code
        found = Finding(code, Severity.ERROR, Where(field=where), rule, value, fix)
        super().__init__([found])


class ConflictError(ClusterError):
    """An object already exists, has changed meanwhile, or has a different owner."""


class DeniedError(ClusterError):
    """The account lacks the permission."""


class NotServedError(ClusterError):
    """The cluster does not serve this kind of object."""


class UnreachableError(ClusterError):
    """The API server does not respond."""


def unreachable(server: str, reason: str, seconds: float) -> UnreachableError:
    """Return the error for a server that does not respond."""
    return UnreachableError(
        ClusterCode.UNREACHABLE,
        server,
        f"the API server did not respond for {seconds:.0f} s: {reason}.",
        "Check that the cluster is running and reachable (kubectl get --raw /readyz), and that "
        "--context is correct. Submitted runs continue meanwhile.",
        reason,
    )


def error_of(call: Call, answer: Answer) -> ClusterError:
    """Return the error for an unsuccessful answer."""
    where, said = call.about or call.path, answer.message
    if answer.status == 401:
        return ClusterError(
            ClusterCode.CREDENTIALS,
            where,
            "the API server rejects the credentials.",
            "Log in again with the tool that wrote the kubeconfig, and check kubectl auth whoami.",
            said,
        )
    if answer.status == 403 and _is_quota(said):
        return ClusterError(
            ClusterCode.INVALID,
            where,
            f"the object exceeds a quota or limit in the namespace: {said}.",
            "Request less, or ask an administrator for a larger quota.",
            said,
        )
    if answer.status == 403:
        return DeniedError(
            ClusterCode.DENIED,
            where,
            f"the account lacks the permission: {said}.",
            "Ask an administrator to bind the role seatrial-launcher in the namespace "
            "(charts/seatrial, or seatrial render --part admin).",
            said,
        )
    if answer.status == 404 and is_unserved(answer):
        return NotServedError(
            ClusterCode.NOT_SERVED,
            where,
            "the cluster does not serve this kind of object.",
            "Install its operator, or set cluster.operator to a different one.",
            said,
        )
    return _other_error(call, answer)


def _other_error(call: Call, answer: Answer) -> ClusterError:
    """Return an error about the object itself or the server."""
    where, said = call.about or call.path, answer.message
    if answer.status == 404:
        return ClusterError(
            ClusterCode.NOT_FOUND,
            where,
            f"{said}.",
            "Check cluster.namespace and --context. To list the runs in a namespace: seatrial list",
            said,
        )
    if answer.status == 409:
        return ConflictError(
            ClusterCode.CONFLICT,
            where,
            f"this change conflicts with another one: {said}.",
            "Check who changed the object (kubectl get --show-managed-fields), then try again.",
            said,
        )
    if answer.status in (400, 413, 415, 422):
        return ClusterError(
            ClusterCode.INVALID,
            where,
            f"the API server rejects the object: {said}.",
            "Compare with seatrial render --diff. Check cluster.operator_version and the cluster's "
            "webhooks.",
            said,
        )
    return ClusterError(
        ClusterCode.FAILING,
        where,
        f"the API server returned {answer.status}: {said}.",
        "Try again. If the error persists, report it to the cluster's administrator.",
        said,
    )


def is_unserved(answer: Answer) -> bool:
    """True if a 404 means that the kind is not served, not that an object is missing."""
    # For a missing object, the server returns its name. For an unknown path, it does not.
    details = answer.body.get("details") or {}
    return answer.status == 404 and not details.get("name")


def _is_quota(said: str) -> bool:
    return "exceeded quota" in said or "maximum" in said or "minimum" in said
