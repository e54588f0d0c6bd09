# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The catalog: shipped facts, and a user's own directory that adds to them or replaces them."""

import os
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from seatrial.catalog.accelerators import Accelerator
from seatrial.catalog.entry import Entry
from seatrial.catalog.fabrics import Fabric
from seatrial.catalog.images import Image
from seatrial.catalog.models import ModelPreset
from seatrial.catalog.node_types import NodeType
from seatrial.catalog.profiles import Profile
from seatrial.catalog.storage import StorageTier
from seatrial.errors import FindingsError, NotInCatalogError, UnreadableError
from seatrial.findings import Finding, Severity, Where
from seatrial.naming import nearest

SHIPPED = Path(__file__).parent / "data"
"""The facts that come with Seatrial."""


class CatalogCode(StrEnum):
    """What can be wrong with a catalog file; the codes are stable."""

    UNREADABLE = "ST-CATALOG-001"
    """A catalog file cannot be read as TOML."""
    INVALID = "ST-CATALOG-002"
    """An entry lacks a fact, or has one that is unknown or of the wrong form."""
    UNKNOWN_LIKE = "ST-CATALOG-003"
    """An entry is like another that does not exist."""


class Kind(StrEnum):
    """The kinds of facts, by the name that the command line and the files use."""

    MODELS = "models"
    """Model presets: an architecture, and how its authors trained it."""
    ACCELERATORS = "accelerators"
    """GPUs: memory, peak rates, bandwidths."""
    NODE_TYPES = "node-types"
    """Machines of the clouds: GPUs, network, CPU, memory, price."""
    FABRICS = "fabrics"
    """Networks between nodes: variables to set, and never to set."""
    STORAGE = "storage"
    """Storage tiers: bandwidth by capacity, steps of capacity, drivers."""
    IMAGES = "images"
    """Container images and the engine inside."""
    PROFILES = "profiles"
    """Kinds of clusters, which tie the rest together."""


ENTRY_TYPES: dict[Kind, type[Entry]] = {
    Kind.MODELS: ModelPreset,
    Kind.ACCELERATORS: Accelerator,
    Kind.NODE_TYPES: NodeType,
    Kind.FABRICS: Fabric,
    Kind.STORAGE: StorageTier,
    Kind.IMAGES: Image,
    Kind.PROFILES: Profile,
}


@dataclass(frozen=True, slots=True)
class RawEntry:
    """An entry as its files have it, before it is validated."""

    facts: dict[str, Any]
    """The merged tables."""
    file: Path
    """The last file that says something about it."""


class Catalog:
    """Facts by kind and name; entries are validated when they are asked for."""

    def __init__(self, directories: Iterable[Path] = ()) -> None:
        """Read the shipped facts, then those of each directory, later ones winning."""
        self._directories = (SHIPPED, *directories)
        self._raw: dict[Kind, dict[str, RawEntry]] = {}

    def names(self, kind: Kind) -> list[str]:
        """The names of all entries of a kind, in the order of the files."""
        return list(self._entries(kind))

    def origin(self, kind: Kind, name: str) -> Path:
        """The last file that says something about an entry."""
        return self._entries(kind)[self.canonical(kind, name)].file

    def canonical(self, kind: Kind, name: str) -> str:
        """The entry's own name when it is given by an alias."""
        entries = self._entries(kind)
        if name in entries:
            return name
        for candidate, raw in entries.items():
            if name in raw.facts.get("aliases", ()):
                return candidate
        aliases = [alias for raw in entries.values() for alias in raw.facts.get("aliases", ())]
        match = nearest(name, [*entries, *aliases])
        hint = f"Did you mean {match}?" if match else f"See: seatrial catalog list {kind}."
        singular = kind.removesuffix("s").replace("-", " ")
        raise NotInCatalogError(f"There is no {singular} {name!r} in the catalog. {hint}")

    def entry(self, kind: Kind, name: str) -> Entry:
        """The entry of that name or alias, validated."""
        name = self.canonical(kind, name)
        raw = self._entries(kind)[name]
        try:
            return ENTRY_TYPES[kind].model_validate(raw.facts)
        except ValidationError as error:
            raise FindingsError(_invalid(error, kind, name, raw.file)) from None

    def model(self, name: str) -> ModelPreset:
        """A model preset."""
        return _typed(self.entry(Kind.MODELS, name), ModelPreset)

    def accelerator(self, name: str) -> Accelerator:
        """An accelerator."""
        return _typed(self.entry(Kind.ACCELERATORS, name), Accelerator)

    def node_type(self, name: str) -> NodeType:
        """A node type."""
        return _typed(self.entry(Kind.NODE_TYPES, name), NodeType)

    def fabric(self, name: str) -> Fabric:
        """A fabric."""
        return _typed(self.entry(Kind.FABRICS, name), Fabric)

    def storage(self, name: str) -> StorageTier:
        """A storage tier."""
        return _typed(self.entry(Kind.STORAGE, name), StorageTier)

    def image(self, name: str) -> Image:
        """An image."""
        return _typed(self.entry(Kind.IMAGES, name), Image)

    def profile(self, name: str) -> Profile:
        """A cluster profile."""
        return _typed(self.entry(Kind.PROFILES, name), Profile)

    def _entries(self, kind: Kind) -> dict[str, RawEntry]:
        """The merged raw entries of a kind, read once."""
        if kind not in self._raw:
            self._raw[kind] = _read_kind(kind, self._directories)
        return self._raw[kind]


