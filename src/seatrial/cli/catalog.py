# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial catalog`: look up models, accelerators, node types and other facts."""

import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from seatrial.catalog.accelerators import Accelerator
from seatrial.catalog.catalog import Catalog, Kind, default_catalog
from seatrial.catalog.components import ClusterComponent
from seatrial.catalog.entry import Entry
from seatrial.catalog.fabrics import Fabric
from seatrial.catalog.images import Image
from seatrial.catalog.models import ModelPreset
from seatrial.catalog.node_types import NodeType
from seatrial.catalog.profiles import Profile
from seatrial.catalog.storage import StorageTier
from seatrial.cli.options import Json, examples
from seatrial.docstrings import field_docs
from seatrial.engines.registry import ENGINES
from seatrial.errors import FindingsError, UsageError
from seatrial.findings import has_errors
from seatrial.naming import nearest
from seatrial.planning.parameters import active_parameters, padded_vocab_size, total_parameters
from seatrial.reports import tables
from seatrial.reports.tables import Column, name, number, text
from seatrial.reports.terminal import (
    count_line,
    counted,
    say,
    say_findings,
    say_json,
    say_next,
    say_text,
)
from seatrial.units import format_count

Row = tuple[str, ...]
Table = tuple[tuple[Column, ...], Callable[[str, Entry], Row]]


def table_of(kind: Kind) -> Table:
    """Return the columns of a kind's table, and the function that makes a row."""
    return _TABLES[kind]


def _padded_vocab_size(entry: ModelPreset) -> int:
    multiple = ENGINES[entry.engine].vocab_multiple
    return padded_vocab_size(entry.architecture.vocab_size, entry.tp_size, multiple)


def _model(label: str, entry: Entry) -> Row:
    if not isinstance(entry, ModelPreset):
        raise TypeError(label)
    shape = entry.architecture
    padded = _padded_vocab_size(entry)
    return (
        entry.series,
        label if entry.verified else f"{label} *",
        format_count(total_parameters(shape, padded)),
        f"{shape.layers:,}",
        f"{shape.hidden_size:,}",
        f"{shape.heads:,}",
        f"{entry.sequence_length:,}",
        entry.engine,
        ", ".join(entry.aliases),
    )


def _accelerator(label: str, entry: Entry) -> Row:
    if not isinstance(entry, Accelerator):
        raise TypeError(label)
    peak = entry.peak_tflops
    return (
        label,
        _number(entry.memory_gb),
        _number(peak.bf16),
        _number(peak.fp8),
        _number(peak.fp4),
        _number(entry.memory_bandwidth_gb_s),
        _number(entry.link_bandwidth_gb_s),
        entry.title,
    )


def _node_type(label: str, entry: Entry) -> Row:
    if not isinstance(entry, NodeType):
        raise TypeError(label)
    resource = f"{entry.fabric_resource} × {entry.fabric_resource_count}"
    price = entry.price
    return (
        label,
        entry.cloud,
        f"{entry.gpus} × {entry.accelerator}" if entry.gpus else "none",
        f"{price.usd_per_hour:,.2f}" if price else "",
        entry.fabric,
        _number(entry.network_gbit_s),
        f"{entry.cpus:,}",
        _number(entry.memory_gib),
        str(price.as_of) if price else "",
        resource if entry.fabric_resource else "",
    )


def _fabric(label: str, entry: Entry) -> Row:
    if not isinstance(entry, Fabric):
        raise TypeError(label)
    return label, str(len(entry.environment)), str(len(entry.avoid)), entry.title


def _storage(label: str, entry: Entry) -> Row:
    if not isinstance(entry, StorageTier):
        raise TypeError(label)
    numbers = (entry.mb_s_per_tib, entry.min_tib, entry.step_tib)
    return (label, entry.cloud, entry.kind, *map(_number, numbers), entry.csi_driver)


def _image(label: str, entry: Entry) -> Row:
    if not isinstance(entry, Image):
        raise TypeError(label)
    inside = entry.engine_version or "" if entry.engine_included else "installed at startup"
    published = "yes" if entry.published else "not yet"
    return label, entry.engine, inside, published, entry.reference


def _profile(label: str, entry: Entry) -> Row:
    if not isinstance(entry, Profile):
        raise TypeError(label)
    operators = ", ".join(entry.operators)
    return label, entry.default_node_type, entry.default_storage, operators, entry.title


def _component(label: str, entry: Entry) -> Row:
    if not isinstance(entry, ClusterComponent):
        raise TypeError(label)
    where = entry.repository if entry.versions else "managed by the cloud"
    return label, entry.role, ", ".join(entry.versions), where, entry.title


def _number(value: float | None) -> str:
    """Format a number for a table. Empty if it is unknown."""
    return f"{round(value, 2):,.10g}" if value else ""


