# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Trying again what a store or the Hub could not do at the moment, for a bounded time.

Whether an error will pass is told by the status of the answer, or by the kind of the error when
there was no whole answer. The kinds are known by name, so that no store's library has to be loaded
to look at the error of another.
"""

import random
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from seatrial.storage.store import BusyStoreError, StoreError

_PASSING_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})
# A broken, refused or silent connection, as each library calls it.
_CUT = {
    ("aiohttp", "ClientConnectionError"),
    ("aiohttp", "ClientPayloadError"),
    ("azure", "IncompleteReadError"),
    ("azure", "ServiceRequestError"),
    ("azure", "ServiceResponseError"),
    ("botocore", "HTTPClientError"),
    ("fsspec", "FSTimeoutError"),
    ("gcsfs", "ChecksumError"),
    ("httpx2", "TransportError"),
    ("requests", "ConnectionError"),
    ("requests", "Timeout"),
    ("builtins", "ConnectionError"),
    ("builtins", "TimeoutError"),
}
_LONGEST_HINT = 300.0
"""Seconds of a `Retry-After` that are waited; the Hub counts requests in windows of 5 minutes."""


class CutShortError(ConnectionError):
    """An answer that ended before its announced length."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how long to try."""

    tries: int = 6
    """Tries of one call, the first included."""
    first_wait: float = 1.0
    """Seconds before the second try; doubled with each further one."""
    longest_wait: float = 60.0
    """Seconds that are waited at most, unless the answer asks for more."""

    def call[T](self, what: str, action: Callable[[], T]) -> T:
        """What the action gives; BusyStoreError after `tries` failures that might have passed."""
        began = time.monotonic()
        for count in range(1, self.tries + 1):
            try:
                return action()
            except Exception as error:
                if not passes(error):
                    raise
                if count == self.tries:
                    raise gave_up(what, count, time.monotonic() - began, error) from error
                self.wait(count, error)
        raise AssertionError

    def wait(self, failures: int, error: BaseException) -> None:
        """Wait before the next try, longer with each failure and as long as the answer asks."""
        wait = min(self.first_wait * 2 ** (failures - 1), self.longest_wait)
        # Many workers that were turned away together should not all come back together.
        wait *= random.uniform(0.5, 1.0)  # noqa: S311
        time.sleep(max(wait, min(_hint(error), _LONGEST_HINT)))


PATIENCE = RetryPolicy()
"""What is used unless a caller has its own."""


def gave_up(what: str, tries: int, seconds: float, error: BaseException) -> BusyStoreError:
    """The error after the last try."""
    return BusyStoreError(
        f"{what}: no success after {tries} tries in {seconds:.0f} s; the last one ended with "
        f"{described(error)}. Try again later: what is finished is kept, and the same command "
        "goes on from there."
    )


def described(error: BaseException) -> str:
    """An error in a few words, with its status if it has one."""
    status = status_of(error)
    # The query of a signed address is a secret, and libraries put addresses into their errors.
    text = re.sub(r"\?[^\s'\"]+", "?...", " ".join(str(error).split()))[:200]
    text = text.rstrip(".! ") or type(error).__name__
    if status is None or (str(status) in text and text != str(status)):
        return text
    return f"status {status} ({text})" if text != str(status) else f"status {status}"


def passes(error: BaseException) -> bool:
    """Whether the same call may succeed a little later."""
    if isinstance(error, FileNotFoundError | FileExistsError | PermissionError | StoreError):
        return False
    for cause in chain(error):
        # A cut answer has a status too, and it is that of success or, with aiohttp, a 400.
        if is_a(cause, _CUT):
            return True
        if (status := _own_status(cause)) is not None:
            return status in _PASSING_STATUS
    return False


def is_a(error: BaseException, kinds: set[tuple[str, str]]) -> bool:
    """Whether an error is of one of the kinds, each a top-level package and the class's name."""
    return any(
        (kind.__module__.partition(".")[0], kind.__name__) in kinds for kind in type(error).__mro__
    )


def chain(error: BaseException) -> Iterator[BaseException]:
    """The error and what caused it."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__


def status_of(error: BaseException) -> int | None:
    """The status of the answer that an error stands for, of whichever library it is."""
    return next((s for s in map(_own_status, chain(error)) if s is not None), None)


def _own_status(error: BaseException) -> int | None:
    response = getattr(error, "response", None)
    if isinstance(response, dict):
        found = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    else:
        found = getattr(response, "status_code", None)
    for value in (
        found,
        *(getattr(error, name, None) for name in ("status_code", "status", "code")),
    ):
        if str(value).isdigit() and 100 <= int(str(value)) < 600:
            return int(str(value))
    return None


def _hint(error: BaseException) -> float:
    """Seconds that the answer asks to wait; 0 when it does not say."""
    for cause in chain(error):
        response = getattr(cause, "response", None)
        if isinstance(response, dict):
            headers = response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
        else:
            headers = getattr(response, "headers", None) or {}
        value = str(headers.get("retry-after") or headers.get("Retry-After") or "")
        if value.isdigit():
            return float(value)
    return 0.0
