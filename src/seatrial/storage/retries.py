# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Retry transient failures of an object store or the Hub, for a limited time.

The HTTP status decides if an error is transient, or the type of the error if there was no complete
response. Types are matched by name, so that examining an error does not require importing the
libraries of all stores.
"""

import random
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from seatrial.storage.store import BusyStoreError, StoreError

_PASSING_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})
# Errors for a broken, refused or unresponsive connection in each library.
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
"""Longest `Retry-After` in seconds to obey; the Hub counts requests in windows of 5 minutes."""


class CutShortError(ConnectionError):
    """A response ended before its announced length."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how long to retry."""

    tries: int = 6
    """Number of attempts per call, including the first."""
    first_wait: float = 1.0
    """Seconds before the second attempt; doubles with each further attempt."""
    longest_wait: float = 60.0
    """Longest wait in seconds, unless the response requests a longer one."""

    def call[T](self, what: str, action: Callable[[], T]) -> T:
        """Run an action. Raises BusyStoreError after `tries` transient failures."""
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
        """Wait before the next attempt: longer after each failure, and as the response requests."""
        wait = min(self.first_wait * 2 ** (failures - 1), self.longest_wait)
        # Add jitter, so that many rejected workers do not retry at the same time.
        wait *= random.uniform(0.5, 1.0)  # noqa: S311
        time.sleep(max(wait, min(_hint(error), _LONGEST_HINT)))


PATIENCE = RetryPolicy()
"""The default policy."""


def gave_up(what: str, tries: int, seconds: float, error: BaseException) -> BusyStoreError:
    """Return the error after the last attempt."""
    return BusyStoreError(
        f"{what}: all {tries} attempts in {seconds:.0f} s failed; the last error: "
        f"{described(error)}. Rerun the same command later: it keeps finished work and continues "
        "from there."
    )


def described(error: BaseException) -> str:
    """Describe an error briefly, with its status if it has one."""
    status = status_of(error)
    # The query in a signed URL is a secret, and libraries include URLs in their errors.
    text = re.sub(r"\?[^\s'\"]+", "?...", " ".join(str(error).split()))[:200]
    text = text.rstrip(".! ") or type(error).__name__
    if status is None or (str(status) in text and text != str(status)):
        return text
    return f"status {status} ({text})" if text != str(status) else f"status {status}"


def passes(error: BaseException) -> bool:
    """True if the same call may succeed later."""
    if isinstance(error, FileNotFoundError | FileExistsError | PermissionError | StoreError):
        return False
    for cause in chain(error):
        # A truncated response also has a status: success or, with aiohttp, 400.
        if is_a(cause, _CUT):
            return True
        if (status := _own_status(cause)) is not None:
            return status in _PASSING_STATUS
    return False


def is_a(error: BaseException, kinds: set[tuple[str, str]]) -> bool:
    """True if an error has one of the types. A type is a top-level package and a class name."""
    return any(
        (kind.__module__.partition(".")[0], kind.__name__) in kinds for kind in type(error).__mro__
    )


def chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and its causes."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__


def status_of(error: BaseException) -> int | None:
    """Return the HTTP status of an error from any library; None if it has no status."""
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
    """Return the wait in seconds that the response requests; 0 if not specified."""
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
