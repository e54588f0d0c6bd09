# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Count what a run costs its user, in five public documents and here.

    python -m scripts.count_flow

Theirs is counted from docs/coming-from/*.toml, ours from the section "The flow here" of the page
beside it, and what an administrator does once from the platform's page and from that of the images.
A step works when it ends with 0 where it is tried; the table says who tries it. Prints the table,
writes it into docs/coming-from/index.md, and the tables of commands, values and defects into the
pages. What the quickstart asks for is counted too.
"""

import re
import shlex
import tomllib
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from scripts.page_blocks import ROOT, Block, Proof, blocks_of, exit_codes
from scripts.refresh_console import commands_of, edits_of

DIRECTORY = ROOT / "docs/coming-from"
QUICKSTART = ROOT / "docs/getting-started/quickstart.md"
PLATFORMS = ROOT / "docs/platforms"
IMAGES = ROOT / "docs/guides/images.md"
MOST_COMMANDS = 4
MOST_VALUES = 8
GROUPS = frozenset(("data", "recipes", "checkpoints", "catalog"))
"""Commands whose next word is a command too."""
LOOKING = frozenset(("watch", "status", "logs", "list"))
"""Commands that change nothing."""


class Tried(StrEnum):
    """Who types a step of a flow here, and looks at the code that it ends with."""

    PAGE = "tried with the page"
    """The build of the documentation; a launch asks a stand-in for the API server."""
    TEST = "tried by a test"
    """A test that the page names, with smaller values."""
    NOT = "not tried"
    """Nobody."""

    @classmethod
    def of(cls, block: Block) -> "Tried":
        """Who tries the commands of a block."""
        if block.proof is Proof.COMPARED:
            return cls.PAGE
        is_test = block.marker is not None and block.marker.value.startswith("tests/")
        return cls.TEST if block.proof is Proof.ELSEWHERE and is_test else cls.NOT


@dataclass(frozen=True, slots=True)
class Cost:
    """What a path asks of its user."""

    done: int
    """Commands that do something."""
    looked: int
    """Commands that only look."""
    values: int
    """Values to give."""
    broken: int
    """Commands that do not work."""
    once: int
    """Commands that an administrator gives once."""

    @property
    def commands(self) -> int:
        """All commands of a run."""
        return self.done + self.looked


@dataclass(frozen=True, slots=True)
class Step:
    """One command of a flow here."""

    command: str
    """What is typed."""
    tried: Tried
    """Who tries it."""
    exit_code: int
    """What it ends with by its page; where it is tried, another code would be an error."""


@dataclass(frozen=True, slots=True)
class Document:
    """One document, and the page for those who come from it."""

    name: str
    """The name of its files."""
    facts: dict[str, Any]
    """What the list beside the page says."""

    @property
    def page(self) -> Path:
        """The page."""
        return DIRECTORY / f"{self.name}.md"

    @property
    def theirs(self) -> Cost:
        """What the document asks for."""
        per_run = [each for each in self.facts["command"] if each["kind"] != "once"]
        return Cost(
            sum(each["kind"] == "do" for each in per_run),
            sum(each["kind"] == "look" for each in per_run),
            sum(len(each.get("values", ())) for each in per_run),
            sum("broken" in each for each in per_run),
            len(self.facts["command"]) - len(per_run),
        )

    @property
    def ours(self) -> Cost:
        """What the page asks for."""
        steps = self.steps()
        looked = sum(step.command.split()[1] in LOOKING for step in steps)
        values = sum(len(values_of(step.command)) for step in steps)
        return Cost(
            len(steps) - looked,
            looked,
            values + len(self.edits()),
            sum(step.exit_code != 0 for step in steps),
            len(self.once()),
        )

    def edits(self) -> list[str]:
        """The fields of the spec that the page asks its reader to change."""
        return [
            field
            for block in blocks_of(self.page)
            if block.marker is not None and block.marker.kind == "edit"
            for field, _ in edits_of(block.text)
        ]

    def steps(self) -> list[Step]:
        """The commands of the flow."""
        found = []
        for block in blocks_under(self.page, "The flow here"):
            commands = typed_in(block)
            codes = exit_codes(block.marker, len(commands))
            for command, code in zip(commands, codes, strict=True):
                found.append(Step(command, Tried.of(block), code))
        return found

    def tried(self, by: Tried) -> int:
        """How many steps are tried so."""
        return sum(step.tried is by for step in self.steps())

    def once(self) -> list[str]:
        """What an administrator types once: the platform's commands, and those of each image."""
        platform = blocks_under(PLATFORMS / f"{self.facts['platform']}.md", "Once")
        image = blocks_under(IMAGES, "GPUs")
        images = sum(field.endswith("image") for field in self.edits())
        return [command for block in [*platform, *image * images] for command in typed_in(block)]


def blocks_under(page: Path, heading: str) -> list[Block]:
    """The blocks of the section whose heading begins so."""
    text = page.read_text(encoding="utf-8")
    section = re.search(rf"^## {heading}\b.*?(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    if section is None:
        raise SystemExit(f"{page} has no section {heading!r}.")
    first, last = (text.count("\n", 0, place) for place in section.span())
    return [block for block in blocks_of(page) if first < block.line <= last]


def typed_in(block: Block) -> list[str]:
    """The commands of a block, each in one line."""
    if block.language == "console":
        return [command for _, command in commands_of(block.text)]
    return block.text.splitlines() if block.language == "bash" else []


def values_of(command: str) -> list[str]:
    """What somebody has to decide in a command: values of options, overrides, names."""
    words = shlex.split(command)
    rest = words[3:] if words[1] in GROUPS else words[2:]
    return [word for word in rest if not word.startswith("-") and not word.endswith(".yaml")]


def quickstart_commands() -> list[str]:
    """The commands of Seatrial that the quickstart asks its reader to type."""
    return [
        command
        for block in blocks_of(QUICKSTART)
        if block.language == "console"
        for _, command in commands_of(block.text)
        if command.startswith("seatrial ")
    ]


def quickstart_words() -> str:
    """What the quickstart asks for, in words."""
    commands = quickstart_commands()
    values = sum(len(values_of(command)) for command in commands)
    return f"{values} values in {len(commands)} commands"


def documents() -> list[Document]:
    """All of them, by name."""
    return [
        Document(path.stem, tomllib.loads(path.read_text(encoding="utf-8")))
        for path in sorted(DIRECTORY.glob("*.toml"))
    ]


def flow_table(found: list[Document]) -> str:
    """The table of all documents."""
    lines = [
        "| document | their commands | values | do not work | our commands "
        f"| {' | '.join(Tried)} | values | do not work "
        "| once: theirs | ours |",
        "|---" * (9 + len(Tried)) + "|",
    ]
    for each in found:
        theirs, ours = each.theirs, each.ours
        lines.append(
            f"| [{each.facts['title']}]({each.name}.md) "
            f"| {_commands(theirs)} | {theirs.values} | {theirs.broken} "
            f"| {_commands(ours)} | {' | '.join(str(each.tried(by)) for by in Tried)} "
            f"| {ours.values} | {ours.broken} "
            f"| {theirs.once} | {ours.once} |"
        )
    return "\n".join(lines)


def _commands(cost: Cost) -> str:
    return f"{cost.commands} ({cost.looked})" if cost.looked else str(cost.commands)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _commands_table(document: Document) -> str:
    lines = ["| theirs | values | does not work, because | here |", "|---|---|---|---|"]
    for each in document.facts["command"]:
        once = ", once" if each["kind"] == "once" else ""
        lines.append(
            f"| `{_cell(each['text'])}` ({each['where']}{once}) | {len(each.get('values', ()))} "
            f"| {_cell(each.get('broken', ''))} | {_cell(each['here'])} |"
        )
    return "\n".join(lines)


def _values_table(document: Document) -> str:
    names = [
        v for c in document.facts["command"] if c["kind"] != "once" for v in c.get("values", ())
    ]
    ours = [f"`{v}` (command)" for step in document.steps() for v in values_of(step.command)]
    ours += [f"`{path}` (file)" for path in document.edits()]
    theirs = ", ".join(f"`{name}`" for name in names)
    return (
        "| | number | which |\n|---|---|---|\n"
        f"| theirs | {len(names)} | {theirs} |\n| ours | {len(ours)} | {', '.join(ours)} |"
    )


def _defects_table(document: Document) -> str:
    lines = ["| there | here |", "|---|---|"]
    lines += [f"| {_cell(d['theirs'])} | {_cell(d['here'])} |" for d in document.facts["defect"]]
    return "\n".join(lines)


def put(text: str, name: str, made: str) -> str:
    """The text with what is made between the marks of that name."""
    pattern = re.compile(rf"(<!-- {name} -->)(\n?).*?(<!-- end -->)", re.DOTALL)
    if not pattern.search(text):
        raise SystemExit(f"there is no place <!-- {name} --> for what was counted.")
    return pattern.sub(lambda m: f"{m[1]}{m[2]}{made}{m[2]}{m[3]}", text, count=1)


def written() -> dict[Path, str]:
    """Every page as it should be."""
    found = documents()
    index = DIRECTORY / "index.md"
    first = QUICKSTART.read_text(encoding="utf-8")
    pages = {
        index: put(index.read_text(encoding="utf-8"), "flow", flow_table(found)),
        QUICKSTART: put(first, "counted", quickstart_words()),
    }
    for each in found:
        text = each.page.read_text(encoding="utf-8")
        text = put(text, "path", each.facts["path"])
        text = put(text, "commands", _commands_table(each))
        text = put(text, "values", _values_table(each))
        pages[each.page] = put(text, "defects", _defects_table(each))
    return pages


def main() -> None:
    """Print the table, and write it."""
    for page, text in written().items():
        if text != page.read_text(encoding="utf-8"):
            page.write_text(text, encoding="utf-8")
            print(f"wrote {page.relative_to(ROOT)}")
    print(f"{'document':20}{'theirs':>32}{'ours':>38}")
    for each in documents():
        theirs, ours = each.theirs, each.ours
        words = [
            f"{_commands(cost)} commands, {cost.values} values, {cost.broken} broken"
            for cost in (theirs, ours)
        ]
        print(f"{each.name:20}{words[0]:>36}{words[1]:>38}")
        tried = ", ".join(f"{each.tried(by)} {by}" for by in Tried)
        print(f"{'':20}{tried:>74}")
    print(f"{'quickstart':20}{quickstart_words():>74}")


if __name__ == "__main__":
    main()
