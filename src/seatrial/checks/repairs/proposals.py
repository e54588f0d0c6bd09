# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Proposes changes that may remove findings; each proposal is tried before it is used.

Respellings do not change the run. The proposals by code (the table at the end) change the run, so
`--fix` never writes them.
"""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from seatrial.catalog.catalog import Catalog
from seatrial.checks.rule import Repair, RepairKind, Situation
from seatrial.codes.engines import EngineCode
from seatrial.codes.planning import PlanCode
from seatrial.codes.rendering import RenderCode
from seatrial.codes.spec import SpecCode
from seatrial.errors import NotInCatalogError, SeatrialError
from seatrial.findings import Finding
from seatrial.secrets.names import names_secret
from seatrial.secrets.redaction import looks_secret
from seatrial.spec.fields import field_at, takes_null
from seatrial.spec.other_tool_names import fields_meant
from seatrial.spec.overrides import OVERRIDE
from seatrial.spec.respelling import key_meant, same_value, takes_text, value_meant, weights_meant
from seatrial.spec.secrets import gives_variable
from seatrial.spec.tree import Path, dotted, parse
from seatrial.spec.validation_errors import meant

Overrides = tuple[str, ...]
"""Overrides to apply together."""
MOST_NODES = 4096
LONGEST_NAME, LONGEST_LABEL = 40, 63
_NUMBER = re.compile(r"\d[\d,]*")
_VALUE = re.compile(r"[\w.,/:-]+|\[[\d ,.]+\]")
KEPT = ("initial_weights", "continue_from", "model", "data")
"""Sections that are never removed to fix a finding, because they define the run."""
PLANNED = ("parallelism.", "training.")
"""Sections whose fields the planner can choose."""
PARALLELISM_AUTO = tuple(
    f"parallelism.{name}=auto"
    for name in ("tp_size", "pp_size", "vp_size", "cp_size", "sharding", "recompute")
)


@dataclass(frozen=True, slots=True)
class Patient:
    """A finding and its spec."""

    finding: Finding
    spec: dict[str, Any]
    """The spec, as plain data."""
    situation: Situation | None
    """The run; `None` if there is no plan."""
    catalog: Catalog

    def value(self, field_name: str, default: Any = None) -> Any:
        """Return the value of a field in the spec."""
        found: Any = self.spec
        for key in field_name.split("."):
            found = found.get(key) if isinstance(found, dict) else None
        return default if found is None else found

    def number(self, field_name: str, default: int = 1) -> int:
        """Return the number that the spec sets for a field."""
        found = self.value(field_name)
        return found if isinstance(found, int) and not isinstance(found, bool) else default

    def gpus(self) -> int:
        """Return the number of GPUs per node; 8 if the node type is unknown."""
        try:
            return self.catalog.node_type(str(self.value("cluster.node_type", ""))).gpus or 8
        except NotInCatalogError:
            return 8


def proposals(
    finding: Finding, spec: dict[str, Any], situation: Situation | None, catalog: Catalog
) -> Iterator[Repair]:
    """Yield changes that may remove a finding: respellings first, then the smallest changes."""
    patient = Patient(finding, spec, situation, catalog)
    for overrides in respellings(patient):
        yield Repair(RepairKind.SAME_RUN, overrides)
    for overrides in _changes(patient):
        yield Repair(RepairKind.OTHER_RUN, overrides)


def _changes(patient: Patient) -> Iterator[Overrides]:
    """Yield changes to the run."""
    finding = patient.finding
    proposer = _BY_CODE.get(finding.code)
    if proposer is not None:
        yield from proposer(patient)
    # Try the values in the text of the fix first, then the default or the planner's choice.
    yield from _from_words(finding)
    name = finding.where.field
    if name and not name.startswith(KEPT):
        if _may_be_absent(name):
            yield (f"{name}=null",)
        # In other sections, `auto` would be read as a name.
        if name.startswith(PLANNED):
            yield (f"{name}=auto",)


def respellings(patient: Patient) -> Iterator[Overrides]:
    """Yield valid spellings of the same run."""
    path = path_of(patient.finding.where.field)
    value = value_at(patient.spec, path) if path else None
    target = key_meant(path, value) if value is not None else None
    # Never repeat a secret. The key `token` is not a secret: it can only mean `tokens`.
    if value is None or _holds_secret(value, str((target or path)[-1])):
        return
    name = patient.finding.where.field
    if target is not None and value_at(patient.spec, target) is None:
        yield f"{name}=null", f"{dotted(target)}={_written(value)}"
    if field_at(path) is not None:
        meant = value_meant(path, value)
        if meant is not None and (type(meant), meant) != (type(value), value):
            yield (f"{name}={_written(meant)}",)
    if isinstance(value, int | float) and takes_text(path):
        text = str(value).lower() if isinstance(value, bool) else str(value)
        yield (f"{name}={json.dumps(text)}",)
    for words in _from_words(patient.finding):
        _, _, written = words[0].partition("=")
        if isinstance(value, str) and same_value(path, value, written):
            yield words


def path_of(name: str) -> Path:
    """Split a field name such as `data.sources[0].weight` into keys."""
    words = re.findall(r"[^.\[\]]+", name)
    return tuple(int(word) if word.isdigit() else word for word in words)


def value_at(spec: Any, path: Path) -> Any:
    """Return the value at a path in plain data; `None` if there is none."""
    for key in path:
        if isinstance(spec, dict):
            spec = spec.get(key)
        elif isinstance(spec, list) and isinstance(key, int) and key < len(spec):
            spec = spec[key]
        else:
            return None
    return spec


def _written(value: Any) -> str:
    """Format a value for an override: text without quotes if YAML reads it as the same text."""
    if isinstance(value, str):
        with suppress(SeatrialError):
            node, problems = parse(value, OVERRIDE)
            if not problems and node.plain() == value:
                return value
    return json.dumps(value)


def _may_be_absent(name: str) -> bool:
    """True if a field may be absent. An implicit default is not a repair."""
    field = field_at(path_of(name))
    return field is None or takes_null(field)


def _from_words(finding: Finding) -> Iterator[Overrides]:
    """Yield the overrides and numbers in the text of a fix."""
    for word in re.findall(r"[a-z_]+(?:\.[\w-]+)+=[^\s,;]+", finding.fix):
        yield (word.rstrip("."),)
    match = re.match(r"(?:Use|Did you mean|Write)\s+(?:one of:\s+)?(.+)", finding.fix)
    if match and finding.where.field:
        named = re.split(r"[.?;]\s", match[1])[0]
        words = [
            word.strip().rstrip(".?;:").removeprefix("at most ").removeprefix("at least ")
            for word in re.split(r",\s+(?:or\s+)?|\s+or\s+", named)
        ]
        # If any word is not a value, this is a sentence and its words are not values.
        if all(_VALUE.fullmatch(word) for word in words):
            for word in words:
                text = word.replace(",", "") if _NUMBER.fullmatch(word) else word
                yield (f"{finding.where.field}={text}",)


def _divisors(number: int) -> list[int]:
    """Return the divisors of a number, the largest first."""
    return [part for part in range(number, 0, -1) if number % part == 0]


def _world(patient: Patient) -> Iterator[Overrides]:
    """Propose different numbers of nodes, or all GPUs on each node."""
    nodes = patient.number("cluster.nodes")
    if patient.value("cluster.processes_per_node") is not None:
        yield (f"cluster.processes_per_node={patient.gpus()}",)
        for more in (1, 2, 4):
            yield (f"cluster.processes_per_node={patient.gpus()}", f"cluster.nodes={nodes * more}")
    size = 1
    for name in ("tp", "pp", "cp", "ep"):
        size *= patient.number(f"parallelism.{name}_size")
    for count in sorted({-(-nodes // step) * step for step in (2, 3, 4, 8, 16, 32, 64)}):
        if nodes < count <= MOST_NODES:
            yield (f"cluster.nodes={count}",)
    needed = -(-size // patient.gpus())
    yield (f"cluster.nodes={max(needed, -(-nodes // needed) * needed)}",)


def _smaller_size(patient: Patient) -> Iterator[Overrides]:
    """Propose smaller degrees for the field, from the next smaller one down."""
    field_name = patient.finding.where.field
    size = patient.number(field_name)
    tried = [part for part in _divisors(size) if part < size]
    tried += [part for part in range(size - 1, 0, -1) if part not in tried]
    for part in tried[:8]:
        yield (f"{field_name}={part}",)
        if field_name == "parallelism.tp_size" and part == 1:
            yield (f"{field_name}={part}", "parallelism.sequence_parallel=false")


def _other_size(patient: Patient) -> Iterator[Overrides]:
    """Propose smaller and larger degrees for the field."""
    field_name = patient.finding.where.field
    size = patient.number(field_name)
    yield from _smaller_size(patient)
    for part in (size + 1, size + 2, size + 3, 2 * size):
        yield (f"{field_name}={part}",)


def _stages(patient: Patient) -> Iterator[Overrides]:
    """Propose uneven stages, then different numbers of stages."""
    field_name = patient.finding.where.field
    if field_name.endswith(("_layers", "_layout")):
        yield (f"{field_name}=null",)
    stages = patient.number("parallelism.pp_size")
    layers = patient.number("model.dimensions.layers", 0)
    if not layers and patient.value("model.preset"):
        try:
            layers = patient.catalog.model(patient.value("model.preset")).architecture.layers
        except NotInCatalogError:
            layers = 0
    if layers and stages > 2:
        middle = round(layers / stages)
        for inner in (middle, middle + 1):
            ends = layers - inner * (stages - 2)
            first, last = ends // 2, ends - ends // 2
            if first > 0:
                yield (
                    f"parallelism.first_stage_layers={first}",
                    f"parallelism.last_stage_layers={last}",
                )
    yield from _smaller_size(patient)


def _sequence(patient: Patient) -> Iterator[Overrides]:
    """Propose sequence parallelism, or sequence lengths that can be split."""
    if patient.finding.where.field == "parallelism.sequence_parallel":
        yield ("parallelism.sequence_parallel=true",)
        yield ("parallelism.sequence_parallel=false",)
    length = patient.number("training.sequence_length", 0)
    for step in (8, 16, 32, 64, 128, 256, 1024, 4096):
        if length >= step:
            yield (f"training.sequence_length={length // step * step}",)
            yield (f"training.sequence_length={-(-length // step) * step}",)


def _across(patient: Patient) -> Iterator[Overrides]:
    """Propose tensor parallelism within a node, and pipeline stages for the rest."""
    tp, pp = patient.number("parallelism.tp_size"), patient.number("parallelism.pp_size")
    inside = patient.gpus()
    yield f"parallelism.tp_size={inside}", f"parallelism.pp_size={pp * tp // inside}"
    yield (f"parallelism.tp_size={inside}",)


def _batch(patient: Patient) -> Iterator[Overrides]:
    """Propose global batch sizes near the current one, then different micro-batch sizes."""
    size = patient.number("training.global_batch_size")
    yield from _from_words(patient.finding)
    for step in (2, 4, 8, 16, 32, 64, 128, 256, 512):
        yield (f"training.global_batch_size={-(-size // step) * step}",)
    yield ("training.micro_batch_size=1",)
    yield from _without_schedule(patient)


def _without_schedule(patient: Patient) -> Iterator[Overrides]:
    """Propose one batch size for the whole run."""
    if patient.value("training.batch_schedule"):
        yield ("training.batch_schedule=[]",)


def _memory(patient: Patient) -> Iterator[Overrides]:
    """Propose changes that free memory, the cheapest first, and then the planner's layout."""
    micro = patient.number("training.micro_batch_size")
    sharded = patient.value("parallelism.sharding") in ("optimizer", "fsdp")
    share = () if sharded else ("parallelism.sharding=optimizer",)
    if share:
        yield share
    if patient.value("parallelism.sequence_parallel") is False:
        yield ("parallelism.sequence_parallel=true",)
    while micro > 1:
        micro //= 2
        yield (*share, f"training.micro_batch_size={micro}")
    yield (*share, "parallelism.recompute=selective")
    yield (*share, "parallelism.recompute=full")
    least = (*share, "training.micro_batch_size=1", "parallelism.recompute=full")
    yield least
    loose = (*PARALLELISM_AUTO, "parallelism.sequence_parallel=auto")
    micro_auto = "training.micro_batch_size=auto"
    yield (*loose, micro_auto)
    yield (*loose, "parallelism.ep_size=auto", micro_auto)
    nodes = patient.number("cluster.nodes")
    all_gpus = (
        ("cluster.processes_per_node=null",) if patient.value("cluster.processes_per_node") else ()
    )
    named = re.search(r"at least ([\d,]+) nodes", patient.finding.fix)
    if named:
        wide = (*all_gpus, f"cluster.nodes={named[1].replace(',', '')}", "parallelism=null")
        yield (*wide, micro_auto)
        yield (*wide, micro_auto, "training.global_batch_size=auto")
    for more in (1, 2, 4, 8, 16):
        wider = (*all_gpus, f"cluster.nodes={nodes * more}")
        yield (*wider, *least)
        yield (*wider, "parallelism=null", micro_auto)


