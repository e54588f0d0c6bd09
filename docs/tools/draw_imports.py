# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Draw which package of Seatrial imports which, from the imports themselves.

    python -m docs.tools.draw_imports

writes docs/figures/imports.svg: a row for each package, a column for each package, and a mark
where the row imports the column. The order is that of the layers in pyproject.toml, so that a
mark on the left of the diagonal would be an import in the wrong direction. Marks come in three
sizes instead of numbers, so that the picture changes only when the architecture does.
"""

import ast
import re
import tomllib
from collections import Counter
from html import escape

from docs.tools.page_parts import ROOT

PICTURE = ROOT / "docs/figures/imports.svg"
SOURCES = ROOT / "src/seatrial"
SMALL = "small modules"
PURPOSES = {
    "cli": "the commands, one file each; thin",
    "sdk": "every command as a function",
    "reports": "what people look at: plan and run pages, live view",
    "runs": "launch, status, history, ledger",
    "rehearsal": "the shrunk twin and its drills",
    "checks": "plan and probes to findings",
    "engine_process": "start an engine's Python, and talk to it",
    "cluster": "the only place that talks to Kubernetes",
    "worker": "the only place that imports torch; nobody imports it",
    "dataprep": "corpus to .bin/.idx and MDS",
    "rendering": "plan to manifests; no I/O",
    "recipes": "shipped specs; a new spec from wishes",
    "engines": "all about an engine that needs no torch",
    "monitoring": "events to numbers, anomalies, diagnosis",
    "checkpoints": "inventory, integrity, retention, exchange",
    "planning": "spec and catalog to plan; pure arithmetic",
    "catalog": "facts with sources, as TOML",
    "spec": "what the user wants; strict reader",
    "storage": "bytes anywhere: disks, object stores, state files",
    "codes": "the codes of all findings",
    "errors": "exceptions and exit codes",
    SMALL: "findings, units, naming, hashing, …",
    "secrets": "token formats; what is redacted",
}
"""The packages from top to bottom, and what each is for."""
FEW, MANY = 4, 20
"""From how many imports on a mark is of middle size, and large."""
CELL, TOP, LEFT, NOTE = 22, 100, 104, 330
"""Sizes in pixels: a cell, the names above, the names at the left, the purposes at the right."""


def layers() -> list[str]:
    """The packages in the order that the import linter holds, from top to bottom."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = [
        one for one in settings["tool"]["importlinter"]["contracts"] if one["id"] == "layers"
    ]
    names = [name for line in contract["layers"] for name in re.findall(r"\w+", line)]
    return [name for name in names if name != "__main__"]


def group(module: str) -> str:
    """The row of a module: its package, or the small modules below all."""
    return module if module in PURPOSES else SMALL


def imports() -> Counter[tuple[str, str]]:
    """How many imports each package has of each other."""
    found: Counter[tuple[str, str]] = Counter()
    for file in sorted(SOURCES.rglob("*.py")):
        parts = file.relative_to(SOURCES).with_suffix("").parts
        if parts[0].startswith("__"):
            continue
        for node in ast.walk(ast.parse(file.read_bytes())):
            names = (
                [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else []
            )
            for name in names:
                words = name.split(".")
                if words[0] == "seatrial" and len(words) > 1:
                    found[group(parts[0]), group(words[1])] += 1
    return found


def drawn(found: Counter[tuple[str, str]]) -> str:
    names = list(PURPOSES)
    side = CELL * len(names)
    width, height = LEFT + side + NOTE, TOP + side + 34
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="sans-serif" font-size="12">',
        "<title>Which package imports which</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for i, name in enumerate(names):
        lines += _row(i, name, side, PURPOSES[name])
    for (importer, imported), count in sorted(found.items()):
        if importer != imported:
            lines.append(_mark(names.index(importer), names.index(imported), count))
    lines.append(
        f'<text x="{LEFT}" y="{height - 12}" fill="#555555">A mark: the row imports the column; '
        f"{FEW} imports or more, {MANY} or more are larger. Left of the diagonal there is none."
        "</text>"
    )
    return "\n".join([*lines, "</svg>"]) + "\n"


def _row(i: int, name: str, side: int, purpose: str) -> list[str]:
    y, middle = TOP + CELL * i, CELL // 2
    x = LEFT + CELL * i
    band = "#f2f5f8" if i % 2 else "#ffffff"
    return [
        f'<rect x="0" y="{y}" width="{LEFT + side + NOTE}" height="{CELL}" fill="{band}"/>',
        f'<rect x="{x}" y="{y}" width="{CELL}" height="{CELL}" fill="#c9d3dd"/>',
        f'<text x="{LEFT - 8}" y="{y + middle + 4}" text-anchor="end">{escape(name)}</text>',
        f'<text x="{LEFT + side + 12}" y="{y + middle + 4}" fill="#555555">{escape(purpose)}'
        "</text>",
        f'<text transform="translate({x + middle + 4} {TOP - 8}) rotate(-90)">{escape(name)}'
        "</text>",
    ]


def _mark(row: int, column: int, count: int) -> str:
    radius = 3 if count < FEW else 5 if count < MANY else 8
    x, y = LEFT + CELL * column + CELL // 2, TOP + CELL * row + CELL // 2
    colour = "#1f5f99" if column > row else "#c0392b"
    return f'<circle cx="{x}" cy="{y}" r="{radius}" fill="{colour}"/>'


def main() -> None:
    PICTURE.write_text(drawn(imports()), encoding="utf-8")
    print(f"wrote {PICTURE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
