# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""One entry of the catalog, for a person and for a program."""

from typing import Any

from seatrial.catalog.entry import Entry
from seatrial.catalog.fabrics import Fabric
from seatrial.catalog.models import ModelPreset
from seatrial.cli.output import say, say_text
from seatrial.planning.parameters import active_parameters, padded_vocab_size, total_parameters

AROUND = {"title", "source", "sources", "aliases", "note"}
"""Facts about an entry that stand around its others."""
STEP = "  "


def plain(entry: Entry) -> dict[str, Any]:
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


def say_entry(name: str, entry: Entry) -> None:
    """Print an entry as YAML would have it, sources as comments."""
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
        say(f"{STEP}# The model in a spec, to change it: below model:, in place of preset")
        shape = entry.architecture.model_dump(mode="json", exclude_defaults=True)
        _say_facts("dimensions", shape, {})


def _say_facts(key: str, value: Any, sources: dict[str, str], indent: str = STEP) -> None:
    """A fact, or a group of facts indented below its name; a source of its own goes below."""
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
    """One fact; what does not fit its line goes on below, further in."""
    say_text(f"{key}: {text}", indent, indent + STEP * 2)


def _word(value: Any) -> str:
    """A value as YAML would have it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        # 6e-05 is a number in YAML 1.2 only; 6.0e-05 is one for every reader.
        text = f"{value:.10g}"
        return text.replace("e", ".0e") if "e" in text and "." not in text else text
    return str(value)


def _say_variables(key: str, variables: list[dict[str, Any]]) -> None:
    """Environment variables, each with its reason, its source and where it holds."""
    say(f"{STEP}{key}:    # {'never set these' if key == 'avoid' else 'set these'}")
    for variable in variables:
        value = variable.get("value", "")
        say_text(f"{variable['name']} = {value}" if value else variable["name"], STEP * 2)
        say_text(variable["why"], STEP * 3)
        if "node_types" in variable:
            say_text(", ".join(variable["node_types"]), f"{STEP * 3}node types: ", STEP * 4)
        say_text(variable["source"], f"{STEP * 3}source: ", STEP * 4)
