# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Delete checkpoints that the retention policy does not keep, after a commit, in the background.

The volume is sized for the spec's policy and would otherwise fill up. Deletions can take long on a
slow file system, so a thread on the first rank does them.
"""

import os
import sys
from collections.abc import Mapping
from threading import Thread

from seatrial.checkpoints.inventory import State, checkpoints
from seatrial.checkpoints.retention import Policy, decide, retire
from seatrial.storage.location import LocalPlace
from seatrial.storage.store import StoreError

KEEP_LAST = "SEATRIAL_KEEP_LAST"
"""Number of newest checkpoints to keep; all if not set."""
KEEP_EVERY = "SEATRIAL_KEEP_EVERY_STEPS"
"""Also keep the checkpoints whose step is a multiple of this number."""


def policy_of(variables: Mapping[str, str]) -> Policy | None:
    """Return the policy; None to keep all checkpoints. Invalid values must not delete any."""
    last, every = variables.get(KEEP_LAST, ""), variables.get(KEEP_EVERY, "")
    if not last.isdecimal() or int(last) < 1 or not (every == "" or every.isdecimal()):
        return None
    return Policy(last=int(last), every_steps=int(every) if every else None)


class Retirement:
    """Deletes old checkpoints, in one background thread at a time."""

    def __init__(self, policy: Policy | None = None) -> None:
        """Use this policy; if None, read it from the environment."""
        self._policy = policy or policy_of(os.environ)
        self._thread: Thread | None = None

    def after_commit(self, place: LocalPlace) -> None:
        """Start deleting the checkpoints that a new commit makes obsolete."""
        if self._policy is None or (self._thread is not None and self._thread.is_alive()):
            return
        # If the process exits during a deletion, a directory without a record remains, which the
        # next deletion removes.
        work = (place, self._policy)
        self._thread = Thread(target=self._retire, args=work, name="seatrial-retire", daemon=True)
        self._thread.start()

    def wait(self, seconds: float | None = None) -> None:
        """Wait for deletions in progress."""
        if self._thread is not None:
            self._thread.join(seconds)

    def _retire(self, place: LocalPlace, policy: Policy) -> None:
        try:
            there = list(checkpoints(place))
            # Damaged and quarantined checkpoints are kept for inspection.
            states = {one.directory: one.state for one in there}
            for decision in decide(there, {}, policy):
                if decision.kept or states[decision.directory] is State.DAMAGED:
                    continue
                if retire(place, decision):
                    _say(f"deleted the checkpoint at step {decision.step}: {decision.why}")
        except (OSError, StoreError) as error:
            # Training continues; the next commit tries again.
            _say(f"cannot delete old checkpoints: {error}")


def _say(text: str) -> None:
    sys.stderr.write(f"seatrial: {text}\n")
    sys.stderr.flush()