def _length(patient: Patient) -> Iterator[Overrides]:
    """Propose a run of at least one step."""
    size = patient.number("training.global_batch_size")
    for name in ("steps", "samples", "tokens"):
        if patient.value(f"training.{name}") is not None:
            yield (f"training.{name}={size}",)
            yield (f"training.{name}=null", "training.steps=100")


def _warmup(patient: Patient) -> Iterator[Overrides]:
    """Propose a warm-up that is a fraction of the run."""
    yield ("training.learning_rate.warmup={fraction: 0.01}",)
    yield (
        "training.learning_rate.warmup={fraction: 0.01}",
        "training.learning_rate.decay={fraction: 1.0}",
    )


def _anneal(patient: Patient) -> Iterator[Overrides]:
    """Propose the usual tenth of the run, and then also the usual warm-up."""
    anneal = "training.learning_rate.anneal={fraction: 0.1}"
    yield (anneal,)
    yield anneal, "training.learning_rate.warmup={fraction: 0.01}"


def _split(patient: Patient) -> Iterator[Overrides]:
    """Propose a share for validation, or no evaluation."""
    yield ("data.split=[98, 2, 0]",)
    yield ("training.evaluation.batches=0",)


def _variable(patient: Patient) -> Iterator[Overrides]:
    """Propose removing this variable, and setting its replacement if there is one."""
    name = patient.finding.where.field.rpartition(".")[2]
    env = patient.value("cluster.env", {})
    if isinstance(env, dict):
        left = {key: text for key, text in env.items() if key != name}
        without = f"cluster.env={json.dumps(left)}"
        node = str(patient.value("cluster.node_type", ""))
        if name == "FI_PROVIDER" and node:
            yield without, f"cluster.fabric={patient.catalog.node_type(node).fabric}"
        yield (without,)


