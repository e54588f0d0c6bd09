# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Convert pydantic's errors to findings with location, rule, value and fix."""

import re
from collections.abc import Callable, Iterable
from enum import StrEnum
from math import isfinite
from typing import Any

from pydantic_core import ErrorDetails

from seatrial.codes.spec import SpecCode
from seatrial.findings import Finding, Severity, Where
from seatrial.naming import nearest
from seatrial.spec.fields import field_at, places_named, siblings
from seatrial.spec.other_tool_names import fields_meant
from seatrial.spec.overrides import OVERRIDE, in_quotes
from seatrial.spec.respelling import weights_meant, without_suffix
from seatrial.spec.secrets import shown, shown_key
from seatrial.spec.tree import Node, Path, dotted

_SECTION = "a section of key: value lines"
_TRUTH = "true or false"
_LENGTHS = ("sequence_length", "max_positions")
_TRUTHS = {
    **dict.fromkeys(("true", "yes", "on"), "true"),
    **dict.fromkeys(("false", "no", "off"), "false"),
}
# Straight quotes, and the typographic quotes of word processors.
_QUOTES = " \"'\u2018\u2019\u201c\u201d\u201e"

Explanation = tuple[SpecCode, str, str]
"""Code, rule and fix."""


def where(root: Node, path: Path, *, of_key: bool = False) -> Where:
    """Return the location of a path: its value, its key, or the section in which it is missing."""
    node, reached = root.at(path)
    # A section or a list starts below its key, but readers look for it at the key.
    below = isinstance(node.value, dict | list) and node.line != node.key_line
    at_key = of_key or below or not reached
    line, column = (node.key_line, node.key_column) if at_key else (node.line, node.column)
    return Where(dotted(path), node.file, line or node.line, column or node.column)


def findings_of(errors: Iterable[ErrorDetails], root: Node) -> list[Finding]:
    """Return one finding per error, in file order."""
    errors = list(errors)
    unknown_keys = [error for error in errors if error["type"] == "extra_forbidden"]
    misspelt = {
        path for error in unknown_keys for path in _meant_paths(error["loc"], error["input"])
    }
    found = []
    for error in errors:
        path, of_key = _user_path(error)
        absent = _absent(error)
        # A misspelt key is one mistake, although its field is missing too.
        if misspelt.intersection(absent) or any(root.spoken_for(p) for p in (path, *absent)):
            continue
        node, reached = root.at(path)
        if reached and not of_key and node.holds_faulty():
            continue
        if absent:
            path = absent[0] if len(absent) == 1 else path[:-1]
        code, rule, fix = _EXPLANATIONS.get(error["type"], _otherwise)(error, path)
        if node.written and error["type"] == "string_type" and error["input"] is not None:
            fix = in_quotes(dotted(path), node.written)
        elif reached and not of_key and node.file == OVERRIDE:
            fix = _in_override(error, path) or fix
        place = where(root, path, of_key=of_key)
        # The value of an unknown key may be a secret.
        unknown = absent or code is SpecCode.UNKNOWN_KEY
        value = "" if unknown else shown(_input(error, node), path)
        found.append(Finding(code, Severity.ERROR, place, rule, value, fix))
    return sorted(found, key=lambda finding: (finding.where.line, finding.where.column))


def _absent(error: ErrorDetails) -> list[Path]:
    """Return the fields of which exactly one is required, if none of them is set."""
    if error["type"] == "missing":
        return [error["loc"]]
    return [(*error["loc"][:-1], key) for key in error.get("ctx", {}).get("absent", ())]


def _input(error: ErrorDetails, node: Node) -> Any:
    """Return the invalid value: the validated value, a part of it, or a sibling."""
    context = error.get("ctx", {})
    is_other = context.get("inside") or context.get("instead")
    return node.plain() if is_other else error["input"]


def _user_path(error: ErrorDetails) -> tuple[Path, bool]:
    """Return the path of the error in the file, and True if it is about the key."""
    path = error["loc"]
    if error["type"] == "extra_forbidden":
        return path, True
    context = error.get("ctx", {})
    if context.get("instead"):
        return (*path[:-1], context["instead"]), False
    path = (*path, *context.get("inside", ()))
    # Pydantic appends this if the key of a mapping is invalid.
    return (path[:-1], True) if path[-1] == "[key]" else (path, False)


def meant(path: Path) -> str | None:
    """Return the key in the section that a misspelt key most likely means, or None."""
    key, known = str(path[-1]), siblings(path)
    longer = (k for k in known if len(k) > 2 and re.match(f"{k}[a-z]", key, re.IGNORECASE))
    return nearest(key, known) or next(longer, None)


