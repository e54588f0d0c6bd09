# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Write docs/reference from the code; with --check, only say which files are out of date.

    python -m docs.tools.generate_reference [--check]

What a page says is what the code says: docstrings of fields, of members and of commands. One
that is missing stops the generator.
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


def differing(directory: Path = REFERENCE) -> list[str]:
    """The pages that are absent, changed, or generated once and no more."""
    wanted = pages()
    differ = [name for name, text in wanted.items() if _read(directory / name) != text]
    return sorted([*differ, *_left_over(directory, wanted)])


def write(directory: Path = REFERENCE) -> list[str]:
    """Bring the pages up to date; the names of those that changed."""
    wanted = pages()
    changed = differing(directory)
    for name in changed:
        path = directory / name
        if name not in wanted:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(wanted[name], encoding="utf-8")
    return changed


def _read(path: Path) -> str | None:
    """The text of a page, or nothing when there is none."""
    return path.read_text(encoding="utf-8") if path.is_file() else None


def _left_over(directory: Path, wanted: dict[str, str]) -> list[str]:
    """Generated pages that the code does not ask for any more."""
    found = (path.relative_to(directory).as_posix() for path in directory.rglob("*.md"))
    marked = (name for name in found if (_read(directory / name) or "").startswith(GENERATED))
    return [name for name in marked if name not in wanted]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Write docs/reference from the code.")
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if stale")
    if not parser.parse_args(arguments).check:
        for name in write():
            print(f"wrote docs/reference/{name}")
        return 0
    stale = differing()
    for name in stale:
        print(f"docs/reference/{name} is not what the code says", file=sys.stderr)
    if stale:
        print("Mend it with: make reference", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
