# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The catalog: shipped facts, and user directories that extend or override them."""

import os
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic import ValidationError

from seatrial.catalog.accelerators import Accelerator
from seatrial.catalog.components import ClusterComponent
from seatrial.catalog.entry import Entry
from seatrial.catalog.entry import Kind as Kind
from seatrial.catalog.fabrics import Fabric
from seatrial.catalog.images import Image
from seatrial.catalog.models import ModelPreset
from seatrial.catalog.node_types import HOST, NodeType, host_gpus
from seatrial.catalog.profiles import Profile
from seatrial.catalog.reading import (
    RawEntry,
    file_names,
    merge_facts,
    missing_directories,
    place,
    read_kind,
    stray_files,
)
from seatrial.catalog.storage import StorageTier
from seatrial.catalog.validation_errors import invalid
from seatrial.codes.catalog import CatalogCode as CatalogCode
from seatrial.codes.catalog import problem
from seatrial.errors import FindingsError, NotInCatalogError, UnreadableError, UsageError
from seatrial.findings import Finding
from seatrial.naming import nearest, of_size
from seatrial.spec.tree import dotted


def stray_defaults(entry: Entry) -> Iterator[tuple[str, str, str]]:
    """Yield defaults that are not among their choices: default, its fact, the fact with choices."""
    if isinstance(entry, Profile):
        if entry.default_node_type not in entry.node_types:
            yield entry.default_node_type, "default_node_type", "node_types"
        if entry.default_storage not in entry.storage:
            yield entry.default_storage, "default_storage", "storage"


SHIPPED = Path(__file__).parent / "data"
"""The facts that ship with Seatrial."""

ENTRY_TYPES: dict[Kind, type[Entry]] = {
    Kind.MODELS: ModelPreset,
    Kind.ACCELERATORS: Accelerator,
    Kind.NODE_TYPES: NodeType,
    Kind.FABRICS: Fabric,
    Kind.STORAGE: StorageTier,
    Kind.IMAGES: Image,
    Kind.PROFILES: Profile,
    Kind.COMPONENTS: ClusterComponent,
}


