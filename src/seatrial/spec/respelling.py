# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Unambiguous corrections: the only field or value that a wrong key or value can mean.

`check --fix` writes only these. A key or value with two possible meanings has no correction here:
the owner of the spec decides.
"""

import re
from collections.abc import Iterable
from enum import StrEnum
from types import UnionType
from typing import Any, Union, get_args, get_origin

from seatrial.spec.engine import REGISTERED_ENGINES, EngineName
from seatrial.spec.fields import SpecField, field_at, places_named, siblings, takes_null
from seatrial.spec.other_tool_names import exact_field
from seatrial.spec.tree import Path

_HUB = re.compile(r"^(?:hf://|https?://(?:www\.)?huggingface\.co/)(?!datasets/|spaces/)")
_HUB_PAGE = re.compile(
    r"https?://(?:www\.)?huggingface\.co/(?!datasets/|spaces/)(?P<name>[^/\s@]+/[^/\s@]+)/?"
)
_STORE = re.compile(r"^(?:s3|gs|abfss?|az)://")
_WEIGHT_KEYS = frozenset(
    [
        "from",
        "hf",
        "hub",
        "path",
        "load",
        "model",
        "name",
        "repo",
        "source",
        "uri",
        "url",
        "weights",
        "pretrained",
        "pretrained_model",
        "model_name_or_path",
        "pretrained_model_name_or_path",
        "huggingface_hub",
        "hf_model",
    ]
)
"""Keys that people write inside `initial_weights` for the location of the weights."""
_WEIGHT_SECTIONS = frozenset(
    [
        "init_from",
        "initialize_from",
        "load_from",
        "start_from",
        "init_weights",
        "initial_checkpoint",
        "base_model",
        "pretrained",
        "pretrained_model",
        "pretrained_model_name_or_path",
        "pretrained_checkpoint",
    ]
)
"""Keys that people write instead of `initial_weights`, with the location as the value."""
_CATALOG_NAMES = frozenset(
    ("model.preset", "cluster.profile", "cluster.node_type", "cluster.fabric", "engine.name")
)
_PRECISIONS = {
    "bfloat16": "bf16",
    "bf16-mixed": "bf16",
    "float16": "fp16",
    "fp16-mixed": "fp16",
    "16-mixed": "fp16",
    "float32": "fp32",
}
_LENGTHS = ("sequence_length", "max_positions")
_TRUTHS = dict.fromkeys(("true", "yes", "on"), True) | dict.fromkeys(("false", "no", "off"), False)
_SUFFIXED = re.compile(r"(\d{1,9})\s*([kKmM]i?)")
_PLAIN_INT = re.compile(r"[+-]?\d+(?:_\d+)*")
_PLAIN_FLOAT = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
# Straight quotes, and the typographic quotes of word processors.
_QUOTES = " \"'\u2018\u2019\u201c\u201d\u201e"
_SECTION_KEYS = {"model": "preset", "cluster": "profile", "engine": "name", "continue_from": "run"}
"""The key that a single string in place of a section sets."""


def key_meant(path: Path, value: Any) -> Path | None:
    """Return the only field that an unknown key can mean; None if there is none or several."""
    key = path[-1]
    if not isinstance(key, str) or field_at(path) is not None:
        return None
    known, folded = siblings(path), fold(key)
    if not known:
        return None
    same = [name for name in known if fold(name) == folded]
    if len(same) == 1:
        return (*path[:-1], same[0])
    if weights_meant(path, value):
        # Weights in an object store can have any format; weights on the Hub have only one.
        return ("initial_weights", "huggingface") if _HUB.match(value) else None
    candidates = {(*path[:-1], name) for name in closest(folded, known)}
    synonym = exact_field(key)
    if synonym:
        candidates.add(synonym)
    places = [place for place in places_named(folded) if not _is_switched(place)]
    if any("[]" in place for place in places) or len(places) > 1:
        return None
    candidates |= {tuple(place.split(".")) for place in places}
    if len(candidates) != 1:
        return None
    target = candidates.pop()
    # Only within this section or below: `precision` elsewhere is not `training.precision`.
    return target if target[: len(path) - 1] == path[:-1] else None


def _is_switched(place: str) -> bool:
    """Return True inside a section whose presence has an effect, such as `continue_from`."""
    keys = place.replace("[]", ".[]").split(".")
    above = [field_at(tuple(keys[:end])) for end in range(1, len(keys))]
    # Either preset or dimensions is required, so dimensions are never set by accident.
    return any(
        field is not None
        and takes_null(field)
        and field.name not in ("model.dimensions", "data.sources")
        for field in above
    )


def fold(key: str) -> str:
    """Convert a key to snake_case: `nodeType`, `node-type` and `NODE_TYPE` are `node_type`."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", key.strip())
    return re.sub(r"[-_ ]+", "_", snake).lower().strip("_")


