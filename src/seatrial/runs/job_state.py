# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""How far a job is, read from the conditions that its operator writes."""

from enum import StrEnum

from seatrial.cluster.transport import Json

_SUCCESS = ("Succeeded", "Complete", "Completed")
_FAILURE = ("Failed",)


class JobState(StrEnum):
    """How far a job is."""

    WAITING = "waiting"
    """It is there, and not all its pods run."""
    SUSPENDED = "suspended"
    """A queue or a person holds it back."""
    RUNNING = "running"
    """All pods run."""
    SUCCEEDED = "succeeded"
    """It came to its end."""
    FAILED = "failed"
    """It gave up."""
    ENDING = "ending"
    """It was deleted, and its pods are ending."""

    @property
    def is_over(self) -> bool:
        """Whether nothing more will happen."""
        return self in (JobState.SUCCEEDED, JobState.FAILED)


def condition(item: Json, *types: str) -> Json | None:
    """The condition of one of these types that holds."""
    for each in (item.get("status") or {}).get("conditions") or ():
        if each.get("type") in types and each.get("status") == "True":
            found: Json = each
            return found
    return None


def job_state(job: Json, running: int, wanted: int) -> JobState:
    """The state of a job of any operator, given how many of its pods run."""
    if condition(job, *_SUCCESS):
        return JobState.SUCCEEDED
    if condition(job, *_FAILURE):
        return JobState.FAILED
    if job["metadata"].get("deletionTimestamp"):
        return JobState.ENDING
    if is_suspended(job):
        return JobState.SUSPENDED
    return JobState.RUNNING if wanted and running >= wanted else JobState.WAITING


def is_suspended(job: Json) -> bool:
    """Whether a job is held back: of the job's own fields, whichever its kind has."""
    spec = job.get("spec") or {}
    return bool(spec.get("suspend") or (spec.get("runPolicy") or {}).get("suspend"))


def end_of(job: Json) -> tuple[str, str]:
    """When and why a job that is over ended, in the operator's words."""
    found = condition(job, *_SUCCESS, *_FAILURE) or {}
    when = found.get("lastTransitionTime") or found.get("lastUpdateTime") or ""
    return str(when), str(found.get("message") or found.get("reason") or "")


def wanted_pods(job: Json) -> int:
    """How many pods a job should have."""
    spec = job.get("spec") or {}
    if "pytorchReplicaSpecs" in spec:
        return sum(int(each.get("replicas") or 0) for each in spec["pytorchReplicaSpecs"].values())
    if "replicaSpecs" in spec:
        return sum(int(each.get("replicas") or 0) for each in spec["replicaSpecs"])
    return int((spec.get("trainer") or {}).get("numNodes") or spec.get("parallelism") or 1)
