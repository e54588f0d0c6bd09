# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Edit the text of a spec while preserving comments, quotes and line endings."""

import io
import operator
import re
from collections.abc import Callable
from difflib import SequenceMatcher

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap

WIDEST = 1 << 20
"""Line width for the YAML writer; large, so that long lines are not rewrapped."""
_LINE_END = re.compile(r"\r\n|\r|\n")


def rewritten(text: str, change: Callable[[CommentedMap], bool]) -> str:
    """Apply a change to a YAML text; return the text unmodified if there was no change.

    `change` returns True if it changed anything.
    """
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = WIDEST
    yaml.indent(mapping=2, sequence=4, offset=2)
    root = yaml.load(text)
    if not change(root):
        return text
    out = io.StringIO()
    yaml.dump(root, out)
    return _keep_line_ends(text, out.getvalue())


def _keep_line_ends(before: str, after: str) -> str:
    """Return the second text with the first text's line endings for lines that are in both."""
    old, new = _LINE_END.split(before), _LINE_END.split(after)
    ends = [*_LINE_END.findall(before), ""]
    usual = max(ends[:-1], key=ends.count, default="\n")
    found = [usual] * len(new)
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    for first, second, count in matcher.get_matching_blocks():
        found[second : second + count] = [end or usual for end in ends[first : first + count]]
    return "".join(map(operator.add, new, [*found[:-1], ""]))
