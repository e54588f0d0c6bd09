# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial catalog`: facts, each with its source."""

import sys
from typing import Annotated

import typer

from seatrial.catalog.catalog import Catalog, Kind, default_catalog
from seatrial.cli import tables
from seatrial.cli.catalog_entry import plain, say_entry
from seatrial.cli.catalog_tables import table_of
from seatrial.cli.output import count_line, counted, say, say_findings, say_json, say_next, say_text
from seatrial.cli.parameters import Json
from seatrial.docstrings import field_docs
from seatrial.errors import FindingsError, UsageError
from seatrial.findings import has_errors
from seatrial.naming import nearest

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


_FLAGS = {Kind.MODELS: "--model", Kind.PROFILES: "--profile", Kind.NODE_TYPES: "--node-type"}
"""The flags of `seatrial init` that take an entry."""
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
    entries = {name: catalog.entry(chosen, name) for name in catalog.names(chosen)}
    if as_json:
        say_json([{"name": name} | plain(entry) for name, entry in entries.items()])
        return
    columns, row = table_of(chosen)
    tables.say_table(columns, [row(name, entry) for name, entry in entries.items()])
    example = next(iter(entries))
    say()
    say_text(f"One with all facts and sources: seatrial catalog show {kind} {example}", rest="  ")


def _list_kinds(catalog: Catalog, as_json: bool) -> None:
    """What the catalog holds."""
    docs = field_docs(Kind)
    kinds = [(str(kind), len(catalog.names(kind)), docs[kind.name]) for kind in Kind]
    if as_json:
        say_json([{"kind": k, "entries": n, "about": about} for k, n, about in kinds])
        return
    columns = (tables.name("kind"), tables.number("entries"), tables.text("about"))
    tables.say_table(columns, [(k, str(n), about) for k, n, about in kinds])
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
        facts = {n: plain(entry) for n, entry in entries.items()}
        say_json(facts if name is None else next(iter(facts.values())))
        return
    for position, (canonical, entry) in enumerate(entries.items()):
        if position:
            say()
        say_entry(canonical, entry)
    flag = _FLAGS.get(chosen)
    wanted = f"init {flag} {next(iter(entries))}" if flag else f"catalog list {kind}"
    # What is printed is YAML that goes into a spec, or into a catalog of one's own.
    say_next(f"seatrial {wanted}")


@app.command()
def check(as_json: Json = False) -> None:
    """Check every entry of the catalog, those of your own directory included."""
    catalog = default_catalog()
    findings = catalog.check()
    if has_errors(findings):
        raise FindingsError(findings)
    number = sum(len(catalog.names(kind)) for kind in Kind)
    if as_json:
        say_json({"entries": number, "findings": [finding.to_dict() for finding in findings]})
        return
    say_findings(findings, sys.stdout)
    if findings:
        say()
    say(f"{counted(number, 'entry', 'entries')}, {count_line(findings) or 'no findings'}.")
    say("next  seatrial catalog list")
