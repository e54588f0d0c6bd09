# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""YAML text -> a tree of values that know their line and column.

It is built from ruamel.yaml's event stream, which comes lazily and without recursion: a
megabyte of brackets stops at the depth limit instead of exhausting the stack.
"""

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)
from ruamel.yaml.nodes import ScalarNode

from seatrial.codes.spec import SpecCode
from seatrial.errors import UnreadableError
from seatrial.findings import Finding, Severity, Where
from seatrial.spec.secrets import shown_key
from seatrial.spec.syntax import ODD_BLANK, Lines, finding_of, odd_blank

MAX_DEPTH = 20
"""A spec has at most 6 levels; nothing meant for us is deeper than this."""
MAX_VALUES = 5000
"""Keys and values of a spec together; a megabyte of them took half a minute to refuse."""
MAX_INT_BITS = 1023
"""A whole number above this has no float, and one far above it cannot even be printed."""

_UNUSABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters but tab and newline, and halves of characters.

No argument or variable of a process can hold NUL, and the others are read differently by terminals,
logs, YAML and JSON."""
_YAML_TAG = "tag:yaml.org,2002:"

Path = tuple[str | int, ...]
"""The keys and list positions that lead to a value."""


def dotted(path: Path) -> str:
    """The path as a user would write it: `data.sources[0].weight`."""
    text = ""
    for key in path:
        part = f"[{key}]" if isinstance(key, int) else shown_key(key)
        text += part if isinstance(key, int) or not text else f".{part}"
    return text


@dataclass(slots=True)
class Node:
    """A value with its place; its children are nodes too."""

    value: Any
    """A scalar, a dict of nodes, or a list of nodes."""
    file: str
    """The file as the user named it."""
    line: int = 0
    """Line of the value, from 1."""
    column: int = 0
    """Column of the value, from 1."""
    key_line: int = 0
    """Line of the key that leads to the value, from 1."""
    key_column: int = 0
    """Column of that key, from 1."""
    faulty: bool = False
    """Whether a finding speaks of it already, so that what is inside is not worth another."""
    written: str = ""
    """The text after the = of an override; empty for what stands in a file."""

    def plain(self) -> Any:
        """The value without places."""
        if isinstance(self.value, dict):
            return {key: child.plain() for key, child in self.value.items()}
        if isinstance(self.value, list):
            return [child.plain() for child in self.value]
        return self.value

    def walk(self, path: Path = ()) -> Iterator[tuple[Path, Any]]:
        """Every scalar below with its path."""
        if isinstance(self.value, dict):
            for key, child in self.value.items():
                yield from child.walk((*path, key))
        elif isinstance(self.value, list):
            for index, child in enumerate(self.value):
                yield from child.walk((*path, index))
        else:
            yield path, self.value

    def child(self, key: str | int) -> "Node | None":
        """The child of that name or index, if there is one."""
        if isinstance(self.value, dict):
            return self.value.get(str(key))
        if isinstance(self.value, list) and isinstance(key, int) and 0 <= key < len(self.value):
            found: Node = self.value[key]
            return found
        return None

    def spoken_for(self, path: Path) -> bool:
        """Whether the node at the path is faulty, or one that it lies in."""
        return any(self.at(path[:end])[0].faulty for end in range(len(path) + 1))

    def holds_faulty(self) -> bool:
        """Whether this node is faulty, or one inside it."""
        children = self.value.values() if isinstance(self.value, dict) else self.value
        inside = children if isinstance(self.value, dict | list) else ()
        return self.faulty or any(child.holds_faulty() for child in inside)

    def at(self, path: Path) -> tuple["Node", bool]:
        """The node at the path, or the deepest one on the way to it, and whether it was reached."""
        node = self
        for key in path:
            child = node.child(key)
            if child is None:
                return node, False
            node = child
        return node, True


@dataclass
class _Open:
    """A section or a list whose end has not come yet."""

    node: Node
    path: Path
    # The key that waits for its value. One whose own value is None cannot be used; what
    # belongs to it is read and left out.
    key: Node | None = None


