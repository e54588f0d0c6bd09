# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Mutations of specs: other runs that somebody may want, and mistakes in writing one down."""

import io
import random
from collections.abc import Callable, Iterator
from typing import Any

from ruamel.yaml import YAML

from seatrial.spec.other_tool_names import SYNONYMS

Plain = dict[str, Any]
Mutation = Callable[[Plain, random.Random], None]
Slot = tuple[Any, Any, tuple[Any, ...]]
"""A section or a list, a key or a position in it, and the path of both."""
NAMES = {
    "profile": ("aks", "eks", "gke", "hyperpod-eks", "local", "aws", "azure"),
    "preset": ("llama2-7b", "llama3-8b", "gpt3-7.5b", "mpt-7b", "7b", "llama-7b"),
    "fabric": ("efa", "infiniband", "none", "gpudirect-tcpx"),
    "precision": ("bf16", "fp16", "fp8", "mxfp8", "fp6", "int8"),
    "tokenizer": ("hf://gpt2", "gpt2", "hf://meta-llama/Llama-2-7b-hf"),
}


def written(spec: Plain) -> str:
    """The spec as YAML, in the order that it has."""
    yaml = YAML()
    yaml.default_flow_style = False
    out = io.StringIO()
    yaml.dump(spec, out)
    return out.getvalue()


def leaves_of(value: Any, path: str = "") -> dict[str, Any]:
    """Every value that is neither a section nor a list, by its dotted path."""
    if isinstance(value, dict):
        below = [(f"{path}.{key}".lstrip("."), each) for key, each in value.items()]
    elif isinstance(value, list | tuple):
        below = [(f"{path}[{number}]", each) for number, each in enumerate(value)]
    else:
        return {path: value} if value is not None else {}
    return {name: leaf for place, each in below for name, leaf in leaves_of(each, place).items()}


