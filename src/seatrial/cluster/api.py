# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Calls that survive short outages of the API server: retries with a time limit."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from seatrial.cluster.errors import error_of, is_unserved, unreachable
from seatrial.cluster.transport import Answer, Call, DroppedError, Transport

READY = Call("GET", "/readyz", about="whether the server is ready")
"""Returns 200 once roles and CRDs are loaded. Every account may call it."""

Tell = Callable[[str], None]
"""Receives messages for the user, one sentence each."""


@dataclass(frozen=True, slots=True)
class CallPatience:
    """How long to retry a call, in seconds, by error."""

    outage: float = 180.0
    """No response, 429, 502, 503 or 504: a server that restarts or is overloaded."""
    failing: float = 30.0
    """500: a leader election in etcd, or a webhook that never succeeds."""
    credentials: float = 15.0
    """401: a token that is being renewed."""
    recovery: float = 60.0
    """401, 403 and unknown kinds while the server is not ready: after a start, it responds before
    it has loaded accounts, roles and CRDs."""
    settling: float = 3.0
    """How long after an outage a server that is ready may still deny requests by mistake."""
    first_pause: float = 0.2
    """The first pause. Each further pause is twice as long."""
    longest_pause: float = 5.0
    """The maximum pause."""
    silence: float = 5.0
    """Report an outage that is longer than this."""


class Api:
    """A client of one API server that retries calls when a retry can succeed."""

    def __init__(
        self,
        transport: Transport,
        tell: Tell | None = None,
        patience: CallPatience | None = None,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Use a transport. Tests pass their own clock."""
        self.transport = transport
        self.patience = patience or CallPatience()
        self.tell = tell or (lambda _: None)
        self.sleep = sleep
        self.clock = clock
        self.was_away = False
        """True if the server has been unreachable at least once."""
        self._ready_since: float | None = None

    def call(self, call: Call) -> Answer:
        """Return a successful answer. Raises ClusterError otherwise."""
        answer = self.answer(call)
        if answer.status >= 400:
            raise error_of(call, answer)
        return answer

    def answer(self, call: Call) -> Answer:
        """Return the answer with any status, after retries."""
        trouble = ApiTrouble(self)
        while True:
            try:
                answer = self.transport.request(call)
            except DroppedError as dropped:
                trouble.dropped(str(dropped))
                continue
            if not trouble.wait_to_retry(answer):
                return answer

    def note_outage(self) -> None:
        """Record an outage of the server."""
        self.was_away, self._ready_since = True, None

    @property
    def recovering(self) -> bool:
        """True if a denial may be a mistake, because the server is not ready yet."""
        if self._ready_since is None:
            try:
                is_ready = self.transport.request(READY).status == 200
            except DroppedError:
                self.note_outage()
                return True
            if not is_ready:
                return True
            self._ready_since = self.clock() if self.was_away else float("-inf")
        return self.clock() < self._ready_since + self.patience.settling


class ApiTrouble:
    """The errors of one call, and the decision to retry."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._began = api.clock()
        self._pause = api.patience.first_pause
        self._told = False
        self._since: dict[int, float] = {}

    def dropped(self, reason: str) -> None:
        """Pause before the next try. Raises if the outage lasts too long."""
        self._api.note_outage()
        # Errors after an outage have their own time limit.
        self._since.clear()
        if self._seconds > self._api.patience.outage:
            raise unreachable(self._api.transport.server, reason, self._seconds)
        self._tell_once(reason)
        self._wait(None)

    def wait_to_retry(self, answer: Answer) -> bool:
        """Pause and return True if another try may succeed."""
        patience = self._api.patience
        limit = {
            401: patience.credentials,
            500: patience.failing,
            **dict.fromkeys((429, 502, 503, 504), patience.outage),
        }.get(answer.status, 0.0)
        denied = answer.status == 403 or (answer.status == 401 and self._api.was_away)
        starting = denied or is_unserved(answer)
        if starting and self._api.recovering:
            limit = patience.recovery
        began = self._since.setdefault(answer.status, self._api.clock())
        if self._api.clock() - began >= limit:
            return False
        if answer.status == 401:
            self._api.transport.renew()
        elif answer.status in (502, 503):
            self._api.note_outage()
        self._tell_once(answer.message)
        self._wait(answer.retry_after)
        return True

    @property
    def _seconds(self) -> float:
        return self._api.clock() - self._began

    def _tell_once(self, reason: str) -> None:
        if not self._told and self._seconds > self._api.patience.silence:
            self._told = True
            self._api.tell(
                f"{self._api.transport.server} is not responding normally ({reason}); "
                f"retrying for {self._api.patience.outage:.0f} s."
            )

    def _wait(self, asked: float | None) -> None:
        """Pause for as long as the server requests, otherwise with exponential backoff."""
        longest = self._api.patience.longest_pause
        # Jitter, so that clients do not all return at the same moment.
        pause = self._pause * random.uniform(0.5, 1.0)  # noqa: S311
        self._api.sleep(min(longest, max(asked or 0.0, pause)))
        self._pause = min(longest, 2 * self._pause)
