# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Parts of pages that programs write, each between a comment with its name and `<!-- end -->`."""

import re
from collections.abc import Mapping
from pathlib import Path

from docs.tools.reference.markdown import table as table

ROOT = Path(__file__).parents[2]
QUICKSTART = ROOT / "docs/getting-started/quickstart.md"


def part(page: Path, name: str) -> str:
    """Return what the page has in the part; fail if there is no such part."""
    return _find(page.read_text(encoding="utf-8"), name, page)[2]


def put(page: Path, parts: Mapping[str, str]) -> None:
    """Write parts of a page; fail before anything is written if one has no place there."""
    text = page.read_text(encoding="utf-8")
    for name, made in parts.items():
        found = _find(text, name, page)
        text = f"{text[: found.start()]}{found[1]}{made}\n{found[3]}{text[found.end() :]}"
    page.write_text(text, encoding="utf-8")
    print(f"{page.relative_to(ROOT)}: {', '.join(parts) or 'nothing new'}")


def _find(text: str, name: str, page: Path) -> re.Match[str]:
    found = re.search(rf"(<!-- {name} -->\n)(.*?)(<!-- end -->)", text, re.DOTALL)
    if found is None:
        raise SystemExit(f"{page} has no place <!-- {name} -->.")
    return found
