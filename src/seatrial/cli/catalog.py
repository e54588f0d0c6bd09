# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial catalog`: facts, each with its source."""

from typing import Annotated, Any

import typer

from seatrial.catalog.catalog import Catalog, Kind, default_catalog
from seatrial.catalog.entry import Entry
from seatrial.catalog.models import ModelPreset
from seatrial.cli.catalog_tables import columns
from seatrial.cli.output import say, say_json, say_table
from seatrial.cli.parameters import Json
from seatrial.docstrings import field_docs
from seatrial.errors import UsageError
from seatrial.naming import nearest
from seatrial.planning.parameters import active_parameters, padded_vocab_size, total_parameters

app = typer.Typer(
    help="Look up models, accelerators, node types, fabrics, storage, images, profiles.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)


def _names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Completion: the names of the kind that stands before."""
    kind = ctx.params.get("kind")
    names = default_catalog().names(_kind(kind)) if kind else []
    return [name for name in names if name.startswith(incomplete)]


def _kinds(incomplete: str) -> list[str]:
    """Completion: the kinds."""
    return [kind for kind in Kind if kind.startswith(incomplete)]


def _kind(name: str) -> Kind:
    """The kind of that name."""
    try:
        return Kind(name)
    except ValueError:
        match = nearest(name, Kind)
        hint = f"Did you mean {match}?" if match else f"Use one of: {', '.join(Kind)}."
        raise UsageError(f"There is no kind {name!r} in the catalog. {hint}") from None


KIND = typer.Argument(metavar="KIND", autocompletion=_kinds, help=", ".join(Kind))


@app.command("list")
def list_entries(
    kind: Annotated[str | None, KIND] = None,
    as_json: Json = False,
) -> None:
    """List the kinds, or the entries of a kind."""
    catalog = default_catalog()
    if kind is None:
        _list_kinds(catalog, as_json)
        return
    chosen = _kind(kind)
    headers, row = columns(chosen)
    rows = [row(name, catalog.entry(chosen, name)) for name in catalog.names(chosen)]
    if as_json:
        say_json([dict(zip(headers, cells, strict=True)) for cells in rows])
        return
    say_table(headers, rows)
    say(f"\nOne with all facts and their sources: seatrial catalog show {kind} {rows[0][0]}")


def _list_kinds(catalog: Catalog, as_json: bool) -> None:
    """What the catalog holds."""
    docs = field_docs(Kind)
    kinds = [(str(kind), len(catalog.names(kind)), docs[kind.name]) for kind in Kind]
    if as_json:
        say_json([{"kind": k, "entries": n, "about": about} for k, n, about in kinds])
        return
    say_table(("kind", "entries", "about"), [(k, str(n), about) for k, n, about in kinds])
    say("\nThe entries of a kind: seatrial catalog list models")


@app.command()
def show(
    kind: Annotated[str, KIND],
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", autocompletion=_names, help="Name or alias.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show one entry with every fact and its source, or all entries of a kind."""
    catalog, chosen = default_catalog(), _kind(kind)
    names = [name] if name else catalog.names(chosen)
    entries = {catalog.canonical(chosen, n): catalog.entry(chosen, n) for n in names}
    if as_json:
        plain = {n: _plain(entry) for n, entry in entries.items()}
        say_json(plain if name is None else next(iter(plain.values())))
        return
    for position, (canonical, entry) in enumerate(entries.items()):
        if position:
            say()
        _show(canonical, entry)


def _plain(entry: Entry) -> dict[str, Any]:
    """The facts of an entry, and what is computed from them."""
    return entry.model_dump(mode="json") | dict(computed(entry))


def computed(entry: Entry) -> list[tuple[str, Any]]:
    """What follows from an entry's facts."""
    if not isinstance(entry, ModelPreset):
        return []
    padded = padded_vocab_size(entry.architecture.vocab_size, entry.tp_size)
    total = total_parameters(entry.architecture, padded)
    active = active_parameters(entry.architecture, padded)
    facts = [("parameters", total), ("padded_vocab_size", padded)]
    return facts if active == total else [*facts, ("active_parameters", active)]


def _show(name: str, entry: Entry) -> None:
    """One entry for a person."""
    say(f"{name}   {entry.title}")
    if entry.aliases:
        say(f"  also called {', '.join(entry.aliases)}")
    if entry.note:
        say(f"  note: {entry.note}")
    facts = entry.model_dump(mode="json", exclude_defaults=True)
    hidden = {"title", "source", "sources", "aliases", "note"}
    for key, value in facts.items():
        if key not in hidden:
            _show_fact(key, value, entry.sources)
    for key, value in computed(entry):
        say(f"  {key}: {value:,}    (computed)")
    say(f"  source: {entry.source}")


def _show_fact(key: str, value: Any, sources: dict[str, str], indent: str = "  ") -> None:
    """One fact, and its own source where it has one."""
    beside = f"    ({sources[key]})" if key in sources else ""
    if isinstance(value, dict):
        say(f"{indent}{key}:{beside}")
        for inner, fact in value.items():
            _show_fact(inner, fact, sources, indent + "  ")
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        say(f"{indent}{key}:{beside}")
        for item in value:
            words = ", ".join(f"{k}: {v}" for k, v in item.items() if v not in ("", []))
            say(f"{indent}  - {words}")
    else:
        text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        say(f"{indent}{key}: {text}{beside}")
