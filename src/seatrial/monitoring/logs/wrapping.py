# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Strip the prefixes of log lines: times, pods, ranks.

`kubectl logs --timestamps --prefix`, the files of the container runtime, torchrun's `--tee` and
`srun --label` each add a prefix, and prefixes can be combined.
"""

import re
from datetime import UTC, datetime
from typing import NamedTuple

_BEFORE = re.compile(
    r"""
    \ *(?P<time>[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}(?:\.[0-9]{1,9})?(?:Z|[+-][0-9]{2}:?[0-9]{2}))
        \ (?:(?:stdout|stderr)\ [FP]\ )?     # kubectl logs --timestamps, files of the runtime
    | \[pod/(?P<pod>[^\]\s]{1,300})\]\ ?     # kubectl logs --prefix
    | \ ?\[[a-z_]{0,32}(?P<rank>[0-9]{1,7})\]:\ ?   # torchrun, torch: [default0]:, [rank3]:
    | \ *(?P<task>[0-9]{1,7}):\ (?=\s|\[|it)     # srun --label, where an engine's line follows
    | \x1b\[[0-9;]{0,16}m                    # colours
    """,
    re.VERBOSE,
)
_MOST = 8
"""Maximum number of prefixes of a line."""


class LogLine(NamedTuple):
    """A line without its prefixes."""

    text: str
    """The output of the engine."""
    time: float | None
    """Seconds since 1970, if a prefix has a time."""
    source: str
    """The pod and rank of the line; empty if unknown."""


def unwrap(text: str) -> LogLine:
    """Strip the prefixes of a line."""
    when: float | None = None
    pod = rank = ""
    place = 0
    for _ in range(_MOST):
        found = _BEFORE.match(text, place)
        if found is None:
            break
        place = found.end()
        if found["time"]:
            when = seconds_of(found["time"]) if when is None else when
        pod = found["pod"] or pod
        rank = found["rank"] or found["task"] or rank
    return LogLine(text[place:] if place else text, when, f"{pod}:{rank}" if pod or rank else "")


def seconds_of(text: str) -> float | None:
    """Parse a date and time to seconds since 1970; UTC if it has no zone."""
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


class Dates:
    """Parses dates quickly if most are in the same hour."""

    def __init__(self) -> None:
        self._hour = ""
        self._began = 0.0

    def seconds(self, text: str) -> float | None:
        """Parse `2026-11-15 03:10:11.123456` as UTC to seconds since 1970."""
        try:
            if text[:13] != self._hour:
                began = seconds_of(f"{text[:13]}:00:00")
                if began is None:
                    return None
                self._hour, self._began = text[:13], began
            minutes, seconds = int(text[14:16]), float(text[17:])
        except ValueError:
            return None
        within = minutes < 60 and seconds < 60
        return self._began + 60 * minutes + seconds if within else None
