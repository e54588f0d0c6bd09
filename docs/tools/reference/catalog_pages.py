# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The pages of the catalog: an index, and for each kind its entries with facts and sources."""

from enum import Enum
from typing import Any, get_args

from pydantic import BaseModel

from docs.tools.reference.markdown import (
    code,
    doc_of,
    docs_of,
    fenced,
    link,
    member_docs,
    page,
    plain,
    table,
)
from seatrial.catalog.catalog import ENTRY_TYPES, Catalog, Kind
from seatrial.catalog.entry import Entry
from seatrial.cli.catalog import computed, table_of
from seatrial.spec.base import SpecModel

BESIDE = {"title", "source", "sources", "aliases", "note"}
"""Facts about an entry that stand around its table."""

INTRODUCTION = """\
The catalog contains specifications of models, hardware, storage and images, each with its source.
`seatrial catalog list` and `seatrial catalog show` print them; these pages are generated from the
same files."""

EXTEND = """\
Put your own entries in files with the same names and format, in the directory set by
`SEATRIAL_CATALOG`. The default is `$XDG_CONFIG_HOME/seatrial/catalog`, or
`~/.config/seatrial/catalog` if `XDG_CONFIG_HOME` is not set. Seatrial reads these files after the
shipped ones. An entry with a new name is added. An entry with an existing name overrides that entry
field by field: fields that you do not set keep their values. `like` inherits the fields of another
entry of the same kind, except its aliases and price. For example, a negotiated price in
`node_types.toml`:"""

PRICE = """\
["p4d.24xlarge".price]
usd_per_hour = 14.20
as_of = 2026-11-01
region = "us-east-1"
source = "our agreement of November 2026"
"""


def catalog_pages() -> dict[str, str]:
    catalog = Catalog()
    return {"index.md": _index(catalog)} | {
        f"{kind}.md": _kind_page(kind, catalog) for kind in Kind
    }


def _index(catalog: Catalog) -> str:
    docs = member_docs(Kind)
    rows = [
        (f"[{kind}]({kind}.md)", str(len(catalog.names(kind))), code(_file(kind)), docs[kind])
        for kind in Kind
    ]
    return page(
        "# Catalog",
        INTRODUCTION,
        table(("kind", "entries", "file", "about"), rows),
        "## Fields of every entry",
        _fields(Entry, Entry.model_fields),
        "## Your own entries",
        EXTEND,
        fenced(PRICE, "toml"),
        "For step-by-step instructions, see [Use your own catalog](../../guides/own-catalog.md).",
        fenced("\n".join([":hidden:", "", *map(str, Kind)]), "{toctree}"),
    )


def _file(kind: Kind) -> str:
    return f"{kind.replace('-', '_')}.toml"


def _kind_page(kind: Kind, catalog: Catalog) -> str:
    """One kind: its list, its facts, its entries."""
    columns, row = table_of(kind)
    names = catalog.names(kind)
    entries = {name: catalog.entry(kind, name) for name in names}
    headers = [column.header for column in columns]
    rows = [
        tuple(
            code(cell) if header == "name" else plain(cell)
            for header, cell in zip(headers, row(name, entry), strict=True)
        )
        for name, entry in entries.items()
    ]
    return page(
        f"# {kind.replace('-', ' ').capitalize()}",
        f"{member_docs(Kind)[kind]} On the command line: `seatrial catalog list {kind}`.",
        table(headers, rows),
        "## Fields of an entry",
        *_facts(ENTRY_TYPES[kind]),
        "## Entries",
        *[block for name, entry in entries.items() for block in _entry(name, entry)],
    )


def _facts(entry: type[Entry]) -> list[str]:
    """The facts of a kind, and those of the groups inside them."""
    own = [name for name in entry.model_fields if name not in Entry.model_fields]
    blocks = [
        f"{doc_of(entry)} *Required* fields must be present in a catalog file.",
        _fields(entry, own),
    ]
    for name in own:
        for part in _classes(entry.model_fields[name].annotation):
            if issubclass(part, Enum):
                rows = [(code(value), doc) for value, doc in member_docs(part).items()]
                blocks += [f"`{name}` is one of:", table(("value", "meaning"), rows)]
            elif issubclass(part, SpecModel):
                blocks.append(
                    f"`{name}` has the fields of `model.dimensions` in the [spec](../spec.md)."
                )
            elif issubclass(part, BaseModel):
                blocks += [f"`{name}`: {doc_of(part)}", _fields(part, part.model_fields)]
    return blocks


def _classes(annotation: Any) -> list[type]:
    if isinstance(annotation, type) and issubclass(annotation, Enum | BaseModel):
        return [annotation]
    return [found for part in get_args(annotation) for found in _classes(part)]


def _fields(thing: type[BaseModel], names: Any) -> str:
    docs = docs_of(thing, list(names))
    rows = [
        (code(name), "required" if thing.model_fields[name].is_required() else "", doc)
        for name, doc in docs.items()
    ]
    return table(("fact", "", "meaning"), rows)


def _entry(name: str, entry: Entry) -> list[str]:
    blocks = [f"### `{name}`", f"{plain(entry.title)}."]
    if entry.aliases:
        blocks.append("Also called " + ", ".join(code(alias) for alias in entry.aliases) + ".")
    if entry.note:
        blocks.append(f"Note: {plain(entry.note)}")
    facts = entry.model_dump(mode="json", exclude_defaults=True, exclude=BESIDE)
    lists = {key: value for key, value in facts.items() if _is_list_of_groups(value)}
    rows = [
        (code(path), _value(value), link(_source(path, entry)) if _source(path, entry) else "")
        for key, value in facts.items()
        if key not in lists
        for path, value in _flat(key, value)
    ]
    rows += [(code(path), f"{value:,}", "computed") for path, value in computed(entry)]
    blocks.append(table(("fact", "value", "source"), rows))
    for key, groups in lists.items():
        headers = list(dict.fromkeys(header for group in groups for header in group))
        cells = [[_cell(header, group.get(header, "")) for header in headers] for group in groups]
        blocks += [f"`{key}`:", table(headers, cells)]
    return [*blocks, f"Source of all other facts: {link(entry.source)}"]


def _is_list_of_groups(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def _flat(path: str, value: Any) -> list[tuple[str, Any]]:
    """A fact, or the facts of a group each under its own path; a price has its source inside."""
    if not isinstance(value, dict):
        return [(path, value)]
    return [found for key, below in value.items() for found in _flat(f"{path}.{key}", below)]


def _source(path: str, entry: Entry) -> str:
    """The source that a fact has for itself, stated for it or for the group around it."""
    parts = path.split(".")
    return next((entry.sources[part] for part in reversed(parts) if part in entry.sources), "")


def _value(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(code(item) for item in value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"{value:,.10g}" if value == 0 or abs(value) >= 0.001 else f"{value:g}"
    # A sentence is read as one; a name, a version or a source stands as it is.
    return plain(value) if value.endswith(".") else link(value)


def _cell(header: str, value: Any) -> str:
    """A fact in a list of groups; reasons are words, everything else is a name."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {_value(below)}" for key, below in value.items())
    is_text = header in ("why", "reason")
    return plain(value) if is_text else _value(value) if value != "" else ""
