# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The page of the spec: every field by section, the rules between fields, and an example."""

from collections.abc import Mapping
from enum import Enum, StrEnum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, TypeAdapter
from pydantic.fields import FieldInfo

from docs.tools.reference.markdown import code, doc_of, docs_of, fenced, member_docs, page, table
from seatrial.catalog.catalog import Catalog
from seatrial.errors import FindingsError
from seatrial.planning.planner import plan_run
from seatrial.planning.resolve import resolve_basis
from seatrial.spec import cluster, data, engine, scalars
from seatrial.spec.base import SpecModel
from seatrial.spec.fields import holds_list, section_of
from seatrial.spec.loader import loads
from seatrial.spec.model import Architecture, Family
from seatrial.spec.run import API_VERSION, RunSpec
from seatrial.spec.scalars import ByteSize

# Types whose form no annotation tells: their validators read it.
_NAMED: list[tuple[Any, str]] = [
    (scalars.Count, "count, such as `1500`, `100k` or `150B`"),
    (scalars.ByteSize, "size, such as `500Gi` or `16Ti`"),
    (scalars.AutoInt, "whole number above 0, or `auto`"),
    (scalars.AutoFlag, "`true`, `false` or `auto`"),
    (data.Split, "three numbers, such as `[98, 2, 0]`"),
    (cluster.Variable, "name"),
    (engine.EngineName, "choice"),
    (engine.OptionName, "name"),
    (engine.OptionValue, "switch, number, text or list"),
]
_PLAIN = {str: "text", bool: "`true` or `false`", int: "whole number", float: "number"}


def type_words(annotation: Any) -> str:
    """What a person may write for a field of this type."""
    for known, words in _NAMED:
        if annotation is known:
            return words
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _bounded(arguments[0], arguments[1:])
    if origin in (Union, UnionType):
        return " or ".join(type_words(part) for part in arguments if part is not NoneType)
    if origin is Literal:
        return " or ".join(f"`{value}`" for value in arguments)
    if origin is tuple:
        return f"list of {_plural(arguments[0])}"
    if origin is Mapping:
        return f"{type_words(arguments[0])}: {type_words(arguments[1])}"
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return "choice"
    if isinstance(annotation, type) and issubclass(annotation, SpecModel):
        return "section"
    raise SystemExit(f"spec_page.py has no words for {annotation}. Add them.")


def _plural(annotation: Any) -> str:
    words = type_words(annotation)
    return f"{words}s" if words == "section" else words


def _bounded(annotation: Any, metadata: tuple[Any, ...]) -> str:
    limits: dict[str, Any] = {}
    for item in metadata:
        parts = item.metadata if isinstance(item, FieldInfo) else [item]
        for part in parts:
            for name in ("gt", "ge", "lt", "le"):
                if getattr(part, name, None) is not None:
                    limits[name] = getattr(part, name)
    # Above this a number is no count of anything; it is a guard, not a limit worth reading.
    if limits.get("le") == scalars.LARGEST:
        del limits["le"]
    words = type_words(annotation)
    if "gt" in limits:
        words += f" above {limits['gt']}"
    if "ge" in limits:
        words += f" from {limits['ge']}" + ("" if "le" in limits else " up")
    if "le" in limits:
        words += f" to {limits['le']}"
    return words


EXAMPLE = f"""\
apiVersion: {API_VERSION}
name: my-first-run

model: {{preset: gpt3-1.3b}}

data:
  sources:
    - from: s3://MY-BUCKET/corpus
  tokenizer: hf://gpt2

training:
  tokens: 26B
  micro_batch_size: 4
  global_batch_size: 512

parallelism:
  tp_size: 1
  pp_size: 1
  cp_size: 1
  sharding: optimizer
  recompute: selective

cluster: {{profile: eks, node_type: p4d.24xlarge, nodes: 2}}

checkpoints: {{every_steps: 1000}}
"""

# What breaks each rule between fields of the example; the page shows the real messages.
BREAKING: list[tuple[str, ...]] = [
    ("model.preset=null",),
    ("model.dimensions={family: gpt, layers: 2, hidden_size: 64, heads: 4, vocab_size: 1000, "
     "max_positions: 128}",),
    ("initial_weights={}",),
    ("continue_from={run: parent}", "initial_weights={checkpoint: /data/parent}"),
    ("data.mock=true",),
    ("data.sources[0].prepared=/data/corpus",),
    ("data.sources=[{from: /a, weight: 1}, {from: /b}]",),
    ("training.steps=1000",),
    ("training.global_batch_size=510",),
    ("training.learning_rate.warmup={steps: 10, fraction: 0.1}",),
    ("training.learning_rate={peak: 1.0e-4, minimum: 1.0e-3}",),
    ("parallelism.sequence_parallel=true",),
    ("cluster.storage={claim: mine, tier: fsx-lustre-250}",),
    ("cluster.secrets=[{secret: huggingface}]",),
    ("cluster.secrets=[{secret: huggingface, env: HF_TOKEN}]",),
]  # fmt: skip

INTRODUCTION = """\
A spec is one YAML file. It contains your choices; Seatrial derives everything else. Unknown keys
are errors. In the tables, *required* means that there is no default, and *absent* that the field is
not set by default. With `auto`, the planner chooses the value: `seatrial plan` shows its choice and
the reasons, and `seatrial validate` accepts it with a note."""