def _typed[T: Entry](entry: Entry, wanted: type[T]) -> T:
    """The entry under its own type."""
    if not isinstance(entry, wanted):
        raise TypeError(f"{entry.title} is not a {wanted.__name__}")
    return entry


def _read_kind(kind: Kind, directories: Iterable[Path]) -> dict[str, RawEntry]:
    """Merge the files of a kind, then let entries take over what they are `like`."""
    entries: dict[str, RawEntry] = {}
    for directory in directories:
        file = directory / f"{kind.replace('-', '_')}.toml"
        for name, facts in _read(file).items():
            before = entries[name].facts if name in entries else {}
            if not isinstance(facts, dict):
                raise FindingsError([_not_a_table(name, file)])
            entries[name] = RawEntry(_merged(before, facts), file)
    for name, raw in entries.items():
        model = raw.facts.get("like")
        if model is None:
            continue
        if model not in entries:
            raise FindingsError([_unknown_like(name, str(model), raw.file)])
        # A twin has its own names and price: those are not taken over.
        base = {k: v for k, v in entries[model].facts.items() if k not in ("aliases", "price")}
        own = {k: v for k, v in raw.facts.items() if k != "like"}
        entries[name] = RawEntry(_merged(base, own), raw.file)
    return entries


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """The facts of both, those above winning; tables are merged key by key."""
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        if isinstance(value, dict) and isinstance(old, dict):
            merged[key] = _merged(old, value)
        else:
            merged[key] = value
    return merged


def _read(file: Path) -> dict[str, Any]:
    """The tables of a TOML file; none when it does not exist."""
    try:
        with file.open("rb") as stream:
            return tomllib.load(stream)
    except FileNotFoundError:
        return {}
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UnreadableError(
            _finding(
                CatalogCode.UNREADABLE,
                Where(file=str(file)),
                f"the catalog file cannot be read: {reason}.",
                "Mend it, or move it out of the catalog directory.",
            )
        ) from None


def _invalid(error: ValidationError, kind: Kind, name: str, file: Path) -> list[Finding]:
    """A finding per fact that does not fit the schema of its kind."""
    known = ", ".join(ENTRY_TYPES[kind].model_fields)
    found = []
    for detail in error.errors():
        path = ".".join(str(part) for part in (name, *detail["loc"]))
        unknown = detail["type"] == "extra_forbidden"
        rule = "there is no such fact." if unknown else f"{detail['msg']}."
        fix = f"The facts of {kind} are: {known}." if unknown else "Correct it in the file."
        place = Where(path, str(file), _line_of(file, name))
        found.append(_finding(CatalogCode.INVALID, place, rule, fix))
    return found


def _not_a_table(name: str, file: Path) -> Finding:
    place = Where(name, str(file), _line_of(file, name))
    rule = "every entry is a table with a name of its own."
    return _finding(CatalogCode.INVALID, place, rule, "Write [NAME] and the facts below it.")


def _unknown_like(name: str, model: str, file: Path) -> Finding:
    place = Where(f"{name}.like", str(file), _line_of(file, name))
    rule = f"there is no {model!r} to be like."
    return _finding(CatalogCode.UNKNOWN_LIKE, place, rule, "Name an entry of the same kind.")


def _finding(code: CatalogCode, where: Where, rule: str, fix: str) -> Finding:
    return Finding(code, Severity.ERROR, where, rule, "", fix)


def _line_of(file: Path, name: str) -> int:
    """The line on which an entry's table begins; tomllib does not tell."""
    headers = {f"[{name}]", f'["{name}"]', f"['{name}']"}
    for number, line in enumerate(file.read_text().splitlines(), start=1):
        if line.partition("#")[0].strip() in headers:
            return number
    return 0


def user_directory() -> Path:
    """Where a user's own facts lie: SEATRIAL_CATALOG, or the usual place for settings."""
    chosen = os.environ.get("SEATRIAL_CATALOG")
    if chosen:
        return Path(chosen)
    settings = os.environ.get("XDG_CONFIG_HOME")
    return (Path(settings) if settings else Path.home() / ".config") / "seatrial" / "catalog"


@cache
def default_catalog() -> Catalog:
    """The shipped catalog with the user's own on top."""
    return Catalog([user_directory()])