def _option(patient: Patient) -> Iterator[Overrides]:
    """Propose the value of this option in its performance field, or removing this option."""
    name = patient.finding.where.field.removeprefix("engine.options.")
    options = patient.value("engine.options", {})
    if isinstance(options, dict) and name in options:
        left = {key: value for key, value in options.items() if key != name}
        field, value = re.search(r"performance\.\w+", patient.finding.fix), options[name]
        if field and isinstance(value, bool | int | float):
            meant_value = value is not True if name[:3] in ("no-", "no_") else value
            yield f"engine.options={json.dumps(left)}", f"{field[0]}={json.dumps(meant_value)}"
        yield (f"engine.options={json.dumps(left)}",)


def _location(patient: Patient) -> Iterator[Overrides]:
    """Propose the same directory on the volume."""
    mount = str(patient.value("cluster.storage.mount", "/data")).rstrip("/")
    name = patient.finding.value.rstrip("/").rpartition("/")[2]
    yield (f"{patient.finding.where.field}={mount}/{name}",)


def _contradiction(patient: Patient) -> Iterator[Overrides]:
    """Propose valid Kubernetes names, and divisible batches and heads."""
    field_name = patient.finding.where.field
    if field_name == "name":
        plain = re.sub(r"[^a-z0-9]+", "-", str(patient.value("name", "")).lower()).strip("-")
        if plain and not plain[0].isalpha():
            digits = re.match(r"[\d-]*", plain)
            rest = plain[digits.end() :] if digits else plain
            lead = plain[: digits.end()].strip("-") if digits else ""
            yield (f"name={'-'.join(part for part in (rest, lead) if part)}",)
            plain = f"run-{plain}"
        yield (f"name={plain[:LONGEST_NAME].rstrip('-')}",)
    if field_name in ("cluster.queue", "cluster.namespace"):
        kept = "a-z0-9." if field_name == "cluster.queue" else "a-z0-9"
        plain = re.sub(f"[^{kept}]+", "-", str(patient.value(field_name, "")).lower())
        yield (f"{field_name}={plain[:LONGEST_LABEL].strip('-.')}",)
    if field_name == "data.split":
        yield ("data.split=[98, 2, 0]",)
    if field_name == "training.global_batch_size":
        micro, size = patient.number("training.micro_batch_size"), patient.number(field_name)
        for ranks in (2**power for power in range(10)):
            near = max(1, round(size / (micro * ranks))) * micro * ranks
            yield (f"{field_name}={near}",)
        yield ("training.micro_batch_size=1",)
    if field_name == "model.dimensions.kv_heads":
        heads = patient.number("model.dimensions.heads")
        for part in _divisors(heads):
            if part <= heads // 4 or part == 1:
                yield (f"{field_name}={part}",)