def _slots(value: Any, path: tuple[Any, ...] = ()) -> Iterator[Slot]:
    """Every place that holds something, sections too."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, below in list(pairs):
        yield value, key, (*path, key)
        if isinstance(below, dict | list):
            yield from _slots(below, (*path, key))


def _slot(spec: Plain, chance: random.Random, *kinds: type) -> Slot | None:
    """A place with a value of one of some kinds."""
    found = [slot for slot in _slots(spec) if not kinds or type(slot[0][slot[1]]) in kinds]
    return chance.choice(found) if found else None


def _key_slot(spec: Plain, chance: random.Random) -> Slot | None:
    """A key of a section."""
    found = [slot for slot in _slots(spec) if isinstance(slot[0], dict)]
    return chance.choice(found) if found else None


def _rename(section: Plain, old: str, new: str) -> None:
    """Give a key another name, and leave it where it stands."""
    items = [(new if key == old else key, value) for key, value in section.items()]
    section.clear()
    section.update(items)


# Another run.


def _off_by_one(spec: Plain, chance: random.Random) -> None:
    if slot := _slot(spec, chance, int):
        slot[0][slot[1]] = max(1, slot[0][slot[1]] + chance.choice((-1, 1)))


def _removed(spec: Plain, chance: random.Random) -> None:
    if slot := _key_slot(spec, chance):
        del slot[0][slot[1]]


def _other_name(spec: Plain, chance: random.Random) -> None:
    found = [slot for slot in _slots(spec) if slot[1] in NAMES]
    if found:
        section, key, _ = chance.choice(found)
        section[key] = chance.choice(NAMES[key])


def _swapped(spec: Plain, chance: random.Random) -> None:
    one, other = _slot(spec, chance, int, str), _slot(spec, chance, int, str)
    if one and other:
        first, second = one[0][one[1]], other[0][other[1]]
        one[0][one[1]], other[0][other[1]] = second, first


def _doubled(spec: Plain, chance: random.Random) -> None:
    if slot := _slot(spec, chance, int):
        slot[0][slot[1]] *= chance.choice((2, 3, 7))


def _ended(spec: Plain, chance: random.Random) -> None:
    spec["initial_weights"] = chance.choice(
        (
            {"huggingface": "hf://meta-llama/Llama-2-7b-hf"},
            {"checkpoint": "s3://runs/a/checkpoints"},
        )
    )


# The same run, written wrongly.


def _typo(spec: Plain, chance: random.Random) -> None:
    slot = _key_slot(spec, chance)
    if slot is None or len(str(slot[1])) < 2:
        return
    section, key, _ = slot
    at = chance.randrange(len(key) - 1)
    letter = chance.choice("abcdefghijklmnopqrstuvwxyz_")
    new = chance.choice(
        (
            key[:at] + key[at + 1] + key[at] + key[at + 2 :],
            key[:at] + key[at + 1 :],
            key[:at] + letter + key[at:],
            key[:at] + letter + key[at + 1 :],
        )
    )
    if new and new not in section:
        _rename(section, key, new)


def _other_case(spec: Plain, chance: random.Random) -> None:
    if slot := _key_slot(spec, chance):
        section, key, _ = slot
        camel = "".join(word.capitalize() for word in key.split("_"))
        new = chance.choice((key.upper(), key.replace("_", "-"), camel[:1].lower() + camel[1:]))
        if new not in section:
            _rename(section, key, new)


def _other_tool(spec: Plain, chance: random.Random) -> None:
    by_field: dict[str, list[str]] = {}
    for name, fields in SYNONYMS.items():
        for field in fields:
            by_field.setdefault(field, []).append(name)
    found = [slot for slot in _slots(spec) if ".".join(map(str, slot[2])) in by_field]
    if found:
        section, key, path = chance.choice(found)
        new = chance.choice(by_field[".".join(path)])
        value = section.pop(key)
        place = spec if chance.random() < 0.3 else section
        place.setdefault(new, value)


def _quoted(spec: Plain, chance: random.Random) -> None:
    if slot := _slot(spec, chance, int, float, bool):
        value = slot[0][slot[1]]
        text = {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
        slot[0][slot[1]] = text


def _unit(spec: Plain, chance: random.Random) -> None:
    if slot := _slot(spec, chance, int):
        section, key, _ = slot
        value = section[key]
        thousand = 1024 if key in ("sequence_length", "max_positions") else 1000
        if value % thousand == 0:
            section[key] = f"{value // thousand}{chance.choice(('k', 'K'))}"
        else:
            section[key] = chance.choice((float(value), f"{value} ", f"{value}x", [value]))


def _enum(spec: Plain, chance: random.Random) -> None:
    if slot := _slot(spec, chance, str):
        section, key, _ = slot
        value = section[key]
        if "/" in value or key == "name":
            return  # an address with other letters is another place
        aliases = {"bf16": "bfloat16", "fp16": "float16", "optimizer": "Optimizer"}
        section[key] = chance.choice(
            (value.upper(), value.replace("-", "_"), aliases.get(value, value))
        )


def _nesting(spec: Plain, chance: random.Random) -> None:
    found = [slot for slot in _slots(spec) if isinstance(slot[0], dict) and len(slot[2]) > 1]
    sections = [spec, *(value for value in spec.values() if isinstance(value, dict))]
    if found:
        section, key, _ = chance.choice(found)
        place = chance.choice(sections)
        if key not in place:
            place[key] = section.pop(key)


def _sections(value: Any) -> list[Plain]:
    """Every section, at any depth."""
    return [value, *(h[k] for h, k, _ in _slots(value) if isinstance(h[k], dict))]


def _other_section(spec: Plain, chance: random.Random) -> None:
    """A key in a section that it does not belong to, also one deeper or further up."""
    slot = _key_slot(spec, chance)
    if slot is None:
        return
    section, key, _ = slot
    value = section.pop(key)
    free = [place for place in _sections(spec) if key not in place and place is not section]
    (chance.choice(free) if free else section)[key] = value


def _contradicted(spec: Plain, chance: random.Random) -> None:
    """A key a second time, in a section that it does not belong to and with another value."""
    slot = _slot(spec, chance, int, str)
    if slot is None or not isinstance(slot[0], dict):
        return
    section, key, _ = slot
    free = [place for place in _sections(spec) if key not in place]
    if free:
        value = section[key]
        other = value * 100 if isinstance(value, int) else f"{value}-other"
        chance.choice(free)[key] = other


def _flat(spec: Plain, chance: random.Random) -> None:
    """A section with one key, written as its value."""
    found = [s for s in _slots(spec) if isinstance(s[0][s[1]], dict) and len(s[0][s[1]]) == 1]
    if found:
        section, key, _ = chance.choice(found)
        (section[key],) = section[key].values()


def _weights(spec: Plain, chance: random.Random) -> None:
    weights = spec.get("initial_weights")
    if isinstance(weights, dict) and len(weights) == 1:
        (place,) = weights.values()
        key = chance.choice(("from", "path", "hf", "load", "model"))
        spec["initial_weights"] = chance.choice(({key: place}, place))


def _pair(spec: Plain, chance: random.Random) -> None:
    for section, key, _ in list(_slots(spec)):
        if key == "prepared" and isinstance(section[key], str):
            section[key] += chance.choice((".bin", ".idx", "/"))


MEANINGS: tuple[Mutation, ...] = (
    *(_off_by_one, _removed, _other_name, _swapped, _doubled, _ended, _ended),
)
MISTAKES: tuple[Mutation, ...] = (
    *(_typo, _typo, _other_case, _other_tool, _other_tool, _quoted, _unit, _enum, _nesting),
    *(_flat, _weights, _weights, _pair, _other_section, _other_section, _contradicted),
)