_TABLES: dict[Kind, Table] = {
    Kind.MODELS: (
        (
            name("series"),
            name("name"),
            number("parameters"),
            number("layers"),
            number("hidden"),
            number("heads"),
            number("sequence"),
            name("engine", rank=2),
            text("also called", rank=1),
        ),
        _model,
    ),
    Kind.ACCELERATORS: (
        (
            name("name"),
            number("memory GB"),
            number("bf16 TFLOP/s"),
            number("fp8 TFLOP/s"),
            number("fp4 TFLOP/s", rank=2),
            number("memory GB/s", rank=1),
            number("link GB/s", rank=3),
            text("title", rank=4),
        ),
        _accelerator,
    ),
    Kind.NODE_TYPES: (
        (
            name("name"),
            name("cloud", rank=5),
            name("GPUs"),
            number("USD/h"),
            name("fabric"),
            number("Gbit/s", rank=1),
            number("CPUs", rank=3),
            number("GiB", rank=2),
            name("priced as", rank=4),
            name("pods request", rank=6),
        ),
        _node_type,
    ),
    Kind.FABRICS: ((name("name"), number("set"), number("never set"), text("title")), _fabric),
    Kind.STORAGE: (
        (
            name("name"),
            name("cloud"),
            name("kind"),
            number("MB/s per TiB"),
            number("min TiB"),
            number("increment TiB"),
            name("driver", rank=1),
        ),
        _storage,
    ),
    Kind.IMAGES: (
        (
            name("name"),
            name("engine"),
            text("version"),
            text("published"),
            name("reference", rank=1),
        ),
        _image,
    ),
    Kind.PROFILES: (
        (
            name("name"),
            name("node type"),
            name("storage"),
            text("operators", rank=1),
            text("title", rank=2),
        ),
        _profile,
    ),
    Kind.COMPONENTS: (
        (
            name("name"),
            name("role"),
            text("versions"),
            text("repository", rank=1),
            text("title", rank=2),
        ),
        _component,
    ),
}


AROUND = {"title", "source", "sources", "aliases", "note"}
"""Fields that are shown separately from an entry's facts."""
STEP = "  "


def plain(entry: Entry) -> dict[str, Any]:
    """Return an entry's facts and the values computed from them."""
    return entry.model_dump(mode="json") | dict(computed(entry))


def computed(entry: Entry) -> list[tuple[str, Any]]:
    """Return the values computed from an entry's facts."""
    if not isinstance(entry, ModelPreset):
        return []
    padded = _padded_vocab_size(entry)
    total = total_parameters(entry.architecture, padded)
    active = active_parameters(entry.architecture, padded)
    facts = [("parameters", total), ("padded_vocab_size", padded)]
    return facts if active == total else [*facts, ("active_parameters", active)]


def say_entry(name: str, entry: Entry) -> None:
    """Print an entry as YAML, with its sources as comments."""
    say_text(f"{name}   {entry.title}", rest=STEP)
    if entry.aliases:
        _say_fact("aliases", ", ".join(entry.aliases))
    if entry.note:
        _say_fact("note", entry.note)
    facts = entry.model_dump(mode="json", exclude_defaults=True, exclude=AROUND)
    if isinstance(entry, ModelPreset):
        facts.pop("architecture")
    for key, value in facts.items():
        if isinstance(entry, Fabric) and isinstance(value, list):
            _say_variables(key, value)
        else:
            _say_facts(key, value, entry.sources)
    for key, value in computed(entry):
        _say_fact(key, f"{value:,}    # computed")
    _say_fact("source", entry.source)
    if isinstance(entry, ModelPreset):
        say(f"{STEP}# To customise the model, replace preset: below model: with these fields")
        shape = entry.architecture.model_dump(mode="json", exclude_defaults=True)
        _say_facts("dimensions", shape, {})


def _say_facts(key: str, value: Any, sources: dict[str, str], indent: str = STEP) -> None:
    """Print a fact or a group of facts, with its source if the fact has a separate one."""
    deeper = indent + STEP
    is_list = isinstance(value, list)
    grouped = isinstance(value, dict) or (is_list and value and isinstance(value[0], dict))
    if grouped:
        say(f"{indent}{key}:")
    else:
        _say_fact(key, ", ".join(map(_word, value)) if is_list else _word(value), indent)
    if key in sources:
        say_text(sources[key], f"{deeper}{STEP}# ")
    if isinstance(value, dict):
        for inner, fact in value.items():
            _say_facts(inner, fact, sources, deeper)
    elif grouped:
        for item in value:
            words = ", ".join(f"{k}: {_word(v)}" for k, v in item.items())
            say_text(f"- {{{words}}}", deeper, deeper + STEP)


def _say_fact(key: str, text: str, indent: str = STEP) -> None:
    """Print one fact, wrapped and indented."""
    say_text(f"{key}: {text}", indent, indent + STEP * 2)


