# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The findings of `seatrial check` that a plan does not show itself."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from seatrial.checks.check import check
from seatrial.findings import Finding
from seatrial.planning.planner import PlannedRun
from seatrial.reports.terminal import count_line


def check_words(
    file: Path, overrides: Sequence[str], run: PlannedRun, shown: Sequence[Finding]
) -> str:
    """Return the number of findings that the check adds, and the command that lists them.

    Return an empty string if there are none.
    """
    # `utf-8-sig` drops a byte-order mark, as the loader of specs does.
    text = file.read_text(encoding="utf-8-sig")
    verdict = check(text, str(file), run.basis.catalog, overrides, planner=lambda _: run)
    known = {(finding.code, finding.rule) for finding in shown}
    more = [each for each in verdict.findings if (each.code, each.rule) not in known]
    command = shlex.join(["seatrial", "check", str(file), *overrides])
    return f"{count_line(more)} not shown here: {command}" if more else ""
