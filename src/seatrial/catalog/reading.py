# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Read raw entries of one kind from catalog directories: merge files and resolve `like`."""

import re
import tomllib
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from seatrial.codes.catalog import CatalogCode, problem
from seatrial.errors import FindingsError, UnreadableError
from seatrial.findings import Finding, Severity, Where
from seatrial.naming import nearest
from seatrial.spec.secrets import shown

_KEY = r"""(?:"[^"]*"|'[^']*'|[\w-]+)"""
_HEADER = re.compile(rf"\s*\[\[?\s*({_KEY}(?:\s*\.\s*{_KEY})*)\s*\]")
_ASSIGNMENT = re.compile(rf"\s*({_KEY}(?:\s*\.\s*{_KEY})*)\s*=")
_PART = re.compile(_KEY)


@cache
def _places(file: Path, changed: int) -> dict[tuple[str, ...], int]:
    """Return the first line of every table and fact in a file, by its keys."""
    found: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        if header := _HEADER.match(line):
            table = path = _parts(header[1])
        elif assignment := _ASSIGNMENT.match(line):
            path = (*table, *_parts(assignment[1]))
        else:
            continue
        for end in range(1, len(path) + 1):
            found.setdefault(path[:end], number)
    return found


def _parts(keys: str) -> tuple[str, ...]:
    """Split a dotted key into its parts, without quotes."""
    return tuple(part.strip("\"'") for part in _PART.findall(keys))


def place(file: Path, name: str, field: str, facts: tuple[str | int, ...] = ()) -> Where:
    """Return the line of a fact, or of its closest ancestor in the file, otherwise line 1."""
    places = _places(file, file.stat().st_mtime_ns)
    path = (name, *(str(fact) for fact in facts))
    around = (places.get(path[:end], 0) for end in range(len(path), 0, -1))
    return Where(field, str(file), next((line for line in around if line), 1))


_LIKE = "like"
_TOML_PLACE = re.compile(r" \(at line (\d+), column (\d+)\)$")


@dataclass(frozen=True, slots=True)
class RawEntry:
    """An entry merged from its files, before validation."""

    facts: dict[str, Any]
    """The merged tables."""
    file: Path
    """The last file that defines or overrides the entry."""

    @property
    def aliases(self) -> list[str]:
        """The aliases of the entry; validation later rejects anything but a list of strings."""
        given = self.facts.get("aliases")
        return [name for name in given if isinstance(name, str)] if isinstance(given, list) else []


def file_names(kind: str) -> tuple[str, ...]:
    """Return the valid file names of a kind, such as `node_types.toml` and `node-types.toml`."""
    return tuple(dict.fromkeys((f"{kind.replace('-', '_')}.toml", f"{kind}.toml")))


def read_kind(
    kind: str, known: Collection[str], directories: Iterable[Path]
) -> dict[str, RawEntry]:
    """Read the entries of a kind with its `known` facts; later directories take precedence."""
    entries: dict[str, RawEntry] = {}
    wrong: list[Finding] = []
    for directory in directories:
        for file in (directory / name for name in file_names(kind)):
            for name, facts in _read(file).items():
                refused = _no_entry(name, facts, () if name in entries else known, file)
                if refused:
                    wrong.append(refused)
                    continue
                before = entries[name].facts if name in entries else {}
                # A price is replaced as a whole: a new amount with the old date would be wrong.
                kept = {k: v for k, v in before.items() if not (k == "price" and k in facts)}
                entries[name] = RawEntry(merge_facts(kept, facts), file)
    wrong += [finding for name in entries for finding in _unlike(name, entries)]
    if wrong:
        raise FindingsError(wrong)
    return {name: RawEntry(_facts(name, entries), raw.file) for name, raw in entries.items()}


def missing_directories(directories: Iterable[Path]) -> list[Finding]:
    """Return a warning for each directory that does not exist."""
    rule = "the directory does not exist, so only the shipped catalog is used."
    fix = "Create the directory, or correct SEATRIAL_CATALOG."
    return [
        Finding(CatalogCode.DIRECTORY, Severity.WARNING, Where(file=str(directory)), rule, "", fix)
        for directory in directories
        if not directory.is_dir()
    ]


def stray_files(directories: Iterable[Path], kinds: Iterable[str]) -> list[Finding]:
    """Return a finding for each file that would be ignored or hidden by a different file."""
    kinds = list(kinds)
    files = (file for directory in directories for file in sorted(directory.glob("*.toml")))
    return [finding for file in files for finding in _stray(file, kinds)]


