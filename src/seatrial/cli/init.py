# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial init`: write a new spec, from flags or from answers to questions."""

import re
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from seatrial.catalog.catalog import Catalog, Kind, default_catalog
from seatrial.catalog.published import published_model
from seatrial.checks.check import check
from seatrial.cli.options import Force, examples
from seatrial.codes.huggingface import HubConfigCode
from seatrial.errors import FindingsError, NotInCatalogError, UnreadableError, UsageError
from seatrial.findings import Finding, Severity, Where
from seatrial.huggingface.download import commit_of
from seatrial.huggingface.locate import CONFIG
from seatrial.naming import as_dns_label
from seatrial.recipes.starter import (
    PROCESSES_WITHOUT_GPUS,
    Starter,
    Wishes,
    chosen_model,
    starter,
    usual,
)
from seatrial.reports.terminal import say, say_findings, say_text
from seatrial.sdk.output_files import refuse_existing, write_new

FLAGS = {
    "name": "--name",
    "model.preset": "--model",
    "model.huggingface": "--model",
    "data.sources[0].from": "--data",
    "data.tokenizer": "--tokenizer",
    "training.tokens": "--tokens",
    "cluster.profile": "--profile",
    "cluster.node_type": "--node-type",
    "cluster.accelerator": "--accelerator",
    "cluster.nodes": "--nodes",
    "cluster.processes_per_node": "--processes-per-node",
}
"""The flag that sets each field of a new spec."""

LARGEST = 1_000_000
"""A larger number is a typo: nobody has that many machines."""


def whole_number(text: str) -> int:
    """Read a count of machines or processes."""
    if not text.strip().isdecimal() or not 1 <= int(text) <= LARGEST:
        raise ValueError(f"{text!r} is not a whole number from 1 to {LARGEST:,}.")
    return int(text)


def interview(wishes: Wishes, catalog: Catalog) -> Wishes:
    """Ask for each value. The flags and defaults are the suggested answers."""
    if not sys.stdin.isatty():
        raise UsageError("--interactive needs a terminal. Pass the values as flags instead.")
    asking = _Interview(wishes, catalog)
    asking.model()
    asking.machines()
    asking.data()
    asking.run()
    return asking.wishes


@dataclass
class _Interview:
    """The current values; each answer adds one."""

    wishes: Wishes
    catalog: Catalog

    def model(self) -> None:
        """Ask for the model. The run is named after the model unless the user set a name."""
        if self.wishes.huggingface is not None:
            return
        before = self.wishes.model
        names = self.catalog.names(Kind.MODELS)
        answer = self.ask_name("Model", before, Kind.MODELS, names)
        named_after = self.wishes.name == as_dns_label(before)
        name = as_dns_label(answer) if named_after else self.wishes.name
        self.wishes = replace(self.wishes, model=answer, name=name)

    def machines(self) -> None:
        """Ask for the profile, the node type and the number of nodes."""
        profiles = self.catalog.names(Kind.PROFILES)
        answer = self.ask_name("Cluster profile", self.wishes.profile, Kind.PROFILES, profiles)
        profile = self.catalog.profile(answer)
        given = self.wishes.node_type
        default = given if given in profile.node_types else profile.default_node_type
        node_type = self.ask_name("Node type", default, Kind.NODE_TYPES, list(profile.node_types))
        self.wishes = replace(self.wishes, profile=answer, node_type=node_type)
        nodes = _ask("Nodes", str(self.wishes.nodes), whole_number)
        self.wishes = replace(self.wishes, nodes=nodes)
        if not self.catalog.node_type(node_type).gpus:
            default = str(self.wishes.processes_per_node or PROCESSES_WITHOUT_GPUS)
            processes = _ask("Processes per node", default, whole_number)
            self.wishes = replace(self.wishes, processes_per_node=processes)

    def data(self) -> None:
        """Ask for the raw text and the tokenizer."""
        question = "Raw text (URL or path; empty for mock data)"
        self.ask_field(question, "data", "data.sources[0].from", self.wishes.data or "")
        own = chosen_model(self.wishes, self.catalog).tokenizer
        default = self.wishes.tokenizer or own
        self.ask_field("Tokenizer", "tokenizer", "data.tokenizer", default)

    def run(self) -> None:
        """Ask for the length and the name."""
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
            raise ValueError(
                f"This cluster profile has no {answer}. Use one of {', '.join(names)}."
            )

        return _ask(f"{question} (? lists them)", default, known)

    def ask_field(self, question: str, wish: str, field: str, default: str) -> None:
        """Ask until the answer is valid for the field."""

        def accepted(answer: str) -> Wishes:
            changes: dict[str, Any] = {wish: answer or None}
            wishes = replace(self.wishes, **changes)
            problem = _problem(wishes, field, self.catalog)
            if problem:
                raise ValueError(problem)
            return wishes

        self.wishes = _ask(question, default, accepted)


