# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Which other spelling means the same: the only field that a wrong key, or value, can stand for.

`check --fix` writes nothing else. A key or a value with two possible meanings has none here: the
owner of the spec decides.
"""

import re
from collections.abc import Iterable
from enum import StrEnum
from types import UnionType
from typing import Any, Union, get_args, get_origin

from seatrial.spec.fields import SpecField, field_at, places_named, siblings, takes_null
from seatrial.spec.other_tool_names import exact_field, outside_spec
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
"""What people write in `initial_weights` for the place of the weights."""
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
"""What people write for `initial_weights` itself, with the place behind it."""
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
# Straight quotes, and the ones that word processors make of them.
_QUOTES = " \"'\u2018\u2019\u201c\u201d\u201e"
_SECTION_KEYS = {"model": "preset", "cluster": "profile", "engine": "name", "continue_from": "run"}
"""The key that a section has in mind which is written as one text."""


def key_meant(path: Path, value: Any) -> Path | None:
    """The field that an unknown key can only mean; `None` if there is none, or more than one."""
    key = path[-1]
    if not isinstance(key, str) or outside_spec(key) or field_at(path) is not None:
        return None
    known, folded = siblings(path), fold(key)
    if not known:
        return None
    same = [name for name in known if fold(name) == folded]
    if len(same) == 1:
        return (*path[:-1], same[0])
    if weights_meant(path, value):
        # Weights in an object store may be of any format; those on the Hub are of one.
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
    # Never up or sideways: `precision` in another section is not that of the training.
    return target if target[: len(path) - 1] == path[:-1] else None


def _is_switched(place: str) -> bool:
    """True in a section that does something by being there, such as `continue_from`."""
    keys = place.replace("[]", ".[]").split(".")
    above = [field_at(tuple(keys[:end])) for end in range(1, len(keys))]
    # One of preset and dimensions is needed, so dimensions are never there by accident.
    return any(
        field is not None
        and takes_null(field)
        and field.name not in ("model.dimensions", "data.sources")
        for field in above
    )


def fold(key: str) -> str:
    """A key in snake_case: `nodeType`, `node-type` and `NODE_TYPE` are `node_type`."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", key.strip())
    return re.sub(r"[-_ ]+", "_", snake).lower().strip("_")


def closest(key: str, known: Iterable[str]) -> list[str]:
    """The known keys that a few typing errors lead to: one error, or two in a long key."""
    allowed = 0 if len(key) < 4 else 1 if len(key) < 8 else 2
    return [name for name in known if _distance(key, name) <= allowed]


def _distance(one: str, other: str) -> int:
    """Letters that are added, left out, replaced or swapped with their neighbour."""
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
    """The fields of `initial_weights` that a key may stand for, by the form of its value.

    A name on the Hub and an address of an object store have one each; a directory may be either.
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
    """`huggingface` for a name on the Hub, `checkpoint` for an object store, else empty."""
    if _HUB.match(place):
        return "huggingface"
    return "checkpoint" if _STORE.match(place) else ""


def value_meant(path: Path, value: Any) -> Any:
    """What a value of a field can only mean, written as the field takes it; `None` if unclear."""
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
    """True if both values of a field mean the same; `written` is the first as the file has it."""
    if type(before) is type(after) and before == after:
        return True
    if isinstance(after, str) and not isinstance(before, str):
        # A number that should be text is the text that stands there: 1.10 is not 1.1.
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
    """The section that one value in its place stands for."""
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
        # A whole number may be steps, samples or tokens.
        return {"fraction": value} if 0 < value < 1 else None
    return None


def _text_meant(field: SpecField, text: str) -> Any:
    """What a text can only mean in a field."""
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
    """The number that 8k or 4Ki means, where it can mean only one.

    Of a length in tokens, 8k is 8192; of steps, 8k is 8000; of heads it is neither for sure.
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
    """An address on the Hub as `hf://OWNER/NAME`."""
    page = _HUB_PAGE.fullmatch(text)
    if page:
        return f"hf://{page['name']}"
    return text if text.startswith("hf://") else None


def _run_name(text: str) -> str | None:
    """The name with the letters and hyphens that Kubernetes takes, if nothing of it is lost."""
    plain = re.sub(r"[_. ]", "-", text.lower())
    return plain if re.fullmatch(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?", plain) else None


def _fold_name(text: str) -> str:
    """A name without its case, and with one sign for - and _."""
    return re.sub(r"[_ ]", "-", text.strip().lower())


def _is_none(text: str) -> bool:
    """True for what may mean `none`, a choice, or None, which leaves the choice to Seatrial."""
    return text != "none" and text.lower() in ("none", "null", "nil")


def _members(annotation: Any) -> list[Any]:
    """The types inside an annotation such as `Annotated[int, ...] | None`."""
    if get_origin(annotation) in (Union, UnionType):
        return [each for part in get_args(annotation) for each in _members(part)]
    if hasattr(annotation, "__metadata__"):
        return _members(get_args(annotation)[0])
    return [annotation]


def _takes(field: SpecField, kind: type) -> bool:
    """True if the field takes a value of a type, and is not a text that happens to look like it."""
    members = _members(field.info.annotation)
    return kind in members and str not in members


def _choices(annotation: Any) -> list[str]:
    """The words of an enum, or none."""
    for member in _members(annotation):
        if isinstance(member, type) and issubclass(member, StrEnum):
            return list(member)
    return []


def _in_mapping(path: Path) -> bool:
    """True below a field that takes keys of the user's own, such as `cluster.env`."""
    around = field_at(path[:-1])
    return around is not None and get_origin(_members(around.info.annotation)[0]) is not None


def takes_text(path: Path) -> bool:
    """True where a spec takes text: a field of text, or a variable."""
    field = field_at(path)
    if field is None:
        return _in_mapping(path) and path[:2] != ("engine", "options")
    return str in _members(field.info.annotation)
