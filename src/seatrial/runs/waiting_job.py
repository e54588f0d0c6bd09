# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Saying why a job of data preparation waits, as `status` says it of a run."""

import re
from dataclasses import dataclass, field, replace

from seatrial.cluster.kinds import JOB
from seatrial.cluster.transport import Json
from seatrial.errors import FindingsError
from seatrial.findings import Finding, Severity
from seatrial.runs.codes import RunCode
from seatrial.runs.ledger import Ledger
from seatrial.runs.observe import FoundJob, observe_around
from seatrial.runs.reasons import reasons
from seatrial.runs.site import Site
from seatrial.spec.cluster import Operator

EXPLAIN_SECONDS = 10.0
"""How often a job that waits is looked into: pods, events and nodes are many."""
GIVE_UP_SECONDS = 600.0
"""How long a reason that waiting does not mend may last before nobody waits any longer."""
LASTING = (RunCode.IMAGE, RunCode.SETTINGS, RunCode.VOLUME)
"""Reasons that waiting does not mend; room in the cluster or in a queue comes with time."""
_IMAGE_FIELD = re.compile(r"\bcluster\.image\b")


@dataclass(slots=True)
class WaitingJob:
    """What is known of why a job waits."""

    site: Site
    """Where it is, and who is told."""
    _looked: float | None = None
    _since: dict[tuple[str, str], float] = field(default_factory=dict)
    _told: set[tuple[str, str]] = field(default_factory=set)

    def is_due(self, job: Json) -> bool:
        """Whether it is time to look again; not while all its pods run."""
        status, now = job.get("status") or {}, self.site.clock()
        active = int(status.get("active") or 0)
        if active and int(status.get("ready") or 0) >= active:
            self._since.clear()
            return False
        if self._looked is not None and now - self._looked < EXPLAIN_SECONDS:
            return False
        self._looked = now
        return True

    def explain(self, job: Json, pods: list[Json]) -> None:
        """Tell every reason once that lasts; raise those that waiting does not mend."""
        now, found = self.site.clock(), self._reasons(job, pods)
        held = {(each.code, each.rule): each for each in found}
        self._since = {key: self._since.get(key, now) for key in held}
        for key, finding in held.items():
            # What goes away within a look, such as a pod without a node yet, is not worth a word.
            if key not in self._told and now - self._since[key] >= EXPLAIN_SECONDS:
                self._told.add(key)
                self.site.tell(f"{finding.where}: {finding.rule} {finding.fix}")
        moves = any((pod.get("status") or {}).get("phase") == "Running" for pod in pods)
        lasting = [
            finding
            for key, finding in held.items()
            if finding.code in LASTING and now - self._since[key] >= GIVE_UP_SECONDS
        ]
        if lasting and not moves:
            raise FindingsError(lasting)

    def _reasons(self, job: Json, pods: list[Json]) -> list[Finding]:
        """The reasons that a run would give, in words of data preparation."""
        site, name = self.site, str(job["metadata"]["name"])
        # Which operator runs it is of no matter: Kubernetes' own controller does.
        found = FoundJob(Operator.AUTO, JOB, {**job, "kind": JOB.name})
        seen = observe_around(site.api, site.namespace, name, Ledger(), found, tuple(pods))
        return [
            replace(each, fix=_IMAGE_FIELD.sub("cluster.preparation.image", each.fix))
            for each in reasons(seen)
            if each.severity is Severity.ERROR or each.code == RunCode.QUEUE
        ]