def is_misspelt(path: Path) -> bool:
    """Return True if the section has no such key, but a similar key was probably meant.

    `training.token` is not a secret, but a misspelt `training.tokens`.
    """
    known = siblings(path)
    if not known or str(path[-1]) in known:
        return False
    return bool(_meant_paths(path) or places_named(str(path[-1])))


def _meant_paths(path: Path, value: object = None) -> list[Path]:
    """Return the paths of the fields that an unknown key may mean."""
    near = meant(path)
    paths: list[Path] = [tuple(name.split(".")) for name in fields_meant(str(path[-1]))]
    paths += [tuple(name.split(".")) for name in weights_meant(path, value)]
    return [*paths, (*path[:-1], near)] if near else paths


def _unknown_key(error: ErrorDetails, path: Path) -> Explanation:
    key, known = str(path[-1]), siblings(path)
    section = dotted(path[:-1]) or "a spec"
    match, elsewhere = meant(path), places_named(key)[:3]
    if weights := weights_meant(path, error["input"]):
        fix = f"Did you mean {weights[0]}?"
        if len(weights) > 1:
            fix = f"Use {weights[0]} for Hugging Face weights, or {weights[1]} for a checkpoint."
    elif not elsewhere and (synonyms := fields_meant(key)):
        fix = f"In a spec, this key is called {synonyms[0]}."
        if len(synonyms) > 1:
            fix = f"Use {' or '.join(synonyms)}."
    elif match:
        fix = f"Did you mean {' or '.join([match, *elsewhere])}?"
    elif elsewhere:
        fix = f"Move the key to {' or '.join(elsewhere)}."
    else:
        fix = f"Remove the key, or use one of: {', '.join(known)}."
    return SpecCode.UNKNOWN_KEY, f"{section} has no key {shown_key(key)}.", fix


def _missing(error: ErrorDetails, path: Path) -> Explanation:
    field = field_at(path)
    kind = field.info.annotation if field else None
    choices = ""
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        choices = f", one of: {', '.join(kind)}"
    fix = f"Add {path[-1]}:{_meaning(path)}{choices}."
    return SpecCode.MISSING, f"{path[-1]} is required.", fix


def _meaning(path: Path) -> str:
    """Return the docstring of a field in parentheses; empty if there is no such field."""
    field = field_at(path)
    return f" ({field.doc[:1].lower()}{field.doc[1:].rstrip('.')})" if field else ""


def _wrong_type(wanted: str, example: str) -> Callable[[ErrorDetails, Path], Explanation]:
    """Return a function that explains a value of the wrong type."""

    def explain(error: ErrorDetails, path: Path) -> Explanation:
        value = error["input"]
        if value is None:
            return _no_value(wanted, path)
        fix = f"Write {example}."
        bare = value.strip(_QUOTES) if isinstance(value, str) else ""
        if _unquoted(bare, wanted):
            fix = f"Write {bare} without quotes."
        elif wanted == "text" and isinstance(value, bool | int | float):
            text = str(value).lower() if isinstance(value, bool) else value
            fix = f'Write the value in quotes: "{text}".'
        elif wanted == _TRUTH and bare.lower() in _TRUTHS:
            fix = f"Write {_TRUTHS[bare.lower()]}, without quotes."
        elif wanted == _SECTION:
            fix = _section_fix(value, path)
        elif "whole" in wanted and (number := _without_suffix(bare, path)):
            fix = f"Write {number}."
        return SpecCode.TYPE, f"must be {wanted}, not {shown(value, path)}.", fix

    return explain


def _no_value(wanted: str, path: Path) -> Explanation:
    """Explain a key without a value."""
    is_item = isinstance(path[-1], int)
    name = "the item" if is_item else shown_key(str(path[-1]))
    field = field_at(path)
    if wanted == _SECTION:
        place = "after the hyphen" if is_item else "below the key, indented"
        fix = f"Write key: value lines {place}"
    else:
        fix = f"Write {wanted} after the colon{_meaning(path)}"
    if is_item or (field is not None and not field.info.is_required()):
        fix += f", or remove the {'item' if is_item else 'key'}"
    return SpecCode.TYPE, f"{name} has no value.", f"{fix}."


def _section_fix(value: object, path: Path) -> str:
    """Return the fix for a value in place of a section, with the section's keys if known."""
    known = siblings((*path, ""))
    keys = f"; valid keys are {', '.join(known)}" if known else ""
    if isinstance(value, list):
        return f"Write key: value lines below the key, without hyphens{keys}."
    if isinstance(path[-1], int):
        return f"Write key: value lines after the hyphen{keys}."
    return f"Write key: value lines below the key, indented{keys}."