@dataclass
class _Builder:
    """Builds the tree from events, collecting what is wrong on the way."""

    yaml: YAML
    file: str
    lines: Lines
    findings: list[Finding] = field(default_factory=list)
    root: Node | None = None
    stack: list[_Open] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)
    aliases: set[str] = field(default_factory=set)
    values: int = 0
    # The text in quotes that was read last, as indexes into the file.
    quoted: tuple[int, int] = (0, 0)

    def problem(
        self, code: SpecCode, event: Event, rule: str, fix: str, key: str = "", offset: int = 0
    ) -> None:
        """Report something at an event, or so far behind it; `key` when it is itself a key."""
        line, column = self.lines.place(event.start_mark.index + offset)
        place = Where(dotted((*self.path(), key) if key else self.path()), self.file, line, column)
        self.findings.append(Finding(code, Severity.ERROR, place, rule, "", fix))

    def path(self) -> Path:
        """The path of the value that comes next; of the section when it is to be a key."""
        if not self.stack:
            return ()
        around = self.stack[-1]
        if isinstance(around.node.value, list):
            return (*around.path, len(around.node.value))
        if around.key is None or around.key.value is None:
            return around.path
        return (*around.path, around.key.value)

    def node(self, value: Any, event: Event) -> Node:
        """A value at an event's place."""
        return Node(value, self.file, *self.lines.place(event.start_mark.index))

    def feed(self, event: Event) -> None:
        """Take one event."""
        self.values += isinstance(event, NodeEvent)
        if self.values > MAX_VALUES:
            rule = f"the file holds more than {MAX_VALUES} keys and values; a spec is a page."
            self.give_up(SpecCode.SHAPE, event, rule, "Check the path.")
        if isinstance(event, AliasEvent):
            self.refuse_alias(event)
            return
        if not isinstance(event, NodeEvent):
            if isinstance(event, MappingEndEvent | SequenceEndEvent):
                self.stack.pop()
            return
        faulty = self.refuse_anchor_and_tag(event)
        if isinstance(event, ScalarEvent):
            value, unreadable = self.scalar(event)
            node = self.node(value, event)
            node.faulty = faulty or unreadable
            self.place(node, event)
        else:
            opened = self.node({} if isinstance(event, MappingStartEvent) else [], event)
            opened.faulty = faulty
            self.open(opened, event)

    def give_up(self, code: SpecCode, event: Event, rule: str, fix: str) -> NoReturn:
        """Stop at an event; the path to it would be long, and says nothing."""
        place = Where("", self.file, *self.lines.place(event.start_mark.index))
        raise UnreadableError(Finding(code, Severity.ERROR, place, rule, "", fix))

    def open(self, collection: Node, event: Event) -> None:
        """Begin a section or a list."""
        if len(self.stack) == MAX_DEPTH:
            rule = f"sections are nested more than {MAX_DEPTH} deep."
            fix = "Check the brackets and the indentation before this place."
            self.give_up(SpecCode.DEPTH, event, rule, fix)
        opened = _Open(collection, self.path())
        self.place(collection, event)
        self.stack.append(opened)

    def refuse_alias(self, event: Any) -> None:
        """Report an alias, once for each anchor; the finding for a merge key covers its own."""
        waiting = self.stack[-1].key if self.stack else None
        merged = waiting is not None and waiting.value is None
        if not merged and event.anchor not in self.anchors:
            self.problem(
                SpecCode.ANCHOR,
                event,
                "YAML takes a text that begins with * for an alias.",
                f'Put it in quotes: "*{shown_key(event.anchor)}".',
            )
        elif not merged and event.anchor not in self.aliases:
            self.aliases.add(event.anchor)
            self.problem(
                SpecCode.ANCHOR,
                event,
                f"the alias *{shown_key(event.anchor)} is used; a spec says every value where it "
                "stands.",
                "Write the value out, here and wherever else it is used.",
            )
        node = self.node(None, event)
        node.faulty = True
        self.place(node, event)

    def refuse_anchor_and_tag(self, event: Any) -> bool:
        """Report an anchor or a tag on a value; whether the value is to be left alone."""
        if event.anchor is not None:
            self.anchors.add(event.anchor)
            anchor = f"&{shown_key(event.anchor)}"
            self.problem(
                SpecCode.ANCHOR,
                event,
                f"the anchor {anchor} is used; a spec says every value where it stands.",
                f"Remove {anchor} and write the value out wherever it is used.",
            )
        if event.tag is None:
            return False
        tag = str(event.tag)
        tag = f"!!{tag.removeprefix(_YAML_TAG)}" if tag.startswith(_YAML_TAG) else tag
        self.problem(
            SpecCode.TAG,
            event,
            f"the YAML tag {shown_key(tag)} is used; a spec holds plain values and runs no code.",
            "Remove the tag.",
        )
        return True

    def place(self, node: Node, event: Event) -> None:
        """Put a value, or a key, where it belongs in the innermost open collection."""
        if not self.stack:
            self.root = node
            return
        around = self.stack[-1]
        section, key = around.node, around.key
        if isinstance(section.value, list):
            node.key_line, node.key_column = node.line, node.column
            section.value.append(node)
        elif key is None:
            around.key = self.key(node, event)
        else:
            around.key = None
            node.key_line, node.key_column = key.line, key.column
            if node.value is None and event.start_mark.index == event.end_mark.index:
                # The parser puts a value that is left out where the next one begins.
                node.line, node.column = key.line, key.column
            if key.value is not None:
                # After a duplicate the first value stays, so that further errors make sense.
                section.value.setdefault(key.value, node)

    def key(self, node: Node, event: Event) -> Node:
        """The key as text, with a finding when it is no key or stands twice."""
        section = self.stack[-1].node
        if not isinstance(event, ScalarEvent) or event.value == "<<" or node.faulty:
            self.refuse_key(event)
            # The section lacks what this key would have brought; nothing else can be said of it.
            section.faulty = True
            return Node(None, node.file, node.line, node.column)
        name = str(event.value)
        if name in section.value:
            first = section.value[name].key_line
            self.problem(
                SpecCode.DUPLICATE_KEY,
                event,
                f"{shown_key(name)} stands here and on line {first}; YAML would silently keep one.",
                "Remove one of them.",
                name,
            )
        return Node(name, node.file, node.line, node.column)

    def refuse_key(self, event: Event) -> None:
        """Report a key that is no word, unless its alias or its characters were reported."""
        if isinstance(event, ScalarEvent) and event.value == "<<":
            self.problem(
                SpecCode.ANCHOR,
                event,
                "the merge key << is used; a spec says every value where it stands.",
                "Write the values out.",
            )
        elif isinstance(event, MappingStartEvent):
            self.problem(
                SpecCode.SHAPE,
                event,
                "a section stands where a key should.",
                "Write key: value; a {{ template }} has to be filled in first.",
            )
        elif isinstance(event, SequenceStartEvent):
            rule = "a list stands where a key should."
            self.problem(SpecCode.SHAPE, event, rule, "Write a key: value line for each.")

    def scalar(self, event: Any) -> tuple[Any, bool]:
        """The value of a scalar by the rules of YAML 1.2, and whether it cannot be used.

        Quoted text and dates stay text.
        """
        if event.style in ("'", '"'):
            self.quoted = (event.start_mark.index, event.end_mark.index)
        unusable = _UNUSABLE.search(event.value)
        if unusable:
            number = ord(unusable[0])
            is_half = number >= 0xD800
            what = "no character" if is_half else "a control character"
            fix = ", or write the whole character instead of its escape." if is_half else "."
            rule = f"the text holds U+{number:04X}, which is {what}."
            self.problem(SpecCode.SYNTAX, event, rule, f"Remove it{fix}")
            return None, True
        if not event.implicit[0]:
            return event.value, False
        odd = ODD_BLANK.search(event.value)
        if odd:
            rule, fix = odd_blank(odd[1])
            self.problem(SpecCode.SYNTAX, event, rule, fix, offset=odd.start(1))
            return None, True
        tag = self.yaml.resolver.resolve(ScalarNode, event.value, (True, False))
        if str(tag).endswith(("timestamp", "merge", "value")):
            return event.value, False
        try:
            value = self.yaml.constructor.construct_object(ScalarNode(tag, event.value))
        except (ValueError, OverflowError):
            value = None
        if isinstance(value, int) and value.bit_length() <= MAX_INT_BITS:
            return value, False
        if isinstance(value, float | str | bool) or str(tag).endswith("null"):
            return value, False
        self.problem(
            SpecCode.SYNTAX, event, "the number is too long to be read.", "Write a shorter number."
        )
        return None, True


def parse(text: str, file: str) -> tuple[Node, list[Finding]]:
    """The tree of one YAML document, and what is wrong with it short of not being YAML."""
    yaml = YAML(typ="safe", pure=True)
    builder = _Builder(yaml, file, Lines(text))
    documents = 0
    try:
        for event in yaml.parse(io.StringIO(text)):
            documents += isinstance(event, DocumentStartEvent)
            if documents > 1:
                builder.problem(
                    SpecCode.SHAPE,
                    event,
                    "a second document begins here; a spec is one document.",
                    "Move it into a file of its own.",
                )
                break
            builder.feed(event)
    except YAMLError as error:
        raise UnreadableError(finding_of(error, text, file, builder.quoted)) from None
    root = builder.root or Node(None, file, 1, 1)
    return root, builder.findings