class Catalog:
    """Facts by kind and name; entries are validated on access."""

    def __init__(self, directories: Iterable[Path] = ()) -> None:
        """Use the shipped facts and those in each directory; later directories take precedence."""
        self._own = tuple(directories)
        self._raw: dict[Kind, dict[str, RawEntry]] = {}

    def own_files(self) -> dict[str, str]:
        """Return the user's files by name, for a host that only has the shipped facts."""
        names = [name for kind in Kind for name in file_names(kind)]
        files = [directory / name for directory in self._own for name in names]
        return {file.name: file.read_text("utf-8") for file in files if file.is_file()}

    def names(self, kind: Kind) -> list[str]:
        """Return the names of all entries of a kind, in file order."""
        return list(self._entries(kind))

    def origin(self, kind: Kind, name: str) -> Path:
        """Return the last file that defines or overrides an entry."""
        return self._entries(kind)[self.canonical(kind, name)].file

    def canonical(self, kind: Kind, name: str) -> str:
        """Resolve an alias to the entry's name; raise NotInCatalogError if there is none."""
        entries = self._entries(kind)
        if name in entries:
            return name
        for candidate, raw in entries.items():
            if name in raw.aliases:
                return candidate
        if kind is Kind.MODELS and (found := self._on_the_hub(name)):
            return found
        match = self._nearest(kind, name)
        having = self._machines_with(name) if kind is Kind.NODE_TYPES else []
        meant = self._meant(kind, name) or ([match] if match else [])
        hint = f"To list the names, run seatrial catalog list {kind}."
        if meant:
            hint = f"Did you mean {' or '.join(meant)}?"
        if having:
            hint = f"Node types with this GPU: {', '.join(having)}."
        raise NotInCatalogError(f"There is no {kind.singular} {name!r} in the catalog.", hint)

    def entry(self, kind: Kind, name: str) -> Entry:
        """Return the validated entry with this name or alias."""
        gpus = host_gpus(name) if kind is Kind.NODE_TYPES else None
        if gpus is not None:
            return self.node_type(HOST).with_gpus(*gpus)
        name = self.canonical(kind, name)
        raw = self._entries(kind)[name]
        try:
            return ENTRY_TYPES[kind].model_validate(_with_published(name, raw))
        except ValidationError as error:
            found = invalid(error, kind, name, ENTRY_TYPES[kind], raw.file)
            raise FindingsError(found) from None

    def model(self, name: str) -> ModelPreset:
        """Return the model preset with this name; raise NotInCatalogError if there is none."""
        return _typed(self.entry(Kind.MODELS, name), ModelPreset)

    def unlisted_model(self, address: str) -> ModelPreset:
        """Return a model by the address of its config.json; the Hub is asked if need be."""
        return _typed(_published().unlisted_model(address, self._own), ModelPreset)

    def model_files(self, address: str | None) -> dict[str, str]:
        """Return the config.json of a run's model by its file name, for the run's pods."""
        return {} if address is None else _published().model_files(address, self._own)

    def accelerator(self, name: str) -> Accelerator:
        """Return the accelerator with this name; raise NotInCatalogError if there is none."""
        return _typed(self.entry(Kind.ACCELERATORS, name), Accelerator)

    def node_type(self, name: str) -> NodeType:
        """Return the node type with this name; raise NotInCatalogError if there is none."""
        return _typed(self.entry(Kind.NODE_TYPES, name), NodeType)

    def fabric(self, name: str) -> Fabric:
        """Return the fabric with this name; raise NotInCatalogError if there is none."""
        return _typed(self.entry(Kind.FABRICS, name), Fabric)

    def storage(self, name: str) -> StorageTier:
        """Return the storage tier with this name; raise NotInCatalogError if there is none."""
        return _typed(self.entry(Kind.STORAGE, name), StorageTier)

    def image(self, name: str) -> Image:
        """Return an image by its name, or by its reference with tag or digest."""
        for known in self._entries(Kind.IMAGES) if ":" in name else ():
            found = _typed(self.entry(Kind.IMAGES, known), Image)
            if name.removeprefix("docker.io/") in found.references:
                return found
        return _typed(self.entry(Kind.IMAGES, name), Image)

    def profile(self, name: str) -> Profile:
        """Return the cluster profile with this name; raise NotInCatalogError if there is none."""
        return _typed(self.entry(Kind.PROFILES, name), Profile)

    def component(self, name: str) -> ClusterComponent:
        """Return the component with this name; raise NotInCatalogError if there is none."""
        return _typed(self.entry(Kind.COMPONENTS, name), ClusterComponent)

    def check(self) -> list[Finding]:
        """Check directories, files, entries and references; return all findings."""
        found = missing_directories(self._own) + stray_files(self._own, Kind)
        sound: list[tuple[Kind, str, Entry]] = []
        readable: set[Kind] = set()
        for kind in Kind:
            try:
                names = list(self._read(kind))
            except FindingsError as error:
                found += error.findings
                continue
            except UnreadableError as error:
                found.append(error.finding)
                continue
            readable.add(kind)
            for name in names:
                try:
                    sound.append((kind, name, self.entry(kind, name)))
                except FindingsError as error:
                    found += error.findings
        for kind, name, entry in sound:
            found += self._dangling(kind, name, entry, readable)
        return found

    def _dangling(
        self, kind: Kind, name: str, entry: Entry, readable: set[Kind]
    ) -> Iterable[Finding]:
        """Yield a finding for each reference from an entry to an entry that does not exist."""
        file = self._entries(kind)[name].file
        for facts, target, wanted in entry.named_entries():
            if target not in readable or self._has(target, wanted):
                continue
            where = place(file, name, dotted((name, *facts)), facts)
            rule = f"the {kind.singular} {name} refers to the {target.singular} {wanted!r}, "
            rule += "which is not in the catalog."
            match = self._nearest(target, wanted)
            fix = (
                f"Did you mean {match}?"
                if match
                else f"To list the names, run seatrial catalog list {target}."
            )
            yield problem(CatalogCode.DANGLING, where, rule, fix, wanted)
        for default, fact, choices in stray_defaults(entry):
            where = place(file, name, dotted((name, fact)), (fact,))
            rule = f"the default {default} of the {kind.singular} {name} is not in its {choices}."
            fix = f"Add the default to {choices}, or choose a default from {choices}."
            yield problem(CatalogCode.DANGLING, where, rule, fix, default)

    def _has(self, kind: Kind, name: str) -> bool:
        """Return True if there is an entry with this name or alias."""
        entries = self._entries(kind)
        return name in entries or any(name in raw.aliases for raw in entries.values())

    def _nearest(self, kind: Kind, name: str) -> str | None:
        """Return the name or alias that a misspelt name most likely means, or None."""
        entries = self._entries(kind)
        return nearest(name, [*entries, *(a for raw in entries.values() for a in raw.aliases)])

    def _meant(self, kind: Kind, name: str) -> list[str]:
        """Return the entries that a cloud name or a model size may refer to."""
        entries = self._entries(kind)
        if kind is Kind.PROFILES:
            word = name.lower().replace("_", "-")
            cloud = next((cloud for cloud, words in _CLOUD_WORDS.items() if word in words), None)
            found = {each: raw for each, raw in entries.items() if raw.facts.get("cloud") == cloud}
            # Machines on premises have their own profiles.
            hosts = [each for each, raw in found.items() if "torchrun" in raw.facts["operators"]]
            return hosts or list(found)
        return of_size(name, entries) if kind is Kind.MODELS else []

    def _on_the_hub(self, name: str) -> str | None:
        """Return the preset of a model by its name on the Hub, in any case."""
        wanted = name.lower().removeprefix("hf://")
        for candidate, raw in self._entries(Kind.MODELS).items():
            if wanted in (candidate, str(raw.facts.get("huggingface", "")).lower()):
                return candidate
        return None

    def _machines_with(self, accelerator: str) -> list[str]:
        """Return the node types with this GPU, for users who name a GPU instead of a node type."""
        wanted = accelerator.lower()
        return [
            name
            for name, raw in self._entries(Kind.NODE_TYPES).items()
            if wanted and str(raw.facts.get("accelerator", "")).split("-")[0] == wanted
        ]

    def _entries(self, kind: Kind) -> dict[str, RawEntry]:
        """Return the merged raw entries of a kind; raise if a user's file would be ignored."""
        if kind not in self._raw:
            strays = stray_files(self._own, Kind)
            if strays:
                raise FindingsError(strays)
        return self._read(kind)

    def _read(self, kind: Kind) -> dict[str, RawEntry]:
        """Return the merged raw entries of a kind; files are read only once."""
        if kind not in self._raw:
            known = {*ENTRY_TYPES[kind].model_fields, "like"}
            self._raw[kind] = read_kind(kind, known, (SHIPPED, *self._own))
        return self._raw[kind]


