# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Count what a run costs its user, in five public documents and here.

    python -m scripts.count_flow

Theirs is counted from docs/coming-from/*.toml, ours from the section "The flow here" of the page
beside it. Prints the table, writes it into docs/coming-from/index.md, and the tables of commands,
values and defects into the pages. What the quickstart asks for is counted too.
"""

import re
import shlex
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.page_blocks import ROOT, Proof, blocks_of
from scripts.refresh_console import commands_of, edits_of

DIRECTORY = ROOT / "docs/coming-from"
QUICKSTART = ROOT / "docs/getting-started/quickstart.md"
MOST_COMMANDS = 4
MOST_VALUES = 8
GROUPS = frozenset(("data", "recipes", "checkpoints", "catalog"))
"""Commands whose next word is a command too."""
LOOKING = frozenset(("watch", "status", "logs", "list"))
"""Commands that change nothing."""
FLOW = re.compile(r"^## The flow here$(?P<text>.*?)(?=^## )", re.MULTILINE | re.DOTALL)


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
    printed: str
    """What it prints on the page."""
    is_run_here: bool
    """Whether the build of the pages runs it; a test that the page names does otherwise."""


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
            sum(step.printed.startswith("error ") for step in steps),
            len(self.facts["once"]),
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
        flow = FLOW.search(self.page.read_text(encoding="utf-8"))
        if flow is None:
            raise SystemExit(f"{self.page} has no section 'The flow here'.")
        found = []
        for block in blocks_of(self.page):
            if block.language == "console" and block.text in flow["text"]:
                for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
                    command, _, printed = part.partition("\n")
                    found.append(Step(command, printed, block.proof is Proof.COMPARED))
        return found


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
        "| document | their commands | values | do not work | our commands | run with the page | "
        "values | do not work | once: theirs | ours |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for each in found:
        theirs, ours = each.theirs, each.ours
        lines.append(
            f"| [{each.facts['title']}]({each.name}.md) "
            f"| {_commands(theirs)} | {theirs.values} | {theirs.broken} "
            f"| {_commands(ours)} | {sum(step.is_run_here for step in each.steps())} "
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
    print(f"{'quickstart':20}{quickstart_words():>74}")


if __name__ == "__main__":
    main()
