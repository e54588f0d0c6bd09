# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Wording and colours that `watch` and `report` share."""

from datetime import UTC, datetime

from seatrial.monitoring.eta import Outlook
from seatrial.monitoring.event_log import Event, EventKind
from seatrial.monitoring.goodput import Bucket, Goodput
from seatrial.reports.plan_phrases import DAY, HOUR, MINUTE, duration, three, unit_of
from seatrial.reports.terminal import counted

BUCKET_COLOURS = {
    Bucket.TRAINING: "#2e9e6b",
    Bucket.REPLAYED: "#e0893a",
    Bucket.SAVING: "#3f7fc4",
    Bucket.EVALUATING: "#7a68c7",
    Bucket.STARTING: "#d4b13f",
    Bucket.WAITING: "#8b94a1",
    Bucket.HUNG: "#cc3d4b",
}

LAG_COLOURS = (
    (0.02, "#2e9e6b"),
    (0.05, "#8fae3c"),
    (0.10, "#d4b13f"),
    (0.30, "#e0893a"),
    (float("inf"), "#cc3d4b"),
)
"""Upper limits of a rank's lag behind the median rank, as a share, with their colours."""


def lag_colour(lag: float) -> str:
    """Return the colour for a rank's lag behind the median rank."""
    return next(colour for limit, colour in LAG_COLOURS if lag < limit or limit == float("inf"))


def clock(seconds: float) -> str:
    """Format the time of day in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%H:%M:%S")


def moment(seconds: float) -> str:
    """Format the date and the time of day in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")


def span(seconds: float) -> str:
    """Format a duration in its one or two largest units: `2 h 14 min`, `35 s`."""
    if seconds >= 2 * DAY:
        return f"{seconds // DAY:.0f} d {seconds % DAY / HOUR:.0f} h"
    if seconds >= HOUR:
        return f"{seconds // HOUR:.0f} h {seconds % HOUR // MINUTE:.0f} min"
    if seconds >= 2 * MINUTE:
        return f"{seconds / MINUTE:.0f} min"
    return f"{seconds:.0f} s" if seconds >= 10 else duration(seconds) if seconds > 0 else "0 s"


def outlook_words(found: Outlook) -> str:
    """Format the remaining time in one unit: `2.24 hours (2.18 to 2.66)`."""
    size, word = unit_of(found.likely)
    likely, soonest, latest = (
        three(seconds / size) for seconds in (found.likely, found.soonest, found.latest)
    )
    return f"{likely} {word} ({soonest} to {latest})"


def percent(share: float) -> str:
    """Format a share: `71 %`, or `0.4 %` if it is small."""
    value = 100 * share
    return f"{value:.0f} %" if value >= 9.95 or value == 0 else f"{value:.1f} %"


def goodput_words(spent: Goodput) -> str:
    """List the buckets that are not empty, largest first: `training 71 % · starting 20 %`."""
    shares = {b: s / spent.wall for b, s in spent.seconds.items() if spent.wall and s > 0}
    ordered = sorted(shares.items(), key=lambda item: -item[1])
    return " · ".join(f"{bucket} {percent(share)}" for bucket, share in ordered)


def loss_words(loss: float | None) -> str:
    """Format a loss with four digits."""
    return "?" if loss is None else f"{loss:.4g}"


def event_words(event: Event) -> str:
    """Describe an event in one line."""
    values = event.values
    seconds = values.get("seconds")
    taken = f" in {duration(seconds)}" if isinstance(seconds, (int, float)) and seconds > 0 else ""
    match event.kind:
        case EventKind.START:
            ranks = values.get("world_size")
            where = f" on {ranks:,} ranks" if isinstance(ranks, int) else ""
            return f"training started after step {event.step:,}{where}"
        case EventKind.PREFLIGHT:
            return _preflight_words(event)
        case EventKind.RESTART:
            count = values.get("count")
            number = f" {count:,}" if isinstance(count, int) else ""
            return f"restart{number}: processes are starting"
        case EventKind.SAVE:
            verb = "staged" if values.get("asynchronous") else "saved"
            return f"checkpoint at step {event.step:,} {verb}{taken}"
        case EventKind.SAVED:
            return f"checkpoint at step {event.step:,} saved"
        case EventKind.EVALUATION:
            loss = values.get("loss")
            shown = f"{loss:.4f}" if isinstance(loss, (int, float)) else "?"
            return (
                f"{values.get('split') or 'evaluation'} loss {shown} at step {event.step:,}{taken}"
            )
        case EventKind.FINDING:
            return (
                f"{values.get('code', '')}  step {event.step:,}: {values.get('rule', '')}".strip()
            )
        case EventKind.EXIT:
            return _exit_words(event)
        case _:
            return str(event.kind)


def _preflight_words(event: Event) -> str:
    nodes, slow = (event.values.get(name) for name in ("nodes", "slow"))
    count = len(nodes) if isinstance(nodes, list) else 0
    found = ", ".join(map(str, slow)) if isinstance(slow, list) else ""
    return f"preflight measured {counted(count, 'node')}" + (f"; slow: {found}" if found else "")


def _exit_words(event: Event) -> str:
    code, error = event.values.get("code"), event.values.get("error")
    if error:
        return f"failed at step {event.step:,}: {shortened(str(error))}"
    return f"exited after step {event.step:,}" + (f" with code {code}" if code else "")


def shortened(text: str, most: int = 120) -> str:
    """Return the first line of a text, truncated to `most` characters."""
    line = (text.strip().splitlines() or [""])[0]
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"


def rate_words(tokens_per_second: float) -> str:
    """Format tokens per second: `640`, `1.24 M`."""
    return three(tokens_per_second)
