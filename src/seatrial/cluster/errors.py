# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What an API server's refusals mean to a user: where, rule, value, fix."""

from seatrial.cluster.transport import Answer, Call
from seatrial.codes.cluster import ClusterCode
from seatrial.errors import ExitCode, FindingsError
from seatrial.findings import Finding, Severity, Where


class ClusterError(FindingsError):
    """The cluster cannot be reached, or refuses; the one finding says why."""

    exit_code = ExitCode.CLUSTER

    def __init__(self, code: ClusterCode, where: str, rule: str, fix: str, value: str = "") -> None:
        """Make the finding."""
        self.code = code
        found = Finding(code, Severity.ERROR, Where(field=where), rule, value, fix)
        super().__init__([found])


class ConflictError(ClusterError):
    """An object exists already, has changed meanwhile, or belongs to somebody else."""


class DeniedError(ClusterError):
    """The account may not do this."""


class NotServedError(ClusterError):
    """The cluster does not know the kind of object."""


class UnreachableError(ClusterError):
    """The API server does not answer."""


def unreachable(server: str, reason: str, seconds: float) -> UnreachableError:
    """The error for a server that gives no answer."""
    return UnreachableError(
        ClusterCode.UNREACHABLE,
        server,
        f"the API server gave no answer for {seconds:.0f} s: {reason}.",
        "See whether the cluster runs and this machine reaches it (kubectl get --raw /readyz), "
        "and whether --context is the right one. What was submitted goes on meanwhile.",
        reason,
    )


def error_of(call: Call, answer: Answer) -> ClusterError:
    """The error for an answer that is no success."""
    where, said = call.about or call.path, answer.message
    if answer.status == 401:
        return ClusterError(
            ClusterCode.CREDENTIALS,
            where,
            "the API server does not accept the credentials.",
            "Log in again with the tool that wrote the kubeconfig, and see kubectl auth whoami.",
            said,
        )
    if answer.status == 403 and _is_quota(said):
        return ClusterError(
            ClusterCode.INVALID,
            where,
            f"a quota or a limit of the namespace refuses it: {said}.",
            "Ask for less, or ask an administrator for more.",
            said,
        )
    if answer.status == 403:
        return DeniedError(
            ClusterCode.DENIED,
            where,
            f"the account may not do this: {said}.",
            "Let an administrator bind the role seatrial-launcher in the namespace: "
            "charts/seatrial, or seatrial render --part admin.",
            said,
        )
    if answer.status == 404 and is_unserved(answer):
        return NotServedError(
            ClusterCode.NOT_SERVED,
            where,
            "the cluster does not know this kind of object.",
            "Install its operator, or choose another by cluster.operator.",
            said,
        )
    return _other_error(call, answer)


def _other_error(call: Call, answer: Answer) -> ClusterError:
    """The errors of the object itself, and of the server."""
    where, said = call.about or call.path, answer.message
    if answer.status == 404:
        return ClusterError(
            ClusterCode.NOT_FOUND,
            where,
            f"{said}.",
            "See cluster.namespace and --context: seatrial list shows the runs of a namespace.",
            said,
        )
    if answer.status == 409:
        return ConflictError(
            ClusterCode.CONFLICT,
            where,
            f"it is held by somebody else: {said}.",
            "See who changed it (kubectl get --show-managed-fields), then try again.",
            said,
        )
    if answer.status in (400, 413, 415, 422):
        return ClusterError(
            ClusterCode.INVALID,
            where,
            f"the API server refuses it: {said}.",
            "Compare with seatrial render --diff; see cluster.operator_version and the webhooks "
            "of the cluster.",
            said,
        )
    return ClusterError(
        ClusterCode.FAILING,
        where,
        f"the API server answers {answer.status}: {said}.",
        "Try again; if it stays so, show this to the cluster's administrator.",
        said,
    )


def is_unserved(answer: Answer) -> bool:
    """Whether a 404 means that the kind is not known, rather than that one object is absent."""
    # Of an object, the server names the object; of a path that it does not know, nothing.
    details = answer.body.get("details") or {}
    return answer.status == 404 and not details.get("name")


def _is_quota(said: str) -> bool:
    return "exceeded quota" in said or "maximum" in said or "minimum" in said
