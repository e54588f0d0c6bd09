# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Removing checkpoints that the spec does not ask to keep, after a commit and beside the training.

The volume is as large as the spec's numbers need; without this it would be full one day. Removing
takes as long as the file system likes, so a thread of the first rank does it.
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
"""How many of the newest checkpoints are kept; all are without it."""
KEEP_EVERY = "SEATRIAL_KEEP_EVERY_STEPS"
"""Those at multiples of this are kept as well."""


def policy_of(told: Mapping[str, str]) -> Policy | None:
    """What is to be kept; none where everything is. What is no number must not remove anything."""
    last, every = told.get(KEEP_LAST, ""), told.get(KEEP_EVERY, "")
    if not last.isdecimal() or int(last) < 1 or not (every == "" or every.isdecimal()):
        return None
    return Policy(last=int(last), every_steps=int(every) if every else None)


class Retirement:
    """Removes what is too old; one removal at a time."""

    def __init__(self, policy: Policy | None = None) -> None:
        """Take what is to be kept, or let the environment say it."""
        self._policy = policy or policy_of(os.environ)
        self._thread: Thread | None = None

    def after_commit(self, place: LocalPlace) -> None:
        """A checkpoint was committed; what it makes superfluous goes, in a while."""
        if self._policy is None or (self._thread is not None and self._thread.is_alive()):
            return
        # Cut short by the end of the process it leaves a directory without a record, which the
        # next removal takes along.
        work = (place, self._policy)
        self._thread = Thread(target=self._retire, args=work, name="seatrial-retire", daemon=True)
        self._thread.start()

    def wait(self, seconds: float | None = None) -> None:
        """Wait for a removal that goes on."""
        if self._thread is not None:
            self._thread.join(seconds)

    def _retire(self, place: LocalPlace, policy: Policy) -> None:
        try:
            there = list(checkpoints(place))
            # What is damaged, or was set aside, is for a person to look at.
            states = {one.directory: one.state for one in there}
            for decision in decide(there, {}, policy):
                if decision.kept or states[decision.directory] is State.DAMAGED:
                    continue
                if retire(place, decision):
                    _say(f"the checkpoint of step {decision.step} is removed: {decision.why}")
        except (OSError, StoreError) as error:
            # Training goes on; the next commit tries again.
            _say(f"old checkpoints cannot be removed: {error}")


def _say(text: str) -> None:
    sys.stderr.write(f"seatrial: {text}\n")
    sys.stderr.flush()