def _misspelt(patient: Patient) -> Iterator[Overrides]:
    """Propose setting the value at the key that was probably meant, if that key is not set."""
    field_name = patient.finding.where.field
    path = path_of(field_name)
    value = value_at(patient.spec, path)
    near = meant(path)
    targets: list[Path] = [(*path[:-1], near)] if near else []
    targets += [tuple(name.split(".")) for name in fields_meant(str(path[-1]))]
    targets += [tuple(name.split(".")) for name in weights_meant(path, value)]
    # The value of an unknown key may be a secret. In that case, do not show it.
    if value is None or _holds_secret(value):
        return
    for target in targets:
        if value_at(patient.spec, target) is None:
            yield f"{field_name}=null", f"{dotted(target)}={_written(value)}"


def _holds_secret(value: Any, name: str = "") -> bool:
    """True if a value, or its name, looks like a secret."""
    if isinstance(value, dict):
        return any(_holds_secret(below, str(key)) for key, below in value.items())
    if isinstance(value, list):
        return any(_holds_secret(below, name) for below in value)
    return looks_secret(value, name) or names_secret(name)


def _secret(patient: Patient) -> Iterator[Overrides]:
    """Propose a reference to a secret for a variable, or an address without its signature."""
    field_name = patient.finding.where.field
    if field_name.startswith("cluster.env."):
        name = field_name.rpartition(".")[2]
        known = patient.value("cluster.secrets", [])
        own = name.lower().replace("_", "-")
        ref = {"secret": own, "key": "value", "env": name}
        added = (f"cluster.secrets={json.dumps([*known, ref])}",)
        for removal in _variable(patient):
            yield *removal, *(() if gives_variable(known, name) else added)
    match = re.match(r"data\.sources\[(\d+)\]\.from", field_name)
    if match:
        sources = patient.value("data.sources", [])
        address = str(sources[int(match[1])].get("from", ""))
        plain = re.sub(r"//[^/@]*@", "//", address.partition("?")[0])
        yield (f"{field_name}={plain}",)