def _ask[T](question: str, default: str, read: Callable[[str], T]) -> T:
    """Ask until the answer is valid; report what is wrong with each invalid one."""
    while True:
        answer: str = typer.prompt(question, default)
        try:
            return read(answer.strip())
        except ValueError as error:
            say_text(str(error), "  ")


def _problem(wishes: Wishes, field: str, catalog: Catalog) -> str:
    """Return the problem with a field of the new spec. Empty if it is valid."""
    try:
        starter(wishes, catalog)
    except FindingsError as error:
        found = [f for f in error.findings if f.where.field == field]
        return " ".join(f"{finding.rule} {finding.fix}" for finding in found)
    return ""


app = typer.Typer(rich_markup_mode=None, add_completion=False)


def _complete(kind: Kind) -> object:
    """Complete the names of a kind."""

    def names(incomplete: str) -> list[str]:
        return [n for n in default_catalog().names(kind) if n.startswith(incomplete)]

    return names


def _number(given: str | int) -> int:
    """Read the number of a flag or its default."""
    try:
        return whole_number(str(given))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


Output = Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.")]
Model = Annotated[
    str | None,
    typer.Option(
        autocompletion=_complete(Kind.MODELS),
        help="Model preset, OWNER/NAME@REVISION on the Hugging Face Hub, or the path of a "
        "config.json. Default: stories-260k on this host, gpt3-125m elsewhere.",
    ),
]
Profile = Annotated[
    str,
    typer.Option(
        autocompletion=_complete(Kind.PROFILES), help="Cluster profile: local, eks, aks, gke, ..."
    ),
]
NodeType = Annotated[
    str | None,
    typer.Option(
        autocompletion=_complete(Kind.NODE_TYPES), help="Node type. Default: the profile's."
    ),
]
Accelerator = Annotated[
    str | None,
    typer.Option(
        autocompletion=_complete(Kind.ACCELERATORS),
        metavar="GPU",
        help="GPU of this host (profile local), or none. Default: the detected one.",
    ),
]
Nodes = Annotated[int, typer.Option(parser=_number, metavar="N", help="Number of nodes.")]
Processes = Annotated[
    int | None,
    typer.Option(
        "--processes-per-node",
        parser=_number,
        metavar="N",
        help="Processes per node. Default: one per GPU, or 2 without GPUs.",
    ),
]
Data = Annotated[
    str | None, typer.Option(help="Raw text: hf://datasets/..., s3://, abfs://, gs:// or a path.")
]
Tokenizer = Annotated[str | None, typer.Option(help="hf://NAME or a file. Default: the preset's.")]
Tokens = Annotated[
    str | None, typer.Option(help="Tokens to train on. Default: 300k on this host, 10B elsewhere.")
]
Name = Annotated[str | None, typer.Option(help="Name of the run. Default: the model's name.")]
Interactive = Annotated[bool, typer.Option("--interactive", "-i", help="Ask for each value.")]