DERIVED = """\
Fields that you omit are derived from the family and the sizes: `kv_heads` is `heads`,
`head_dim` is `hidden_size` / `heads`, `ffn_hidden_size` is 4 × `hidden_size`, and the parts are:"""


def spec_page() -> str:
    loaded = loads(EXAMPLE, "run.yaml")
    plan_run(resolve_basis(loaded, Catalog()))
    return page(
        "# Spec",
        INTRODUCTION,
        "## A complete small example",
        "This spec is valid and resolves to a plan. All other fields have their defaults.",
        fenced(EXAMPLE, "yaml"),
        "## Top level",
        *_section(RunSpec, ""),
        *_below(RunSpec, ""),
        "## Rules between fields",
        "A valid field can still contradict another one. The left column shows a change to the "
        "example above, the right column the resulting error.",
        table(("change", "error"), [_rule(overrides) for overrides in BREAKING]),
    )


def _below(section: type[SpecModel], prefix: str) -> list[str]:
    """The sections below a section, each with its fields."""
    blocks = []
    hints = get_type_hints(section, include_extras=True)
    for attribute, info in section.model_fields.items():
        inner = section_of(hints[attribute])
        if inner is None:
            continue
        brackets = "[]" if holds_list(hints[attribute]) else ""
        name = f"{prefix}{info.alias or attribute}{brackets}"
        blocks += [f"## `{name}`", doc_of(inner), *_section(inner, f"{name}.")]
        blocks += _below(inner, f"{name}.")
    return blocks


def _section(section: type[SpecModel], prefix: str) -> list[str]:
    """The fields of a section and the choices of each."""
    docs = docs_of(section, section.model_fields)
    hints = get_type_hints(section, include_extras=True)
    rows, choices = [], []
    for attribute, info in section.model_fields.items():
        key = info.alias or attribute
        default = _default(section, attribute, key)
        rows.append((code(key), type_words(hints[attribute]), default, docs[attribute]))
        meaning, values = _choices(hints[attribute])
        if values:
            lines = table(("value", "meaning"), [(code(v), doc) for v, doc in values.items()])
            choices += [f"Choices of `{prefix}{key}`: {_lower(meaning)}", lines]
    derived = [DERIVED, _family_parts()] if section is Architecture else []
    return [table(("key", "type", "default", "meaning"), rows), *derived, *choices]


def _default(section: type[SpecModel], attribute: str, key: str) -> str:
    """The default of a field, or that there is none."""
    info = section.model_fields[attribute]
    extra = section.model_config.get("json_schema_extra")
    must = extra.get("required") if isinstance(extra, dict) else None
    if info.is_required():
        return "derived" if isinstance(must, list) and key not in must else "required"
    value = info.get_default()
    if value is None:
        return "absent"
    if isinstance(value, BaseModel):
        given = value.model_dump(exclude_defaults=True)
        words = ", ".join(f"{name}: {fact}" for name, fact in given.items())
        return code(f"{{{words}}}") if words else "its own defaults"
    if isinstance(value, bool):
        return code(str(value).lower())
    if isinstance(value, tuple):
        return code(f"[{', '.join(f'{number:g}' for number in value)}]") if value else "none"
    if value in ("", {}):
        return "none"
    if get_type_hints(section, include_extras=True)[attribute] is ByteSize:
        return code(TypeAdapter(ByteSize).dump_python(value, mode="json"))
    return code(f"{value:g}" if isinstance(value, float) else value)


def _choices(annotation: Any) -> tuple[str, dict[str, str]]:
    """The meaning of a field's choices, and the meaning of each; empty if it has none."""
    if annotation is engine.EngineName:
        engines = {name: one.description for name, one in engine.REGISTERED_ENGINES.items()}
        return "The training engines that a run can use.", engines
    enum = _enum(annotation)
    return (doc_of(enum), member_docs(enum)) if enum is not None else ("", {})


def _enum(annotation: Any) -> type[StrEnum] | None:
    """The enum inside an annotation, if there is one."""
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return annotation
    return next(filter(None, map(_enum, get_args(annotation))), None)


def _family_parts() -> str:
    """The parts that each family brings, read off models that state nothing else."""
    sizes = {"layers": 2, "hidden_size": 64, "heads": 4, "vocab_size": 1000, "max_positions": 128}
    models = [Architecture.model_validate(sizes | {"family": family}) for family in Family]
    parts = ("positions", "norm", "activation", "linear_bias", "tied_embeddings")
    rows = [(code(part), *(_shown(getattr(model, part)) for model in models)) for part in parts]
    return table(("part", *(code(family) for family in Family)), rows)


def _shown(value: object) -> str:
    return code(str(value).lower() if isinstance(value, bool) else value)


def _rule(overrides: tuple[str, ...]) -> tuple[str, str]:
    """What a change of the example is answered with."""
    change = "<br>".join(code(override) for override in overrides)
    try:
        loads(EXAMPLE, "run.yaml", overrides)
    except FindingsError as error:
        if len(error.findings) == 1:
            finding = error.findings[0]
            return change, f"{finding.where.field}: {finding.rule} {finding.fix}"
        said = [finding.one_line() for finding in error.findings]
        raise SystemExit(f"{overrides} breaks more than one rule: {said}") from None
    raise SystemExit(f"{overrides} breaks no rule. Change BREAKING in spec_page.py.")


def _lower(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]
