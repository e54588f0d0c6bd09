# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Calls that outlive a bad minute of the API server: asked again, with patience that ends."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from seatrial.cluster.errors import error_of, is_unserved, unreachable
from seatrial.cluster.transport import Answer, Call, DroppedError, Transport

READY = Call("GET", "/readyz", about="whether the server is ready")
"""Answered with 200 once roles and definitions have been read; every account may ask."""

Tell = Callable[[str], None]
"""Told what a person should know, in a sentence."""


@dataclass(frozen=True, slots=True)
class CallPatience:
    """How long a call is tried again, by what is wrong; seconds."""

    outage: float = 180.0
    """No answer, 429, 502, 503 or 504: a server that starts again, or has too much to do."""
    failing: float = 30.0
    """500: an etcd that changes its leader, or a webhook that will fail for ever."""
    credentials: float = 15.0
    """401: a token that is being renewed."""
    recovery: float = 60.0
    """401, 403 and unknown kinds, while the server is not ready: one that has just started answers
    before it has read its accounts, roles and definitions."""
    settling: float = 3.0
    """For so long after an outage a server that says it is ready may still deny by mistake."""
    first_pause: float = 0.2
    """The first pause; each is twice as long as the one before."""
    longest_pause: float = 5.0
    """No pause is longer, so that a server that is back is seen soon."""
    silence: float = 5.0
    """An outage that is longer is told."""


class Api:
    """One API server, asked again where that can help."""

    def __init__(
        self,
        transport: Transport,
        tell: Tell | None = None,
        patience: CallPatience | None = None,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Use a transport; tests bring their own time."""
        self.transport = transport
        self.patience = patience or CallPatience()
        self.tell = tell or (lambda _: None)
        self.sleep = sleep
        self.clock = clock
        self.was_away = False
        """Whether it has once not answered."""
        self._ready_since: float | None = None

    def call(self, call: Call) -> Answer:
        """The answer, which is a success; raises a ClusterError otherwise."""
        answer = self.answer(call)
        if answer.status >= 400:
            raise error_of(call, answer)
        return answer

    def answer(self, call: Call) -> Answer:
        """The answer of any status, after as many tries as make sense."""
        trouble = ApiTrouble(self)
        while True:
            try:
                answer = self.transport.request(call)
            except DroppedError as dropped:
                trouble.dropped(str(dropped))
                continue
            if not trouble.mends(answer):
                return answer

    def note_outage(self) -> None:
        """Remember that the server was away a moment ago."""
        self.was_away, self._ready_since = True, None

    @property
    def recovering(self) -> bool:
        """Whether what the server denies may be a mistake: it says that it is not ready yet."""
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
    """What has gone wrong with one call so far, and whether to go on."""

    def __init__(self, api: Api) -> None:
        """Begin without any."""
        self._api = api
        self._began = api.clock()
        self._pause = api.patience.first_pause
        self._told = False
        self._since: dict[int, float] = {}

    def dropped(self, reason: str) -> None:
        """Pause before the next try; raises when the server has been away too long."""
        self._api.note_outage()
        # What comes after an outage is measured from its own beginning.
        self._since.clear()
        if self._seconds > self._api.patience.outage:
            raise unreachable(self._api.transport.server, reason, self._seconds)
        self._tell_once(reason)
        self._wait(None)

    def mends(self, answer: Answer) -> bool:
        """Pause and say yes when another try may end otherwise."""
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
                f"{self._api.transport.server} does not answer as it should ({reason}); "
                f"trying for {self._api.patience.outage:.0f} s."
            )

    def _wait(self, asked: float | None) -> None:
        """Pause as long as the server asks for, else a little longer each time."""
        longest = self._api.patience.longest_pause
        # Clients that lost one server must not all come back in the same moment.
        pause = self._pause * random.uniform(0.5, 1.0)  # noqa: S311
        self._api.sleep(min(longest, max(asked or 0.0, pause)))
        self._pause = min(longest, 2 * self._pause)