def _stray(file: Path, kinds: list[str]) -> list[Finding]:
    """Return a finding if the file has no known kind, or if a second file has the same kind."""
    names = [name for kind in kinds for name in file_names(kind)]
    if file.name not in names:
        near = nearest(file.stem, [name.removesuffix(".toml") for name in names])
        fix = f"Rename it to {near}.toml." if near else f"Use one of: {', '.join(names)}."
        rule = "the file name does not match a kind of catalog entry, so the file is not read."
        return [problem(CatalogCode.DIRECTORY, Where(file=str(file), line=1), rule, fix)]
    other = file.with_name(file.name.replace("-", "_"))
    if other != file and other.exists():
        rule = f"{other.name} exists too, and has the same kind of entries."
        fix = "Put all entries into one of the two files."
        return [problem(CatalogCode.DIRECTORY, Where(file=str(file), line=1), rule, fix)]
    return []


def _read(file: Path) -> dict[str, Any]:
    """Return the tables of a TOML file; empty if it does not exist."""
    try:
        with file.open("rb") as stream:
            return tomllib.load(stream)
    except FileNotFoundError:
        return {}
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        reason = str(error.strerror if isinstance(error, OSError) else error)
        at = _TOML_PLACE.search(reason)
        line, column = (int(at[1]), int(at[2])) if at else (0, 0)
        raise UnreadableError(
            problem(
                CatalogCode.UNREADABLE,
                Where("", str(file), line, column),
                f"the catalog file cannot be read: {_TOML_PLACE.sub('', reason)}.",
                "Fix the file, or move it out of the catalog directory.",
            )
        ) from None


def _no_entry(name: str, facts: Any, known: Collection[str], file: Path) -> Finding | None:
    """Return a finding if the entry is not a table, or if TOML split its name at the dots."""
    if not isinstance(facts, dict):
        rule = "every entry must be a table with its own name."
        fix = "Start a [NAME] table, and put its fields below it."
        return problem(CatalogCode.INVALID, place(file, name, name), rule, fix)
    parts, inner = [name], facts
    while known and inner and all(isinstance(value, dict) for value in inner.values()):
        part = next(iter(inner))
        if part in known:
            break
        parts.append(part)
        inner = inner[part]
    if len(parts) == 1:
        return None
    rule = f"TOML reads the dots in [{'.'.join(parts)}] as nested tables."
    fix = f'Put the name in quotes: ["{".".join(parts)}"].'
    return problem(CatalogCode.INVALID, place(file, name, ".".join(parts)), rule, fix)


def _unlike(name: str, entries: dict[str, RawEntry]) -> list[Finding]:
    """Return a finding if `like` names an entry that does not exist, or forms a cycle."""
    raw, trail = entries[name], [name]
    while (model := entries[trail[-1]].facts.get(_LIKE)) is not None:
        if not isinstance(model, str) or model not in entries:
            if len(trail) > 1:
                # The finding about the intermediate entry is enough.
                return []
            near = nearest(model, entries) if isinstance(model, str) else None
            rule = f"the field 'like' refers to {shown(model)}, which does not exist."
            fix = f"Did you mean {near}?" if near else "Use the name of an entry of the same kind."
            return [_like_finding(name, raw.file, rule, fix)]
        if model in trail:
            circle = " -> ".join([*trail, model])
            fix = "Define one of these entries without like."
            return [_like_finding(name, raw.file, f"like forms a cycle: {circle}.", fix)]
        trail.append(model)
    return []


def _like_finding(name: str, file: Path, rule: str, fix: str) -> Finding:
    where = place(file, name, f"{name}.{_LIKE}", (_LIKE,))
    return problem(CatalogCode.UNKNOWN_LIKE, where, rule, fix)


def _facts(name: str, entries: dict[str, RawEntry]) -> dict[str, Any]:
    """Return the facts of an entry, merged over the facts of the entry that `like` names."""
    own = {key: value for key, value in entries[name].facts.items() if key != _LIKE}
    model = entries[name].facts.get(_LIKE)
    if model is None:
        return own
    # Aliases and price are specific to each entry and not inherited.
    base = {k: v for k, v in _facts(model, entries).items() if k not in ("aliases", "price")}
    return merge_facts(base, own)


def merge_facts(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Merge two sets of facts key by key, including tables; `above` takes precedence."""
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        if isinstance(value, dict) and isinstance(old, dict):
            merged[key] = merge_facts(old, value)
        else:
            merged[key] = value
    return merged