@app.command(
    epilog=examples(
        "seatrial init",
        "seatrial init --profile eks --model llama3-8b --nodes 4 run.yaml",
        "seatrial init --model Qwen/Qwen3-8B@main --profile eks",
        "seatrial init --accelerator h100-80gb --processes-per-node 8",
    )
)
def command(
    output: Output = Path("run.yaml"),
    model: Model = None,
    profile: Profile = "local",
    node_type: NodeType = None,
    accelerator: Accelerator = None,
    nodes: Nodes = 1,
    processes: Processes = None,
    data: Data = None,
    tokenizer: Tokenizer = None,
    tokens: Tokens = None,
    name: Name = None,
    interactive: Interactive = False,
    force: Force = False,
) -> None:
    """Write a short, commented run.yaml. The planner chooses layout, batch size and saves."""
    refuse_existing(output, force=force)
    catalog = default_catalog()
    model = usual(catalog.profile(profile)).model if model is None else model
    model, label, huggingface = _named_model(model, catalog)
    wishes = Wishes(
        name=as_dns_label(label) if name is None else name,
        model=model,
        huggingface=huggingface,
        profile=profile,
        node_type=node_type,
        accelerator=accelerator,
        nodes=nodes,
        processes_per_node=processes,
        data=data,
        tokenizer=tokenizer,
        tokens=tokens,
        volume=_volume(output),
    )
    if interactive:
        wishes = interview(wishes, catalog)
    new = _made(wishes, catalog)
    is_taken = not output.exists() and (output.parent / ".seatrial" / wishes.name).is_dir()
    write_new(output, new.text, force=force)
    host = f"{new.node_type}, {wishes.accelerator}" if wishes.accelerator else new.node_type
    machines = f"{wishes.nodes:,} × {host} ({wishes.profile})"
    say_text(f"Wrote {output}: {wishes.model} on {machines}.", rest="  ")
    if is_taken:
        say_text(
            f"This directory already has a run named {wishes.name}. Runs with the same name share "
            f"plan, attempts and checkpoints. To keep them apart, change name: in {output}.",
            rest="  ",
        )
    if wishes.profile == "local":
        for path in _not_there(wishes.data, wishes.tokenizer):
            say_text(f"{path} does not exist yet. Create it before the run starts.", rest="  ")
    refused = _errors(new, output, catalog)
    if refused:
        say_text(f"seatrial launch would reject this run. Change {output} first:", rest="  ")
        say_findings(refused, sys.stdout)
    say(f"next  seatrial plan {output}")


def _named_model(given: str, catalog: Catalog) -> tuple[str, str, str | None]:
    """Return a model's name, a label for its run, and the address of its config.json if unlisted.

    The catalog comes before a directory of the same name, unless the path starts with ./ or /. A
    revision on the Hub is resolved to its commit, so that the spec stays the same.
    """
    if given.startswith((".", "/", "~")) or given.endswith(".json"):
        return _model_at_path(given)
    name, _, revision = given.removeprefix("hf://").partition("@")
    if not revision:
        with suppress(NotInCatalogError):
            listed = catalog.canonical(Kind.MODELS, name)
            name = listed if "/" in given else given
            return name, name, None
    if (Path(given) / CONFIG).is_file():
        return _model_at_path(given)
    if "/" not in given:
        with suppress(OSError):
            # Some published configurations are of types that are not supported: say why.
            published_model(given.lower())
        return given, given, None
    if not re.fullmatch("[0-9a-f]{40}", revision):
        revision = commit_of(name, revision or "main")
    return name, name.rpartition("/")[2], f"{name}@{revision}"


def _model_at_path(given: str) -> tuple[str, str, str]:
    """Return the name, the label and the address of a model in a file or directory."""
    file = Path(given).expanduser()
    where = file.parent if file.suffix == ".json" else file
    # A relative directory could be read as a name on the Hub.
    address = str(file) if file.is_absolute() or file.suffix == ".json" else f"./{file}"
    return given, where.absolute().name or "model", address


def _errors(new: Starter, output: Path, catalog: Catalog) -> list[Finding]:
    """Return the errors for which plan, render and launch would reject the new spec."""
    findings = check(new.text, str(output), catalog).findings
    return [finding for finding in findings if finding.severity is Severity.ERROR]


def _not_there(*places: str | None) -> list[str]:
    """Return the local paths that do not exist."""
    paths = [place for place in places if place and "://" not in place]
    return [path for path in paths if not Path(path).exists()]


def _volume(output: Path) -> str | None:
    """Return a directory next to the file, or `None` if a spec cannot contain its path."""
    directory = str(output.absolute().parent / "volume")
    return directory if re.fullmatch(r"[\w./+@%~-]+", directory) else None


def _made(wishes: Wishes, catalog: Catalog) -> Starter:
    """Make the spec. Findings name flags, because there is no file yet."""
    try:
        return starter(wishes, catalog)
    except FindingsError as error:
        raise FindingsError([_about_flag(finding) for finding in error.findings]) from None
    except UnreadableError as error:
        raise FindingsError([_about_flag(error.finding)]) from None


def _about_flag(finding: Finding) -> Finding:
    """Replace the finding's location in the file with the flag."""
    if finding.where.file and finding.code in list(HubConfigCode):
        # About a field of the config.json.
        return finding
    flag = FLAGS.get(finding.where.field, finding.where.field)
    return replace(finding, where=Where(field=flag))