def _word(value: Any) -> str:
    """Format a value as YAML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        # YAML 1.1 reads 6e-05 as a string, and 6.0e-05 as a number.
        text = f"{value:.10g}"
        return text.replace("e", ".0e") if "e" in text and "." not in text else text
    return str(value)


def _say_variables(key: str, variables: list[dict[str, Any]]) -> None:
    """Print environment variables with reason, source and node types."""
    say(f"{STEP}{key}:    # {'never set these' if key == 'avoid' else 'set these'}")
    for variable in variables:
        value = variable.get("value", "")
        say_text(f"{variable['name']} = {value}" if value else variable["name"], STEP * 2)
        say_text(variable["why"], STEP * 3)
        if "node_types" in variable:
            say_text(", ".join(variable["node_types"]), f"{STEP * 3}node types: ", STEP * 4)
        say_text(variable["source"], f"{STEP * 3}source: ", STEP * 4)


app = typer.Typer(
    help="Look up models, accelerators, node types, fabrics, storage, images, profiles and cluster "
    "components.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)


def _names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the names of a kind."""
    kind = ctx.params.get("kind")
    names = default_catalog().names(_kind(kind)) if kind else []
    return [name for name in names if name.startswith(incomplete)]


def _kinds(incomplete: str) -> list[str]:
    return [kind for kind in Kind if kind.startswith(incomplete)]


def _kind(name: str) -> Kind:
    try:
        return Kind(name)
    except ValueError:
        match = nearest(name, Kind)
        hint = f"Did you mean {match}?" if match else f"Use one of: {', '.join(Kind)}."
        raise UsageError(f"the catalog has no kind {name!r}. {hint}") from None


_FLAGS = {Kind.MODELS: "--model", Kind.PROFILES: "--profile", Kind.NODE_TYPES: "--node-type"}
"""The flags of `seatrial init` that accept a catalog entry."""
KIND = typer.Argument(metavar="KIND", autocompletion=_kinds, help=", ".join(Kind))


@app.command("list", epilog=examples("seatrial catalog list", "seatrial catalog list models"))
def list_entries(
    kind: Annotated[str | None, KIND] = None,
    as_json: Json = False,
) -> None:
    """List the kinds of entries in the catalog, or all entries of one kind."""
    catalog = default_catalog()
    if kind is None:
        _list_kinds(catalog, as_json)
        return
    chosen = _kind(kind)
    entries = {name: catalog.entry(chosen, name) for name in catalog.names(chosen)}
    if as_json:
        say_json([{"name": name} | plain(entry) for name, entry in entries.items()])
        return
    if chosen is Kind.MODELS:
        _say_models(entries)
    else:
        columns, row = table_of(chosen)
        tables.say_table(columns, [row(name, entry) for name, entry in entries.items()])
    example = next(iter(entries))
    say()
    say_text(f"next  seatrial catalog show {kind} {example}", rest="  ")


def _by_series(entries: dict[str, Entry]) -> dict[str, ModelPreset]:
    """Return models by series, in order of first appearance, and by size in each series."""
    models = {n: entry for n, entry in entries.items() if isinstance(entry, ModelPreset)}
    order = list(dict.fromkeys(entry.series for entry in models.values()))

    def place(item: tuple[str, ModelPreset]) -> tuple[int, int]:
        shape = item[1].architecture
        return order.index(item[1].series), total_parameters(shape, shape.vocab_size)

    return {name: models[name] for name, _ in sorted(models.items(), key=place)}


def _say_models(entries: dict[str, Entry]) -> None:
    """Print the table of models; each series is named once."""
    columns, row = table_of(Kind.MODELS)
    rows: list[Row] = []
    series = None
    for label, entry in _by_series(entries).items():
        cells = row(label, entry)
        rows.append(cells if cells[0] != series else ("", *cells[1:]))
        series = cells[0]
    tables.say_table(columns, rows)
    if any(isinstance(entry, ModelPreset) and not entry.verified for entry in entries.values()):
        say("* not verified: no primary source was found")


def _list_kinds(catalog: Catalog, as_json: bool) -> None:
    docs = field_docs(Kind)
    kinds = [(str(kind), len(catalog.names(kind)), docs[kind.name]) for kind in Kind]
    if as_json:
        say_json([{"kind": k, "entries": n, "about": about} for k, n, about in kinds])
        return
    columns = (tables.name("kind"), tables.number("entries"), tables.text("about"))
    tables.say_table(columns, [(k, str(n), about) for k, n, about in kinds])
    say("\nnext  seatrial catalog list models")


@app.command(
    epilog=examples(
        "seatrial catalog show models llama3-8b", "seatrial catalog show node-types p5.48xlarge"
    )
)
def show(
    kind: Annotated[str, KIND],
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", autocompletion=_names, help="Name or alias.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show an entry with every fact and its source, or all entries of a kind."""
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
    # The output is YAML for a spec or a catalog, so the next step goes to standard error.
    say_next(f"seatrial {wanted}")


@app.command(epilog=examples("seatrial catalog check", "seatrial catalog check --json"))
def check(as_json: Json = False) -> None:
    """Check every entry in the catalog, including the entries in your own directory."""
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
