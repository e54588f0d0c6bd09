# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Convert pydantic's errors about an entry to findings with file and line."""

from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from seatrial.catalog.reading import place
from seatrial.codes.catalog import CatalogCode, problem
from seatrial.docstrings import field_docs
from seatrial.findings import Finding
from seatrial.spec.secrets import shown
from seatrial.spec.tree import dotted

_TYPES = {
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
    "string_type": "text in quotes",
    **dict.fromkeys(("tuple_type", "list_type"), "a list in brackets"),
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "a table"),
    **dict.fromkeys(
        ("date_type", "date_parsing", "date_from_datetime_parsing", "date_from_datetime_inexact"),
        "a date such as 2026-11-01",
    ),
}
_LIMITS = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}


def invalid(
    error: ValidationError, kind: str, name: str, entry: type[BaseModel], file: Path
) -> list[Finding]:
    """Return one finding per fact that does not match the schema of its kind."""
    found = []
    for detail in error.errors():
        facts = detail["loc"]
        rule, fix = _explained(detail, kind, entry)
        where = place(file, name, dotted((name, *facts)), facts)
        absent = detail["type"] in ("missing", "extra_forbidden")
        value = "" if absent else shown(detail["input"], facts)
        found.append(problem(CatalogCode.INVALID, where, rule, fix, value))
    return found


def _explained(detail: ErrorDetails, kind: str, entry: type[BaseModel]) -> tuple[str, str]:
    """Return rule and fix for one error."""
    facts, context, mistake = detail["loc"], detail.get("ctx", {}), detail["type"]
    fact = str(facts[-1]) if facts else ""
    around = _model_at(entry, facts[:-1])
    doc = field_docs(around).get(fact, "") if around else ""
    expected = f"Expected: {doc}" if doc else "Correct the value in the file."
    value = shown(detail["input"], facts)
    if mistake == "extra_forbidden":
        whose = kind if len(facts) == 1 else dotted(facts[:-1])
        known = ", ".join(around.model_fields) if around else ""
        return f"{fact} is not a known fact.", f"The facts of {whose} are: {known}."
    if mistake == "missing":
        return f"{fact} is required but missing.", f"Add {fact}: {doc}" if doc else f"Add {fact}."
    if mistake == "string_too_short":
        return _too_short(fact, value, context["min_length"])
    if mistake in _TYPES:
        return f"must be {_TYPES[mistake]}, not {value}.", expected
    limit = next((limit for limit in _LIMITS if limit in context), None)
    if limit is not None:
        return f"must be {_LIMITS[limit]} {context[limit]}, not {value}.", expected
    if mistake in ("enum", "literal_error"):
        choices = str(context.get("expected", "")).replace("'", "").replace(" or ", ", ")
        return f"{value} is not a valid choice.", f"Use one of: {choices}."
    if mistake == "string_pattern_mismatch":
        return f"{value} does not have the right format.", expected
    if mistake == "seatrial_rule":
        return str(context["rule"]), str(context["fix"])
    return f"{value} is not valid: {detail['msg']}.", expected


def _too_short(fact: str, value: str, least: int) -> tuple[str, str]:
    if fact == "source":
        fix = f"State the source in at least {least} characters."
        return f"{value} is too short for a source.", fix
    return f"{value} is too short.", f"Write at least {least} characters."


def _model_at(entry: type[BaseModel], facts: tuple[str | int, ...]) -> type[BaseModel] | None:
    """Return the model class of the table at a path inside an entry, or None."""
    model: type[BaseModel] | None = entry
    for fact in facts:
        if isinstance(fact, str) and model is not None:
            field = model.model_fields.get(fact)
            model = _model_in(field.annotation) if field else None
    return model


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the model class in an annotation such as `X | None` or `tuple[X, ...]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    found = (_model_in(argument) for argument in get_args(annotation))
    return next((model for model in found if model is not None), None)
