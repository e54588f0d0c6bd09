# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The questions of `seatrial init --interactive`; each answer is checked before the next."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import typer

from seatrial.catalog.catalog import Catalog, Kind
from seatrial.cli.output import say_text
from seatrial.errors import FindingsError, NotInCatalogError, UsageError
from seatrial.naming import as_dns_label
from seatrial.recipes.starter import PROCESSES_WITHOUT_GPUS, Wishes, starter, usual

FLAGS = {
    "name": "--name",
    "model.preset": "--model",
    "data.sources[0].from": "--data",
    "data.tokenizer": "--tokenizer",
    "training.tokens": "--tokens",
    "cluster.profile": "--profile",
    "cluster.node_type": "--node-type",
    "cluster.nodes": "--nodes",
    "cluster.processes_per_node": "--processes-per-node",
}
"""The flag that each field of a new spec comes from."""

LARGEST = 1_000_000
"""More machines than anybody has; beyond it a number is a slip of the keyboard."""


def whole_number(text: str) -> int:
    """A count of machines or processes."""
    if not text.strip().isdecimal() or not 1 <= int(text) <= LARGEST:
        raise ValueError(f"{text!r} is not a whole number from 1 to {LARGEST:,}.")
    return int(text)


def interview(wishes: Wishes, catalog: Catalog) -> Wishes:
    """Ask for each value, offering the one that flags or defaults give."""
    if not sys.stdin.isatty():
        raise UsageError("--interactive needs a terminal. Give the values as flags instead.")
    asking = _Interview(wishes, catalog)
    asking.model()
    asking.machines()
    asking.data()
    asking.run()
    return asking.wishes


@dataclass
class _Interview:
    """The wishes as they grow, answer by answer."""

    wishes: Wishes
    catalog: Catalog

    def model(self) -> None:
        """The preset, after which the run is named unless a name was given."""
        before = self.wishes.model
        names = self.catalog.names(Kind.MODELS)
        answer = self.ask_name("Model", before, Kind.MODELS, names)
        named_after = self.wishes.name == as_dns_label(before)
        name = as_dns_label(answer) if named_after else self.wishes.name
        self.wishes = replace(self.wishes, model=answer, name=name)

    def machines(self) -> None:
        """The profile, and of its machines which and how many."""
        profiles = self.catalog.names(Kind.PROFILES)
        answer = self.ask_name("Kind of cluster", self.wishes.profile, Kind.PROFILES, profiles)
        profile = self.catalog.profile(answer)
        given = self.wishes.node_type
        default = given if given in profile.node_types else profile.default_node_type
        node_type = self.ask_name("Node type", default, Kind.NODE_TYPES, list(profile.node_types))
        self.wishes = replace(self.wishes, profile=answer, node_type=node_type)
        nodes = _ask("Nodes", str(self.wishes.nodes), whole_number)
        self.wishes = replace(self.wishes, nodes=nodes)
        if not self.catalog.node_type(node_type).gpus:
            default = str(self.wishes.processes_per_node or PROCESSES_WITHOUT_GPUS)
            processes = _ask("Processes on each node", default, whole_number)
            self.wishes = replace(self.wishes, processes_per_node=processes)

    def data(self) -> None:
        """The raw text and the tokenizer."""
        question = "Raw text (address, or empty for mock data)"
        self.ask_field(question, "data", "data.sources[0].from", self.wishes.data or "")
        own = self.catalog.model(self.wishes.model).tokenizer
        default = self.wishes.tokenizer or own
        self.ask_field("Tokenizer", "tokenizer", "data.tokenizer", default)

    def run(self) -> None:
        """The length and the name."""
        profile = self.catalog.profile(self.wishes.profile)
        tokens = usual(profile).tokens if self.wishes.tokens is None else self.wishes.tokens
        self.ask_field("Tokens to train on", "tokens", "training.tokens", tokens)
        self.ask_field("Name of the run", "name", "name", self.wishes.name)

    def ask_name(self, question: str, default: str, kind: Kind, names: list[str]) -> str:
        """Ask until the answer is one of the names, or an alias of one."""

        def known(answer: str) -> str:
            if answer == "?":
                raise ValueError(", ".join(names))
            try:
                if self.catalog.canonical(kind, answer) in names:
                    return answer
            except NotInCatalogError as error:
                raise ValueError(str(error)) from None
            raise ValueError(f"This kind of cluster has no {answer}. Use {', '.join(names)}.")

        return _ask(f"{question} (? lists them)", default, known)

    def ask_field(self, question: str, wish: str, field: str, default: str) -> None:
        """Ask until the spec takes the answer for the field."""

        def accepted(answer: str) -> Wishes:
            changes: dict[str, Any] = {wish: answer or None}
            wishes = replace(self.wishes, **changes)
            problem = _problem(wishes, field, self.catalog)
            if problem:
                raise ValueError(problem)
            return wishes

        self.wishes = _ask(question, default, accepted)


def _ask[T](question: str, default: str, read: Callable[[str], T]) -> T:
    """Ask until the answer can be read; what is wrong with it is said at once."""
    while True:
        answer: str = typer.prompt(question, default)
        try:
            return read(answer.strip())
        except ValueError as error:
            say_text(str(error), "  ")


def _problem(wishes: Wishes, field: str, catalog: Catalog) -> str:
    """What the spec says of a field of the wishes; nothing when it takes it."""
    try:
        starter(wishes, catalog)
    except FindingsError as error:
        found = [f for f in error.findings if f.where.field == field]
        return " ".join(f"{finding.rule} {finding.fix}" for finding in found)
    return ""