def closest(key: str, known: Iterable[str]) -> list[str]:
    """Return the known keys within a few typos: two in a long key, one in a shorter key."""
    allowed = 0 if len(key) < 4 else 1 if len(key) < 8 else 2
    return [name for name in known if _distance(key, name) <= allowed]


def _distance(one: str, other: str) -> int:
    """Return the edit distance: letters inserted, deleted, replaced or swapped with the next."""
    rows = [list(range(len(other) + 1))]
    for i, left in enumerate(one, 1):
        row = [i]
        for j, right in enumerate(other, 1):
            least = min(rows[-1][j] + 1, row[-1] + 1, rows[-1][j - 1] + (left != right))
            if i > 1 and j > 1 and left == other[j - 2] and one[i - 2] == right:
                least = min(least, rows[-2][j - 2] + 1)
            row.append(least)
        rows.append(row)
    return rows[-1][-1]


def weights_meant(path: Path, value: Any) -> list[str]:
    """Return the fields of `initial_weights` that a key may mean, judging by its value.

    A Hub name and an object-store URL each match one field; a directory matches both.
    """
    key = fold(str(path[-1]))
    inside = path[:-1] == ("initial_weights",) and key in _WEIGHT_KEYS
    above = len(path) == 1 and key in _WEIGHT_SECTIONS
    if not (inside or above) or not isinstance(value, str):
        return []
    kind = weights_key(value)
    kinds = [kind] if kind else ["huggingface", "checkpoint"]
    return [f"initial_weights.{name}" for name in kinds]


def weights_key(place: str) -> str:
    """Return `huggingface` for a Hub name, `checkpoint` for an object store, otherwise empty."""
    if _HUB.match(place):
        return "huggingface"
    return "checkpoint" if _STORE.match(place) else ""


def value_meant(path: Path, value: Any) -> Any:
    """Return the only valid value that this value can mean; None if it is ambiguous."""
    field = field_at(path)
    if field is None:
        return value if _in_mapping(path) and isinstance(value, str) else None
    if field.section is not None and not isinstance(value, dict | list):
        return _section_meant(path, value)
    if isinstance(value, str):
        return _text_meant(field, value.strip(_QUOTES))
    if isinstance(value, float) and value.is_integer() and _takes(field, int):
        return int(value)
    return None


def same_value(path: Path, before: Any, after: Any, written: str = "") -> bool:
    """Return True if both values are equivalent; `written` is the first value as in the file."""
    if type(before) is type(after) and before == after:
        return True
    if isinstance(after, str) and not isinstance(before, str):
        # A number that should be a string keeps its spelling in the file: 1.10 is not 1.1.
        return written == after and takes_text(path)
    field = field_at(path)
    name = field.name if field else ""
    if isinstance(before, str) and isinstance(after, str):
        if name in _CATALOG_NAMES:
            return not _is_none(before) and _fold_name(before) == _fold_name(after)
        if name == "data.sources[].prepared":
            return before in (f"{after}.bin", f"{after}.idx")
    meant = value_meant(path, before)
    return type(meant) is type(after) and bool(meant == after)


def _section_meant(path: Path, value: Any) -> dict[str, Any] | None:
    """Return the section that a single value in its place means; None if it is ambiguous."""
    if path == ("initial_weights",):
        address = _text_of_hub(value) if isinstance(value, str) else None
        return {"huggingface": address} if address else None
    if len(path) == 1 and isinstance(value, str) and path[0] in _SECTION_KEYS:
        return {_SECTION_KEYS[str(path[0])]: value}
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if path == ("training", "learning_rate"):
        return {"peak": value}
    if path[:2] == ("training", "learning_rate") and path[-1] in ("warmup", "decay", "anneal"):
        # An integer could be steps, samples or tokens.
        return {"fraction": value} if 0 < value < 1 else None
    return None


