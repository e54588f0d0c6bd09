# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Parse YAML text into a tree of values with line and column.

The tree is built from ruamel.yaml's event stream, which is lazy and not recursive: a megabyte of
brackets stops at the depth limit instead of exhausting the stack.
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
"""Maximum nesting depth. A spec has at most 6 levels; a deeper file is not a spec."""
MAX_VALUES = 5000
"""Maximum number of keys and values. Rejecting a megabyte of values took half a minute."""
MAX_INT_BITS = 1023
"""Larger integers cannot be converted to float, and far larger ones cannot be printed."""

_UNUSABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters except tab and newline, and surrogates.

Process arguments and environment variables cannot contain NUL. Terminals, logs, YAML and JSON
interpret the other characters differently."""
_YAML_TAG = "tag:yaml.org,2002:"

Path = tuple[str | int, ...]
"""The keys and list indexes that lead to a value."""


def dotted(path: Path) -> str:
    """Format a path as in `data.sources[0].weight`."""
    text = ""
    for key in path:
        part = f"[{key}]" if isinstance(key, int) else shown_key(key)
        text += part if isinstance(key, int) or not text else f".{part}"
    return text


@dataclass(slots=True)
class Node:
    """A value with its location; its children are nodes too."""

    value: Any
    """A scalar, a dict of nodes, or a list of nodes."""
    file: str
    """The file name as the user wrote it."""
    line: int = 0
    """Line of the value, from 1."""
    column: int = 0
    """Column of the value, from 1."""
    key_line: int = 0
    """Line of the key that leads to the value, from 1."""
    key_column: int = 0
    """Column of that key, from 1."""
    faulty: bool = False
    """True if a finding already covers the node, so that its content gets no further findings."""
    written: str = ""
    """The text after the = of an override; empty for a value from a file."""

    def plain(self) -> Any:
        """Return the value without locations."""
        if isinstance(self.value, dict):
            return {key: child.plain() for key, child in self.value.items()}
        if isinstance(self.value, list):
            return [child.plain() for child in self.value]
        return self.value

    def walk(self, path: Path = ()) -> Iterator[tuple[Path, Any]]:
        """Yield every scalar below the node with its path."""
        if isinstance(self.value, dict):
            for key, child in self.value.items():
                yield from child.walk((*path, key))
        elif isinstance(self.value, list):
            for index, child in enumerate(self.value):
                yield from child.walk((*path, index))
        else:
            yield path, self.value

    def child(self, key: str | int) -> "Node | None":
        """Return the child with this key or index, or None."""
        if isinstance(self.value, dict):
            return self.value.get(str(key))
        if isinstance(self.value, list) and isinstance(key, int) and 0 <= key < len(self.value):
            found: Node = self.value[key]
            return found
        return None

    def spoken_for(self, path: Path) -> bool:
        """Return True if the node at the path or one of its ancestors is faulty."""
        return any(self.at(path[:end])[0].faulty for end in range(len(path) + 1))

    def holds_faulty(self) -> bool:
        """Return True if this node or one of its descendants is faulty."""
        children = self.value.values() if isinstance(self.value, dict) else self.value
        inside = children if isinstance(self.value, dict | list) else ()
        return self.faulty or any(child.holds_faulty() for child in inside)

    def at(self, path: Path) -> tuple["Node", bool]:
        """Return the node at the path and True, or its deepest existing ancestor and False."""
        node = self
        for key in path:
            child = node.child(key)
            if child is None:
                return node, False
            node = child
        return node, True


@dataclass
class _Open:
    """A section or list that is still open."""

    node: Node
    path: Path
    # The key whose value comes next. If the key node's value is None, the key is invalid, and the
    # value that follows is parsed and dropped.
    key: Node | None = None


@dataclass
class _Builder:
    """Builds the tree from events and collects findings."""

    yaml: YAML
    file: str
    lines: Lines
    findings: list[Finding] = field(default_factory=list)
    root: Node | None = None
    stack: list[_Open] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)
    aliases: set[str] = field(default_factory=set)
    values: int = 0
    # Start and end index of the last quoted text.
    quoted: tuple[int, int] = (0, 0)

    def problem(
        self, code: SpecCode, event: Event, rule: str, fix: str, key: str = "", offset: int = 0
    ) -> None:
        """Add a finding at an event plus an offset; set `key` if the event is itself a key."""
        line, column = self.lines.place(event.start_mark.index + offset)
        place = Where(dotted((*self.path(), key) if key else self.path()), self.file, line, column)
        self.findings.append(Finding(code, Severity.ERROR, place, rule, "", fix))

    def path(self) -> Path:
        """Return the path of the next value, or of the section if a key comes next."""
        if not self.stack:
            return ()
        around = self.stack[-1]
        if isinstance(around.node.value, list):
            return (*around.path, len(around.node.value))
        if around.key is None or around.key.value is None:
            return around.path
        return (*around.path, around.key.value)

    def node(self, value: Any, event: Event) -> Node:
        """Return a node at the location of an event."""
        return Node(value, self.file, *self.lines.place(event.start_mark.index))

    def feed(self, event: Event) -> None:
        """Process one event."""
        self.values += isinstance(event, NodeEvent)
        if self.values > MAX_VALUES:
            rule = f"the file has more than {MAX_VALUES} keys and values, too many for a spec."
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
        """Stop at an event with an error; the path is omitted, because it would be very long."""
        place = Where("", self.file, *self.lines.place(event.start_mark.index))
        raise UnreadableError(Finding(code, Severity.ERROR, place, rule, "", fix))

    def open(self, collection: Node, event: Event) -> None:
        """Open a section or a list."""
        if len(self.stack) == MAX_DEPTH:
            rule = f"sections are nested more than {MAX_DEPTH} deep."
            fix = "Check the brackets and the indentation before this line."
            self.give_up(SpecCode.DEPTH, event, rule, fix)
        opened = _Open(collection, self.path())
        self.place(collection, event)
        self.stack.append(opened)

    def refuse_alias(self, event: Any) -> None:
        """Report an alias once per anchor, unless the finding for a merge key covers it."""
        waiting = self.stack[-1].key if self.stack else None
        merged = waiting is not None and waiting.value is None
        if not merged and event.anchor not in self.anchors:
            self.problem(
                SpecCode.ANCHOR,
                event,
                "YAML reads text that starts with * as an alias.",
                f'Put the text in quotes: "*{shown_key(event.anchor)}".',
            )
        elif not merged and event.anchor not in self.aliases:
            self.aliases.add(event.anchor)
            self.problem(
                SpecCode.ANCHOR,
                event,
                f"a spec cannot contain aliases, such as *{shown_key(event.anchor)}.",
                "Write the value itself, here and wherever the alias is used.",
            )
        node = self.node(None, event)
        node.faulty = True
        self.place(node, event)

    def refuse_anchor_and_tag(self, event: Any) -> bool:
        """Report an anchor or a tag on a value; return True if the value must be ignored."""
        if event.anchor is not None:
            self.anchors.add(event.anchor)
            anchor = f"&{shown_key(event.anchor)}"
            self.problem(
                SpecCode.ANCHOR,
                event,
                f"a spec cannot contain anchors, such as {anchor}.",
                f"Remove {anchor}, and write the value itself wherever the anchor is used.",
            )
        if event.tag is None:
            return False
        tag = str(event.tag)
        tag = f"!!{tag.removeprefix(_YAML_TAG)}" if tag.startswith(_YAML_TAG) else tag
        self.problem(
            SpecCode.TAG,
            event,
            f"a spec cannot contain YAML tags, such as {shown_key(tag)}.",
            "Remove the tag.",
        )
        return True

    def place(self, node: Node, event: Event) -> None:
        """Add a value or a key to the innermost open collection."""
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
                # The parser reports a missing value at the start of the next value.
                node.line, node.column = key.line, key.column
            if key.value is not None:
                # For duplicate keys, keep the first value, so that further errors make sense.
                section.value.setdefault(key.value, node)

    def key(self, node: Node, event: Event) -> Node:
        """Return the key as a string; report it if it is invalid or a duplicate."""
        section = self.stack[-1].node
        if not isinstance(event, ScalarEvent) or event.value == "<<" or node.faulty:
            self.refuse_key(event)
            # The section is incomplete without this key, so other errors in it are not meaningful.
            section.faulty = True
            return Node(None, node.file, node.line, node.column)
        name = str(event.value)
        if name in section.value:
            first = section.value[name].key_line
            self.problem(
                SpecCode.DUPLICATE_KEY,
                event,
                f"{shown_key(name)} is set here and on line {first}; most parsers would silently "
                "keep one value.",
                "Remove one of the two lines.",
                name,
            )
        return Node(name, node.file, node.line, node.column)

    def refuse_key(self, event: Event) -> None:
        """Report a key that is not a string, unless its alias or characters were reported."""
        if isinstance(event, ScalarEvent) and event.value == "<<":
            self.problem(
                SpecCode.ANCHOR,
                event,
                "a spec cannot contain the merge key <<.",
                "Write the values themselves.",
            )
        elif isinstance(event, MappingStartEvent):
            self.problem(
                SpecCode.SHAPE,
                event,
                "a section is in place of a key.",
                "Write key: value. If this is a {{ template }}, render it first.",
            )
        elif isinstance(event, SequenceStartEvent):
            rule = "a list is in place of a key."
            self.problem(SpecCode.SHAPE, event, rule, "Write a key: value line for each item.")

    def scalar(self, event: Any) -> tuple[Any, bool]:
        """Return the value of a scalar under YAML 1.2, and True if it is unusable.

        Quoted text and dates stay strings.
        """
        if event.style in ("'", '"'):
            self.quoted = (event.start_mark.index, event.end_mark.index)
        unusable = _UNUSABLE.search(event.value)
        if unusable:
            number = ord(unusable[0])
            is_half = number >= 0xD800
            what = "half of a surrogate pair" if is_half else "a control character"
            fix = ", or write the whole character instead of an escape." if is_half else "."
            rule = f"the text contains U+{number:04X}, which is {what}."
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
        self.problem(SpecCode.SYNTAX, event, "the number is too large.", "Write a smaller number.")
        return None, True


def parse(text: str, file: str) -> tuple[Node, list[Finding]]:
    """Parse one YAML document; return the tree and findings. Raise if it is not valid YAML."""
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
                    "a second document starts here, but a spec is a single document.",
                    "Move the second document to a separate file.",
                )
                break
            builder.feed(event)
    except YAMLError as error:
        raise UnreadableError(finding_of(error, text, file, builder.quoted)) from None
    root = builder.root or Node(None, file, 1, 1)
    return root, builder.findings
