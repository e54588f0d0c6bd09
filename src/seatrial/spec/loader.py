# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Load a spec file and overrides into a RunSpec with the line of each value."""

import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from seatrial.codes.spec import SpecCode
from seatrial.errors import FindingsError, UnreadableError
from seatrial.findings import Finding, Severity, Where
from seatrial.naming import nearest
from seatrial.secrets.assignments import is_vocabulary_value
from seatrial.secrets.names import names_secret
from seatrial.secrets.redaction import REDACTED, looks_secret
from seatrial.spec import overrides, upgrade
from seatrial.spec.cluster import ClusterSpec, Operator
from seatrial.spec.run import RunSpec
from seatrial.spec.secrets import gives_variable, shown_key
from seatrial.spec.syntax import Lines
from seatrial.spec.tree import Node, parse
from seatrial.spec.validation_errors import findings_of, is_misspelt, meant, where

MAX_BYTES = 1 << 20
"""Maximum size of a spec file. A spec is about a page long; a larger file is not a spec."""
_NAMESPACE = str(ClusterSpec.model_fields["namespace"].default)


@dataclass(frozen=True, slots=True)
class LoadedSpec:
    """A valid spec, and the location of each value in the file."""

    spec: RunSpec
    """The validated spec."""
    root: Node
    """The file as a tree of values with their locations."""

    def where(self, field: str) -> Where:
        """Return the location of a field in the file, or of its section if it is not set."""
        path = tuple(int(part) if part.isdigit() else part for part in _parts(field))
        return where(self.root, path)


@dataclass(frozen=True, slots=True)
class RunPlace:
    """Where a run is, according to its spec; a field is empty if it cannot be read."""

    name: str
    """Name of the run."""
    namespace: str
    """Kubernetes namespace; the default if the spec does not set one."""
    profile: str
    """Cluster profile."""
    operator: str
    """Launcher of the processes; `auto` if the spec does not set one."""
    is_yaml: bool = True
    """True if the file is valid YAML; if not, the other fields come from a search of its lines."""

    @property
    def is_doubtful(self) -> bool:
        """True if the run may be in a different location from what the file seems to state."""
        return not self.is_yaml or not self.profile


def _parts(field: str) -> list[str]:
    """Split a field name such as `data.sources[0].weight` into its keys."""
    return [part for part in field.replace("[", ".").replace("]", "").split(".") if part]


def load(path: Path, overriding: tuple[str, ...] = ()) -> LoadedSpec:
    """Load a spec file and apply overrides; raise one error with all findings."""
    return loads(_read(path), str(path), overriding)


def run_place(path: Path) -> RunPlace:
    """Return where the run is, even if the spec is invalid; raise if the path is not a file."""
    try:
        text = _read(path)
    except UnreadableError:
        # You must be able to stop a run even if its spec is not UTF-8.
        with suppress(OSError):
            return _place_in_lines(path.read_bytes()[:MAX_BYTES].decode(errors="replace"))
        raise
    try:
        root, _ = parse(text, str(path))
    except UnreadableError:
        return _place_in_lines(text)
    if not isinstance(root.value, dict):
        return RunPlace("", "", "", "")
    root, _ = upgrade.to_current(root)

    def text_at(field: str, default: str = "") -> str:
        node, is_there = root.at(tuple(field.split(".")))
        value = node.value if is_there else default
        return value if isinstance(value, str) else ""

    return RunPlace(
        text_at("name"),
        text_at("cluster.namespace", _NAMESPACE),
        text_at("cluster.profile"),
        text_at("cluster.operator", Operator.AUTO),
    )


def _place_in_lines(text: str) -> RunPlace:
    """Return where the run is, by searching the lines of a file that is not valid YAML."""

    def text_of(key: str, before: str, default: str = "") -> str:
        found = set(re.findall(rf"{before}{key}:[ \t]+[\"']?([\w.-]+)", text, re.MULTILINE))
        return default if not found else found.pop() if len(found) == 1 else ""

    inside = r"(?:^[ \t]+|[{,][ \t]*)"
    return RunPlace(
        text_of("name", "^"),
        text_of("namespace", inside, _NAMESPACE),
        text_of("profile", inside),
        text_of("operator", inside, Operator.AUTO),
        is_yaml=False,
    )


def byte_order_mark(path: Path) -> str:
    """Return the byte order mark at the start of a file; empty if there is none."""
    with path.open("rb") as stream:
        return BOM_UTF8.decode() if stream.read(len(BOM_UTF8)) == BOM_UTF8 else ""


def read_tree(path: Path) -> tuple[str, Node]:
    """Return the text and tree of a spec in any format version; raise if it is not YAML."""
    text = _read(path)
    root, findings = parse(text, str(path))
    if not isinstance(root.value, dict):
        raise UnreadableError(_not_a_mapping(root))
    if findings:
        raise FindingsError(_in_file_order(findings))
    return text, root


