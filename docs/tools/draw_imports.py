# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Draw which package of Seatrial imports which, from the imports themselves.

    python -m docs.tools.draw_imports

writes docs/figures/imports.svg: a row for each package, a column for each package, and a mark
where the row imports the column. The order is that of the layers in pyproject.toml, so that a
mark on the left of the diagonal would be an import in the wrong direction. Marks come in three
sizes instead of numbers, so that the picture changes only when the architecture does. What a
package is for is the first sentence of its docstring.
"""

import ast
import re
import tomllib
from collections import Counter
from html import escape

from docs.tools.page_parts import ROOT
from docs.tools.svg import FAINT, GREY, box, picture, words
from scripts.structure import PACKAGE, Sources

PICTURE = ROOT / "docs/figures/imports.svg"
SMALL = "small modules"
FEW, MANY = 4, 20
"""From how many imports on a mark is of middle size, and large."""
CELL, TOP, LEFT, NOTE = 22, 110, 104, 540
"""Sizes in pixels: a cell, the names above, the names at the left, the purposes at the right."""


def layers() -> list[list[str]]:
    """The packages from top to bottom, as the import linter holds them."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    found = next(one["layers"] for one in contracts if one["id"] == "layers")
    return [re.findall(r"\w+", line) for line in found if "__main__" not in line]


def purposes() -> dict[str, str]:
    """What each package is for, from top to bottom; modules in a layer of many are one row."""
    found = {}
    for layer in layers():
        names = [name for name in layer if (ROOT / f"src/{PACKAGE}/{name}").is_dir()]
        for name in names or (layer if len(layer) == 1 else []):
            found[name] = _purpose(name)
        if not names and len(layer) > 1:
            found[SMALL] = ", ".join(layer[1:5]) + ", …"
    return found


def _purpose(name: str) -> str:
    path = ROOT / f"src/{PACKAGE}/{name}"
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return " ".join(re.split(r"\.(?:\s|$)", text, maxsplit=1)[0].split())


def imports() -> Counter[tuple[str, str]]:
    """How many imports each package has of each other."""
    sources, rows = Sources(), purposes()
    found: Counter[tuple[str, str]] = Counter()
    for module in sources.modules.values():
        for name, _ in sources.imported(module):
            both = [full.split(".")[1:2] for full in (module.name, name)]
            if all(both) and both[0] != ["__main__"]:
                row, column = (one[0] if one[0] in rows else SMALL for one in both)
                found[row, column] += 1
    return found


def drawn(found: Counter[tuple[str, str]]) -> str:
    rows = purposes()
    names = list(rows)
    side = CELL * len(names)
    width = LEFT + side + NOTE
    lines = [part for i, name in enumerate(names) for part in _row(i, name, side, rows[name])]
    for (importer, imported), count in sorted(found.items()):
        if importer != imported:
            lines.append(_mark(names.index(importer), names.index(imported), count))
    note = (
        f"A mark: the row imports the column; {FEW} imports or more, {MANY} or more are larger. "
        "Left of the diagonal there is none."
    )
    lines.append(words(LEFT, TOP + side + 22, note, colour=GREY, size=12))
    return picture(TOP + side + 34, "Which package imports which", lines, width)


def _row(i: int, name: str, side: int, purpose: str) -> list[str]:
    x, y, middle = LEFT + CELL * i, TOP + CELL * i, CELL // 2
    band = "#f2f5f8" if i % 2 else "#ffffff"
    return [
        box(0, y, LEFT + side + NOTE, CELL, band, band),
        box(x, y, CELL, CELL, FAINT, FAINT),
        words(LEFT - 8, y + middle + 4, name, "end", size=12),
        words(LEFT + side + 12, y + middle + 4, purpose, colour=GREY, size=11),
        f'<text transform="translate({x + middle + 4} {TOP - 8}) rotate(-90)" font-size="12">'
        f"{escape(name)}</text>",
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