_BY_CODE: dict[str, Callable[[Patient], Iterator[Overrides]]] = {
    PlanCode.WORLD: _world,
    PlanCode.EXPERT_GRID: _world,
    PlanCode.HEADS: _smaller_size,
    PlanCode.WIDTH: _smaller_size,
    PlanCode.STAGES: _stages,
    PlanCode.CHUNKS: _other_size,
    PlanCode.EXPERTS: _smaller_size,
    PlanCode.SEQUENCE_PARALLEL: _sequence,
    PlanCode.CONTEXT: _sequence,
    PlanCode.ACROSS_NODES: _across,
    PlanCode.NODE_LINKS: _across,
    PlanCode.BATCH: _batch,
    PlanCode.INTERLEAVED_BATCH: _batch,
    PlanCode.BATCH_SCHEDULE: _without_schedule,
    PlanCode.NO_FIT: _memory,
    PlanCode.RISKY: _memory,
    PlanCode.STATE: _memory,
    PlanCode.LENGTH: _length,
    PlanCode.WARMUP: _warmup,
    PlanCode.ANNEAL: _anneal,
    PlanCode.EVALUATION: _split,
    EngineCode.UNKNOWN_OPTION: _option,
    EngineCode.MODELLED_OPTION: _option,
    EngineCode.OPTION_VALUE: _option,
    EngineCode.DERIVED_OPTION: _option,
    EngineCode.UNSUPPORTED: _option,
    RenderCode.FORBIDDEN_VARIABLE: _variable,
    RenderCode.RESERVED_VARIABLE: _variable,
    RenderCode.LOCATION: _location,
    SpecCode.CONTRADICTION: _contradiction,
    SpecCode.TYPE: _contradiction,
    SpecCode.UNKNOWN_KEY: _misspelt,
    SpecCode.SECRET: _secret,
}
"""The function that proposes changes, by code."""
