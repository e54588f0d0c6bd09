# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Write docs/reference from the code; with --check, only list the files that are out of date.

    python -m docs.tools.generate_reference [--check]

The pages are made from docstrings of fields, members and commands. A missing docstring is an error.
"""

import argparse
import sys
from pathlib import Path

from docs.tools.reference.catalog_pages import catalog_pages
from docs.tools.reference.cli_page import cli_page
from docs.tools.reference.exit_codes_page import exit_codes_page
from docs.tools.reference.findings_page import findings_page
from docs.tools.reference.markdown import GENERATED
from docs.tools.reference.monitoring_pages import anomalies_page, metrics_page, signatures_page
from docs.tools.reference.sdk_page import sdk_page
from docs.tools.reference.spec_page import spec_page

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


def pages() -> dict[str, str]:
    """Every generated page by its path below the reference."""
    return {
        "spec.md": spec_page(),
        "cli.md": cli_page(),
        "exit-codes.md": exit_codes_page(),
        "findings.md": findings_page(),
        "anomalies.md": anomalies_page(),
        "metrics.md": metrics_page(),
        "sdk.md": sdk_page(),
        "signatures.md": signatures_page(),
        **{f"catalog/{name}": text for name, text in catalog_pages().items()},
    }


def changes(directory: Path = REFERENCE) -> dict[str, str | None]:
    """Return the outdated pages with their new text, or `None` for a page to delete."""
    wanted = pages()
    there = {
        path.relative_to(directory).as_posix(): path.read_text(encoding="utf-8")
        for path in directory.rglob("*.md")
    }
    made = [name for name, text in there.items() if text.startswith(GENERATED)]
    found: dict[str, str | None] = {name: None for name in made if name not in wanted}
    found |= {name: text for name, text in wanted.items() if there.get(name) != text}
    return dict(sorted(found.items()))


def write(directory: Path = REFERENCE) -> list[str]:
    """Update the pages, and return the names of those that changed."""
    changed = changes(directory)
    for name, text in changed.items():
        path = directory / name
        if text is None:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return list(changed)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Write docs/reference from the code.")
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if stale")
    if not parser.parse_args(arguments).check:
        for name in write():
            print(f"wrote docs/reference/{name}")
        return 0
    stale = list(changes())
    for name in stale:
        print(f"docs/reference/{name} is out of date", file=sys.stderr)
    if stale:
        print("To update it: make reference", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