def loads(text: str, file: str, overriding: tuple[str, ...] = ()) -> LoadedSpec:
    """Load a spec from a string; `file` is its file name in findings."""
    root, findings = parse(text, file)
    if not isinstance(root.value, dict):
        raise UnreadableError(_not_a_mapping(root))
    root, versions = upgrade.to_current(root)
    if versions:
        raise FindingsError(_in_file_order(versions + findings))
    refused = overrides.apply(root, overriding) + _secrets(root)
    spec = None
    try:
        # Accept only documented keys: `from`, but not the attribute `from_`.
        spec = RunSpec.model_validate(root.plain(), by_alias=True, by_name=False)
    except ValidationError as error:
        spoken_for = {finding.where.field for finding in refused}
        findings += [
            finding
            for finding in findings_of(error.errors(), root)
            if finding.where.field not in spoken_for
        ]
    findings += refused
    if findings or spec is None:
        raise FindingsError(_in_file_order(findings))
    return LoadedSpec(spec, root)


def _in_file_order(findings: list[Finding]) -> list[Finding]:
    """Sort findings by their position in the file; findings about overrides come first."""
    return sorted(findings, key=lambda finding: (finding.where.line, finding.where.column))


def _read(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise _unreadable(path, "the file does not exist.", _other_file(path)) from None
    except IsADirectoryError:
        raise _unreadable(
            path, "the path is a directory.", "Use the path of the spec inside it."
        ) from None
    except OSError as error:
        raise _unreadable(
            path, f"the file cannot be read: {error.strerror}.", "Check its permissions."
        ) from None
    if len(raw) > MAX_BYTES:
        raise _unreadable(
            path, "the file is larger than 1 MiB, too large for a spec.", "Check the path."
        )
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if raw.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
            raise _unreadable(
                path, "the file is UTF-16, not UTF-8.", "Save the file as UTF-8.", 1, 1
            ) from None
        before = raw[: error.start].decode("utf-8-sig")
        line, column = Lines(before).place(len(before))
        rule = f"the byte 0x{raw[error.start]:02x} is not valid UTF-8."
        raise _unreadable(path, rule, "Save the file as UTF-8.", line, column) from None


def _other_file(path: Path) -> str:
    """Return the fix for a missing spec: the file with the most similar name, if there is one."""
    there: list[str] = []
    with suppress(OSError):
        there = [each.name for each in path.parent.iterdir() if each.suffix in (".yaml", ".yml")]
    twins = [name for name in there if Path(name).stem == path.stem]
    near = twins[0] if len(twins) == 1 else nearest(path.name, there)
    if near:
        return f"Did you mean {path.with_name(near)}?"
    return "Check the path, or create a spec with seatrial init."


def _unreadable(path: Path, rule: str, fix: str, line: int = 0, column: int = 0) -> UnreadableError:
    where = Where(file=str(path), line=line, column=column)
    return UnreadableError(Finding(SpecCode.UNREADABLE, Severity.ERROR, where, rule, "", fix))


def _not_a_mapping(root: Node) -> Finding:
    """Return the finding for a file that is empty, a list or a single value."""
    what = "contains a single value without keys"
    if root.value is None:
        what = "is empty or has only comments"
    elif isinstance(root.value, list):
        what = "is a list"
    return Finding(
        SpecCode.SHAPE,
        Severity.ERROR,
        Where(file=root.file, line=root.line, column=root.column),
        f"the file {what}, but a spec consists of key: value lines.",
        "",
        "Create a spec with seatrial init, or copy one with seatrial recipes copy.",
    )


def _secrets(root: Node) -> list[Finding]:
    """Return a finding, without the value, for each value that looks like a secret."""
    found = []
    listed, _ = root.at(("cluster", "secrets"))
    references = listed.plain()
    for path, value in root.walk():
        if not _holds_secret(path, value):
            continue
        fix = ", store it in a Kubernetes secret, and name the secret in cluster.secrets."
        if path[:2] == ("cluster", "env") and not looks_secret(path[-1]):
            name = shown_key(str(path[-1]))
            fix = f", and add {{secret: NAME, key: KEY, env: {name}}} to cluster.secrets."
            if gives_variable(references, name):
                fix = f": cluster.secrets already sets {name}."
        elif path[:2] == ("cluster", "secrets"):
            fix = (
                ", store it in a Kubernetes secret, and write only the secret's name and key here."
            )
        found.append(
            Finding(
                SpecCode.SECRET,
                Severity.ERROR,
                where(root, path, of_key=looks_secret(path[-1])),
                "this looks like a secret, judging by its format or name; a spec must not contain "
                "secrets.",
                REDACTED,
                f"Remove it (revoke it if the file was shared){fix}",
            )
        )
    return found


def _holds_secret(path: tuple[str | int, ...], value: object) -> bool:
    """Return True if a scalar, its key or its path indicates a secret."""
    name = str(path[-1]) if path else ""
    if any(looks_secret(key) for key in path) or looks_secret(value, name):
        return True
    if not path or value is None or isinstance(value, bool):
        return False
    # cluster.secrets only refers to secrets, so the value of an unknown key may be a secret.
    if path[:2] == ("cluster", "secrets") and len(path) > 3 and meant(path) is None:
        return True
    if is_vocabulary_value(name, value) and path[:2] != ("cluster", "env"):
        return False
    return names_secret(name) and not is_misspelt(path)
