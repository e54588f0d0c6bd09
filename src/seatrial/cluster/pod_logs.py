# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Read the log of one container without duplicates or gaps, across any disconnects.

Every line has a time. An interrupted stream resumes in the second of the last line, and skips the
lines of that second that were already read. A restarted container has a new log; the rest of the
previous one is read first.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from seatrial.cluster import objects
from seatrial.cluster.api import Api, ApiTrouble
from seatrial.cluster.errors import error_of
from seatrial.cluster.kinds import POD
from seatrial.cluster.transport import Answer, Call, DroppedError, Json, RefusedStreamError

QUIET_SECONDS = 60.0
"""Reconnect a stream without data after this time: its connection may be dead."""
LOOK_SECONDS = 1.0
"""How often to check whether a container has started."""
_NOT_STARTED = 400
"""The status for a container that has not started."""
_GONE = 404
_STAMP = re.compile(rb"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?(Z|[+-]\d\d:\d\d) ?")


@dataclass(frozen=True, slots=True)
class PodLogLine:
    time: str
    """The time in UTC with nine decimals, so that texts sort like times."""
    text: str


@dataclass(slots=True)
class Position:
    """The position in a log."""

    time: str = ""
    """The time of the last line."""
    lines: int = 0
    """The number of lines with exactly that time that were read."""
    restarts: int = 0
    """The restart count of the container at that time."""

    def passes(self, time: str, met: int) -> bool:
        """True if a line is new: the `met`-th with its time since the stream started."""
        return time > self.time or (time == self.time and met > self.lines)

    def advance(self, time: str) -> None:
        """Record a line that was read."""
        self.time, self.lines = time, self.lines + 1 if time == self.time else 1


class ContainerLog:
    """The log of one container of one pod."""

    def __init__(self, api: Api, namespace: str, pod: str, uid: str, container: str) -> None:
        """Select the container. Sends no request yet."""
        self._api = api
        self._namespace = namespace
        self._pod = pod
        self._uid = uid
        self._container = container
        self.position = Position()

    def lines(self, *, follow: bool = False, tail: int | None = None) -> Iterator[PodLogLine]:
        """Yield the existing lines. With `follow`, also new ones until the pod finishes."""
        trouble = ApiTrouble(self._api)
        while True:
            status = self._status()
            if status is None:
                return
            try:
                yield from self._between(status, tail)
                if status["ready_to_read"]:
                    for line in self._stream(follow=follow, previous=False, tail=tail):
                        trouble = ApiTrouble(self._api)
                        yield line
            except DroppedError as dropped:
                trouble = self._after_drop(trouble, dropped)
                continue
            except RefusedStreamError as refused:
                if refused.answer.status == _GONE:
                    return
                if refused.answer.status != _NOT_STARTED:
                    self._wait_or_raise(trouble, refused.answer)
                    continue
            if not follow or status["over"]:
                return
            trouble = ApiTrouble(self._api)
            self._api.sleep(LOOK_SECONDS)

    def _after_drop(self, trouble: ApiTrouble, dropped: DroppedError) -> ApiTrouble:
        """Pause before the next try if the server is unreachable. Raises after too long."""
        # A log without new lines is not an outage. A later outage has its own time limit.
        if dropped.is_read_timeout:
            return ApiTrouble(self._api)
        trouble.dropped(str(dropped))
        return trouble

    def _wait_or_raise(self, trouble: ApiTrouble, answer: Answer) -> None:
        """Pause before the next try. Raises if a retry cannot help."""
        if not trouble.wait_to_retry(answer):
            raise error_of(self._call(False, previous=False, tail=None), answer) from None

    def _between(self, status: Json, tail: int | None) -> Iterator[PodLogLine]:
        """Yield the rest of the log of a container that has restarted since."""
        if status["restarts"] > self.position.restarts and tail is None:
            # The previous log may be gone.
            with suppress(RefusedStreamError):
                yield from self._stream(follow=False, previous=True, tail=None)
        self.position.restarts = status["restarts"]

    def _status(self) -> Json | None:
        """Return the container's state and restart count, or None if the pod is gone."""
        pod = objects.read(self._api, POD, self._namespace, self._pod)
        if pod is None or pod["metadata"]["uid"] != self._uid:
            return None
        status = pod.get("status") or {}
        every = (
            *(status.get("initContainerStatuses") or ()),
            *(status.get("containerStatuses") or ()),
        )
        own: Json = next((each for each in every if each["name"] == self._container), {})
        state = own.get("state") or {}
        return {
            "ready_to_read": "running" in state
            or "terminated" in state
            or bool(own.get("lastState")),
            "over": status.get("phase") in ("Succeeded", "Failed"),
            "restarts": int(own.get("restartCount") or 0),
        }

    def _call(self, follow: bool, *, previous: bool, tail: int | None) -> Call:
        query = [("container", self._container), ("timestamps", "true")]
        query += [("follow", "true")] if follow else []
        query += [("previous", "true")] if previous else []
        query += [("tailLines", str(tail))] if tail is not None and not self.position.time else []
        if self.position.time:
            # The server accepts only whole seconds. Lines of this second that were read are
            # skipped.
            query.append(("sinceTime", f"{self.position.time[:19]}Z"))
        about = f"log of {POD.about(self._namespace, self._pod)}"
        path = POD.path(self._namespace, self._pod, "log")
        return Call("GET", path, tuple(query), about=about, read_seconds=QUIET_SECONDS)

    def _stream(self, *, follow: bool, previous: bool, tail: int | None) -> Iterator[PodLogLine]:
        """Yield the new lines of one connection."""
        time, met = "", 0
        with self._api.transport.stream(self._call(follow, previous=previous, tail=tail)) as lines:
            for raw in lines:
                line = parsed(raw, self.position.time)
                met = met + 1 if line.time == time else 1
                time = line.time
                if self.position.passes(time, met):
                    self.position.advance(time)
                    yield line


def parsed(raw: bytes, before: str) -> PodLogLine:
    """Split a line into time and text. A line without a time gets the previous one."""
    match = _STAMP.match(raw)
    if match is None:
        return PodLogLine(before, raw.decode(errors="replace").rstrip("\r"))
    second, fraction = match[1].decode(), (match[2] or b"").decode()
    text = raw[match.end() :].decode(errors="replace").rstrip("\r")
    return PodLogLine(f"{second}.{fraction:0<9.9}", text)