_CLOUD_WORDS = {
    "aws": ("aws", "amazon", "ec2", "sagemaker"),
    "azure": ("azure", "microsoft", "az"),
    "google": ("gcp", "google", "google-cloud", "gce"),
    "local": ("localhost", "host", "laptop", "cpu", "this-host"),
}
"""Words that users write instead of a profile, by the cloud that they refer to."""


def _published() -> ModuleType:
    """Return the module that reads config.json files; most commands start faster without it."""
    return import_module("seatrial.catalog.published")


def _with_published(name: str, raw: RawEntry) -> dict[str, Any]:
    """Return the facts of an entry, with the dimensions of the config.json that it names."""
    if not isinstance(config := raw.facts.get("config"), str):
        return raw.facts
    try:
        published = _published().published_facts(config, raw.facts.get("without", ()))
    except OSError:
        where = place(raw.file, name, dotted((name, "config")), ("config",))
        near = nearest(config, [file.stem for file in _published().CONFIGS.glob("*.json")])
        fix = f"Did you mean {near}?" if near else "Remove config, and set architecture."
        rule = f"there is no published configuration {config!r}."
        raise FindingsError([problem(CatalogCode.INVALID, where, rule, fix, config)]) from None
    return merge_facts(published, raw.facts)


def _typed[T: Entry](entry: Entry, wanted: type[T]) -> T:
    """Narrow the type of an entry."""
    if not isinstance(entry, wanted):
        raise TypeError(f"{entry.title} is not a {wanted.__name__}")
    return entry


def user_directory() -> Path:
    """Return the user's catalog directory: SEATRIAL_CATALOG, or the default directory."""
    chosen = os.environ.get("SEATRIAL_CATALOG")
    if chosen:
        return Path(chosen).expanduser()
    settings = os.environ.get("XDG_CONFIG_HOME")
    return (Path(settings) if settings else Path.home() / ".config") / "seatrial" / "catalog"


@cache
def default_catalog() -> Catalog:
    """Return the shipped catalog, extended by the user's directory."""
    directory = user_directory()
    # An explicitly named directory must exist; the default one is optional.
    if os.environ.get("SEATRIAL_CATALOG") and not directory.is_dir():
        raise UsageError(
            f"SEATRIAL_CATALOG is set to {directory}, which is not a directory. "
            "Correct the path, or unset the variable."
        )
    return Catalog([directory] if directory.is_dir() else [])
