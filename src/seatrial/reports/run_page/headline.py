# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The headline of a report: how a run ended, in one line."""

import math
import re

from seatrial.reports.run_page.chapter import Chapter, RunState
from seatrial.reports.run_phrases import shortened
from seatrial.reports.terminal import counted

_LONGEST_CAUSE = 90
_MODULE = re.compile(r"^(?:\w+\.)+(?=\w*(?:Error|Exception)\b)")
"""The modules in front of an exception's name."""


def headline(chapter: Chapter) -> str:
    """Describe the result: `Finished 25 of 25 steps; loss 10.8 → 4.2; 1 restart`."""
    now = chapter.snapshot
    total = f" of {now.total_steps:,}" if now.total_steps else ""
    match chapter.state:
        case RunState.FAILED:
            cause = short_cause(chapter)
            where = f"at step {now.step:,}{total}" if now.step else "before the first step"
            return f"Failed {where}" + (f": {cause}" if cause else "")
        case RunState.FINISHED:
            noun = "steps" if total or now.step != 1 else "step"
            done = f"Finished {now.step:,}{total} {noun}"
        case RunState.RUNNING:
            done = f"Running, at step {now.step:,}{total}"
        case RunState.STOPPED:
            done = f"Stopped at step {now.step:,}{total}"
        case RunState.UNKNOWN:
            done = f"Log ends at step {now.step:,}{total}"
    restarts = chapter.spent.restarts
    again = counted(restarts, "restart") if restarts else ""
    return "; ".join(filter(None, (done, loss_change(chapter), again)))


def loss_change(chapter: Chapter) -> str:
    """Format the first and the last loss: `loss 10.8 → 4.2`. Empty if there are not two."""
    curve = [point for point in chapter.view.curves.loss.points if point.count]
    last = chapter.snapshot.loss
    if len(curve) < 2 or last is None or not math.isfinite(last):
        return ""
    return f"loss {curve[0].mean:.3g} → {last:.3g}"


def short_cause(chapter: Chapter) -> str:
    """Return why the run failed: the diagnosis, the exit error, or the ledger's reason."""
    if chapter.cause:
        return shortened(_uncapitalised(chapter.cause).rstrip("."), _LONGEST_CAUSE)
    starts = chapter.view.restarts()
    exited = chapter.exit.values.get("error") if chapter.exit is not None else None
    text = str(exited or (starts[-1].cause if starts else ""))
    line = (text.strip().splitlines() or [""])[0]
    line = _MODULE.sub("", line.removeprefix("failed: "))
    # The first sentence: errors often continue with advice.
    return shortened(re.split(r"(?<=[a-z)])\. ", line, maxsplit=1)[0].rstrip("."), _LONGEST_CAUSE)


def _uncapitalised(text: str) -> str:
    """Lower the first letter, unless the first word is an acronym or a name with digits."""
    return text[:1].lower() + text[1:] if text[1:2].islower() or text[1:2] == " " else text
