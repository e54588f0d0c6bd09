# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The JSON Schema of a spec, for editors; descriptions come from the field docstrings."""

from enum import StrEnum
from typing import Any

from pydantic import BaseModel

from seatrial.docstrings import field_docs
from seatrial.spec.base import SpecModel
from seatrial.spec.fields import section_of
from seatrial.spec.run import API_VERSION, RunSpec


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of the current spec format."""
    schema = RunSpec.model_json_schema(by_alias=True)
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["$id"] = f"https://{API_VERSION}/run.json"
    schema["title"] = "Seatrial run spec"
    definitions = schema["$defs"]
    for section in _sections(RunSpec):
        described = schema if section is RunSpec else definitions[section.__name__]
        docs = field_docs(section)
        for attribute, info in section.model_fields.items():
            described["properties"][info.alias or attribute]["description"] = docs[attribute]
    for enum in _enums(RunSpec):
        docs = field_docs(enum)
        choices = "; ".join(f"{member.value}: {docs[member.name]}" for member in enum)
        definitions[enum.__name__]["description"] = choices
    return schema


def _sections(section: type[SpecModel]) -> list[type[SpecModel]]:
    """Return the section and all its subsections, without duplicates."""
    found: dict[type[SpecModel], None] = {section: None}
    for info in section.model_fields.values():
        below = section_of(info.annotation)
        if below is not None:
            found |= dict.fromkeys(_sections(below))
    return list(found)


def _enums(root: type[SpecModel]) -> set[type[StrEnum]]:
    """Return the enums that the fields of all sections use."""
    return {
        part
        for section in _sections(root)
        for info in section.model_fields.values()
        for part in (info.annotation, *getattr(info.annotation, "__args__", ()))
        if isinstance(part, type) and issubclass(part, StrEnum) and not issubclass(part, BaseModel)
    }