def _text_meant(field: SpecField, text: str) -> Any:
    """Return the only valid value of the field that the text can mean, or None."""
    choices = _choices(field.info.annotation)
    if choices and not _is_none(text):
        named = _PRECISIONS.get(text.lower()) if field.name == "training.precision" else None
        same = [word for word in choices if _fold_name(word) == _fold_name(text)]
        return named or (str(same[0]) if len(same) == 1 else None)
    if _takes(field, bool) and text.lower() in _TRUTHS:
        return _TRUTHS[text.lower()]
    if _takes(field, int) and _PLAIN_INT.fullmatch(text):
        return int(text)
    if _takes(field, int):
        return without_suffix(text, field.path[-1])
    if _takes(field, float) and _PLAIN_FLOAT.fullmatch(text):
        return float(text)
    if field.name in ("initial_weights.huggingface", "data.tokenizer"):
        return _text_of_hub(text)
    return _run_name(text) if field.name == "name" else None


def without_suffix(text: str, key: str) -> int | None:
    """Return the number that 8k or 4Ki means, or None if it is ambiguous.

    For a length in tokens, 8k is 8192. For steps, 8k is 8000. For heads, 8k is ambiguous.
    """
    match = _SUFFIXED.fullmatch(text)
    if match:
        number, power = int(match[1]), 1 if match[2][0] in "kK" else 2
        if match[2].endswith("i") or (key in _LENGTHS and number & (number - 1) == 0):
            return int(number * 1024**power)
        if key.endswith("steps"):
            return int(number * 1000**power)
    return None


def _text_of_hub(text: str) -> str | None:
    """Return a Hub address as `hf://OWNER/NAME`, or None if the text is not one."""
    page = _HUB_PAGE.fullmatch(text)
    if page:
        return f"hf://{page['name']}"
    return text if text.startswith("hf://") else None


def _run_name(text: str) -> str | None:
    """Convert a name to a valid Kubernetes name; None if characters would be lost."""
    plain = re.sub(r"[_. ]", "-", text.lower())
    return plain if re.fullmatch(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?", plain) else None


def _fold_name(text: str) -> str:
    """Normalise a name: lower case, and hyphens for underscores and spaces."""
    return re.sub(r"[_ ]", "-", text.strip().lower())


def _is_none(text: str) -> bool:
    """Return True if the text is ambiguous between the choice `none` and null (the default)."""
    return text != "none" and text.lower() in ("none", "null", "nil")


def _members(annotation: Any) -> list[Any]:
    """Return the types in an annotation such as `Annotated[int, ...] | None`."""
    if get_origin(annotation) in (Union, UnionType):
        return [each for part in get_args(annotation) for each in _members(part)]
    if hasattr(annotation, "__metadata__"):
        return _members(get_args(annotation)[0])
    return [annotation]


def _takes(field: SpecField, kind: type) -> bool:
    """Return True if the field accepts this type, and does not also accept strings."""
    members = _members(field.info.annotation)
    return kind in members and str not in members


def _choices(annotation: Any) -> list[str]:
    """Return the values of the enum in an annotation, or the engines; empty for other types."""
    for member in _members(annotation):
        if member is EngineName:
            return list(REGISTERED_ENGINES)
        if isinstance(member, type) and issubclass(member, StrEnum):
            return list(member)
    return []


def _in_mapping(path: Path) -> bool:
    """Return True below a field with user-defined keys, such as `cluster.env`."""
    around = field_at(path[:-1])
    return around is not None and get_origin(_members(around.info.annotation)[0]) is not None


def takes_text(path: Path) -> bool:
    """Return True if the path accepts a string: a string field, or an environment variable."""
    field = field_at(path)
    if field is None:
        return _in_mapping(path) and path[:2] != ("engine", "options")
    return str in _members(field.info.annotation)