def _in_override(error: ErrorDetails, path: Path) -> str:
    """Return the fix for an override; empty if it is the same as for a file."""
    explanation = _EXPLANATIONS.get(error["type"])
    if error["input"] is None and explanation in (_section, _list, _text, _whole_number, _number):
        around = dotted(path[:-1]) if isinstance(path[-1], int) else ""
        return f"Set the whole list: {around}=[...]." if around else "Add a value."
    if explanation is _section:
        known = siblings((*path, ""))
        keys = f"; valid keys are {', '.join(known)}" if known else ""
        return f"Write the section in braces: {{KEY: VALUE}}{keys}."
    if explanation is _list:
        return "Write the items in brackets: [ITEM, ITEM]."
    return "Write a single string after the = sign." if explanation is _text else ""


def _unquoted(value: str, wanted: str) -> bool:
    """Return True if the text would be valid without quotes."""
    if "number" not in wanted:
        return False
    try:
        number = float(value)
    except ValueError:
        return False
    return isfinite(number) and ("whole" not in wanted or number.is_integer())


def _without_suffix(value: str, path: Path) -> str:
    """Return the number that 8k or 4Ki means, or an example for a length in tokens."""
    number = without_suffix(value, str(path[-1]))
    if number is not None:
        return str(number)
    return "a whole number such as 2048" if str(path[-1]) in _LENGTHS else ""


def _choices(error: ErrorDetails, path: Path) -> Explanation:
    text = str(error.get("ctx", {}).get("expected", ""))
    known = [word for word in text.replace(" or ", ", ").replace("'", "").split(", ") if word]
    value = error["input"]
    match = nearest(value, known) if isinstance(value, str) else None
    fix = (
        f"Did you mean {match}? All choices: {', '.join(known)}."
        if match
        else (f"Use one of: {', '.join(known)}.")
    )
    return SpecCode.RANGE, f"{shown(value, path)} is not a valid choice.", fix


def _limit(error: ErrorDetails, path: Path) -> Explanation:
    bounds = {
        "gt": ("above {}", "a number above {}"),
        "ge": ("at least {}", "{} or more"),
        "lt": ("below {}", "a number below {}"),
        "le": ("at most {}", "{} or less"),
    }
    context = error.get("ctx", {})
    (rule, fix), bound = next((bounds[key], context[key]) for key in context if key in bounds)
    limit = f"{bound:g}" if isinstance(bound, float) else str(bound)
    return (
        SpecCode.RANGE,
        f"must be {rule.format(limit)}, not {shown(error['input'], path)}.",
        f"Use {fix.format(limit)}.",
    )


def _form(error: ErrorDetails, path: Path) -> Explanation:
    rule = f"{shown(error['input'], path)} does not have the right format."
    return SpecCode.TYPE, rule, _expected(path)


def _empty(error: ErrorDetails, path: Path) -> Explanation:
    return SpecCode.RANGE, "must not be empty.", _expected(path)


def _expected(path: Path) -> str:
    """Return a fix that quotes the field's docstring."""
    field = field_at(path)
    if field is None:
        return "See the spec reference."
    return f"Expected: {field.doc}"


def _rule(error: ErrorDetails, path: Path) -> Explanation:
    context: dict[str, Any] = error.get("ctx", {})
    return SpecCode(context["code"]), str(context["rule"]), str(context["fix"])


def _otherwise(error: ErrorDetails, path: Path) -> Explanation:
    return SpecCode.TYPE, f"{error['msg']}.", "See the spec reference."


_whole_number = _wrong_type("a whole number", "a whole number such as 8")
_number = _wrong_type("a number", "a number such as 0.1 or 6e-5")
_finite = _wrong_type("a finite number", "a number such as 0.1 or 6e-5")
_truth = _wrong_type(_TRUTH, "true or false")
_text = _wrong_type("text", "a single text after the colon")
_section = _wrong_type(_SECTION, "key: value lines below the key, indented")
_list = _wrong_type("a list", "the items below the key, each after a hyphen")

_EXPLANATIONS: dict[str, Callable[[ErrorDetails, Path], Explanation]] = {
    "extra_forbidden": _unknown_key,
    "missing": _missing,
    "int_type": _whole_number,
    "int_parsing": _whole_number,
    "int_from_float": _whole_number,
    "float_type": _number,
    "float_parsing": _number,
    "finite_number": _finite,
    "bool_type": _truth,
    "bool_parsing": _truth,
    "string_type": _text,
    "model_type": _section,
    "model_attributes_type": _section,
    "dict_type": _section,
    "mapping_type": _section,
    "tuple_type": _list,
    "list_type": _list,
    "enum": _choices,
    "literal_error": _choices,
    "greater_than": _limit,
    "greater_than_equal": _limit,
    "less_than": _limit,
    "less_than_equal": _limit,
    "string_pattern_mismatch": _form,
    "string_too_short": _empty,
    "too_short": _empty,
    "seatrial_rule": _rule,
}
