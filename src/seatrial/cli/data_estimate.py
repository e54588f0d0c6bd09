# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""An estimate of a preparation, in words."""

from typing import TYPE_CHECKING

from seatrial.cli import tables
from seatrial.cli.data_progress import format_core_time, format_seconds
from seatrial.cli.output import counted, say, say_text
from seatrial.units import format_bytes, format_count

if TYPE_CHECKING:
    from seatrial.dataprep.estimate import Estimate, Range


def spread(found: "Range") -> str:
    """The spread as a share of the middle: `± 3 %`; both ends when they are far apart."""
    if found.middle <= 0 or found.high == found.low:
        return ""
    above = (found.high - found.middle) / found.middle
    below = (found.middle - found.low) / found.middle
    if max(above, below) >= 0.495:
        return f" (−{below:.0%}, +{above:.0%})".replace("%", " %")
    return f" ± {max(1, round(100 * max(above, below)))} %"


def say_estimate(found: "Estimate", spec: str) -> None:
    """What a preparation would take."""
    columns = (
        tables.name("source"),
        tables.number("files"),
        tables.number("stored"),
        tables.number("sampled", rank=2),
        tables.number("tokens"),
        tables.number("documents", rank=1),
        tables.number("work"),
    )
    rows = [
        (
            source.name,
            f"{source.files:,}",
            format_bytes(source.input_bytes),
            format_bytes(source.sampled_bytes),
            format_count(round(source.tokens.middle)) + spread(source.tokens),
            format_count(round(source.documents.middle)),
            format_core_time(source.core_seconds.middle) + spread(source.core_seconds),
        )
        for source in found.sources
    ]
    tables.say_table(columns, rows)
    say()
    say_text(format_count(round(found.tokens.middle)) + spread(found.tokens), "tokens    ")
    disk, peak = round(found.disk_bytes.middle), round(found.peak_bytes.middle)
    say_text(f"{format_bytes(disk)}, {format_bytes(peak)} while it is prepared", "disk      ")
    work = format_core_time(found.core_seconds.middle) + spread(found.core_seconds)
    wall = format_seconds(found.wall_seconds.middle)
    say_text(
        f"{work}: {wall} on {counted(found.cores, 'core')}, if reading and writing keep up "
        f"({found.backend})",
        "time      ",
    )
    for source in found.sources:
        if source.largest_file > found.task_bytes:
            say_text(
                f"{source.name} has a file of {format_bytes(source.largest_file)}, and a file is"
                f" never split: one core needs {format_seconds(source.largest_seconds)} for it,"
                " however many there are, and begins it again when it is lost. Split it first.",
                "large     ",
            )
    bad = [source for source in found.sources if source.bad_share]
    for source in bad:
        say_text(f"{source.bad_share:.2g} of the sampled lines of {source.name}", "bad       ")
    say(f"next      seatrial data prepare {spec}")
