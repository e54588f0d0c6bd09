# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The JSON Schema accepts what the loader accepts, and explains every field."""

import re
from pathlib import Path
from typing import Any

import pytest

from seatrial.spec.fields import all_fields
from seatrial.spec.loader import loads
from seatrial.spec.schema import json_schema
from seatrial.spec.tree import parse

GOOD = (Path(__file__).parent / "good.yaml").read_text(encoding="utf-8")
SCHEMA = json_schema()
TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
KNOWN = {
    *("$defs", "$id", "$ref", "$schema", "additionalProperties", "anyOf", "const", "default"),
    *(
        "description",
        "enum",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "items",
        "maxItems",
        "maximum",
        "minItems",
    ),
    *("minLength", "minimum", "pattern", "properties", "propertyNames", "required", "title"),
    "type",
}


def accepts(schema: dict[str, Any], value: Any) -> bool:
    """Whether a value fits, by the few words of JSON Schema that ours uses."""
    unknown = set(schema) - KNOWN
    assert not unknown, f"teach this test {unknown}"
    if "$ref" in schema and not accepts(SCHEMA["$defs"][schema["$ref"].split("/")[-1]], value):
        return False
    if "anyOf" in schema and not any(accepts(choice, value) for choice in schema["anyOf"]):
        return False
    if "const" in schema and value != schema["const"]:
        return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    if "type" in schema and not has_type(schema["type"], value):
        return False
    if isinstance(value, str):
        return bool(re.search(schema.get("pattern", ""), value)) and len(value) >= schema.get(
            "minLength", 0
        )
    if isinstance(value, dict):
        return accepts_object(schema, value)
    if isinstance(value, list):
        return all(accepts(schema.get("items", {}), item) for item in value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        low, high = schema.get("minimum", value), schema.get("maximum", value)
        above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
        inside = (above is None or value > above) and (below is None or value < below)
        return bool(low <= value <= high and inside)
    return True


def has_type(names: str | list[str], value: Any) -> bool:
    if isinstance(value, bool):
        return "boolean" in names
    wanted = [names] if isinstance(names, str) else names
    return any(isinstance(value, TYPES[name]) for name in wanted)


def accepts_object(schema: dict[str, Any], value: dict[str, Any]) -> bool:
    properties, others = schema.get("properties", {}), schema.get("additionalProperties", True)
    if not set(schema.get("required", [])) <= set(value):
        return False
    for key, child in value.items():
        expected = properties.get(key, others)
        if expected is False or (isinstance(expected, dict) and not accepts(expected, child)):
            return False
    return True


def plain(text: str) -> Any:
    return parse(text, "run.yaml")[0].plain()


EVERYTHING = """\
apiVersion: seatrial.dev/v1alpha1
name: everything
model:
  dimensions: {family: llama, layers: 2, hidden_size: 64, heads: 4, vocab_size: 100,
               max_positions: 128, moe: {experts: 8, top_k: 2, expert_ffn_hidden_size: 32}}
data:
  sources:
    - {from: s3://corpora/a, weight: 0.5, files: "*.jsonl"}
    - {prepared: /data/b, weight: 1}
  split: [98, 2, 0]
training:
  steps: 100k
  micro_batch_size: 4
  global_batch_size: auto
  batch_schedule: [{global_batch_size: 256, until_tokens: 10B}]
  learning_rate: {peak: 1e-4}
parallelism: {tp_size: 8, sequence_parallel: true, recompute: full}
cluster:
  profile: eks
  storage: {tier: fsx, capacity: 16Ti}
  env: {NCCL_DEBUG: WARN}
  secrets: [{secret: hf, key: token, env: HF_TOKEN}]
monitoring: {wandb: {project: p}, prometheus: {port: 9400}}
engine: {options: {use-flash-attn: true, rampup-batch-size: [32, 32, 1000]}}
"""


@pytest.mark.parametrize("text", [GOOD, EVERYTHING], ids=["good", "everything"])
def test_what_the_loader_accepts_the_schema_accepts(text: str) -> None:
    loads(text, "run.yaml")
    assert accepts(SCHEMA, plain(text))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("name: slim-7b", "nmae: slim-7b"),
        ("{tokens: 150B}", "{tokens: 150B, toknes: 1}"),
        ("    - from:", "    - form:"),
        ("nodes: 2", "nodes: 0"),
        ("nodes: 2", 'nodes: "2"'),
        ("150B", "a lot"),
        ("150B}", "150B, hidden_dropout: 1.0}"),
        ("nodes: 2", "nodes: 2, storage: {capacity: 16}"),
        ("v1alpha1", "v2"),
        ("profile: eks, ", ""),
        ("hf://gpt2", "gpt2"),
    ],
)
def test_what_the_loader_refuses_the_schema_refuses(old: str, new: str) -> None:
    assert GOOD.count(old) == 1
    assert not accepts(SCHEMA, plain(GOOD.replace(old, new)))


def test_every_field_is_described_in_one_line() -> None:
    sections = [SCHEMA, *(part for part in SCHEMA["$defs"].values() if "properties" in part)]
    described = 0
    for section in sections:
        for name, field in section["properties"].items():
            text = field.get("description", "")
            assert text.endswith("."), f"{section['title']}.{name}"
            assert "\n" not in text, f"{section['title']}.{name}"
            described += 1
    assert described > 80


def test_every_field_that_messages_speak_of_is_described() -> None:
    assert [field.name for field in all_fields().values() if not field.doc] == []


def test_every_section_refuses_unknown_keys() -> None:
    sections = [SCHEMA, *(part for part in SCHEMA["$defs"].values() if "properties" in part)]
    assert all(section["additionalProperties"] is False for section in sections)


def test_every_choice_is_explained() -> None:
    for name, part in SCHEMA["$defs"].items():
        if "enum" in part:
            assert all(f"{choice}: " in part["description"] for choice in part["enum"]), name
