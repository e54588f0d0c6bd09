# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Spec -> Plan: every value that a run needs, or every reason why it cannot be had."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType

from seatrial.catalog.catalog import Catalog, Kind
from seatrial.catalog.models import ModelPreset
from seatrial.catalog.node_types import NodeType
from seatrial.catalog.profiles import Profile
from seatrial.codes.planning import PlanCode
from seatrial.errors import FindingsError, NotInCatalogError
from seatrial.findings import Finding
from seatrial.planning import layout_rules, length_rules, machine_rules
from seatrial.planning.choices import Choices, filled, open_fields, origins_of
from seatrial.planning.engine_limits import EngineLimits, limits_of
from seatrial.planning.finding_report import FindingReport
from seatrial.planning.layout import Degrees, RankLayout
from seatrial.planning.length import Length, Schedule, run_length, span_samples
from seatrial.planning.parameters import (
    active_parameters,
    padded_vocab_size,
    rank_parameters,
    total_parameters,
)
from seatrial.planning.plan import Batch, Machines, Origin, Plan, PlannedModel
from seatrial.planning.stages import Stage
from seatrial.spec.cluster import Operator
from seatrial.spec.engine import DEFAULT_ENGINE
from seatrial.spec.loader import LoadedSpec
from seatrial.spec.model import Architecture
from seatrial.spec.parallelism import Recompute, Sharding
from seatrial.spec.run import RunSpec
from seatrial.spec.scalars import AUTO
from seatrial.units import decimal_quotient

DEFAULT_PEAK_LEARNING_RATE = 3e-4
"""For a model without a published rate: GPT-3's for its 760M size (arXiv 2005.14165, table 2.1)
is 2.5e-4, Llama 2's for 7B (arXiv 2307.09288, section 2.2) is 3e-4."""


@dataclass(frozen=True, slots=True)
class Basis:
    """What a layout is for: all of a spec that a plan needs before it, resolved once."""

    loaded: LoadedSpec
    """The spec with its places."""
    catalog: Catalog
    preset: tuple[str, ModelPreset] | None
    """The preset by name, if one is named."""
    architecture: Architecture
    """Every dimension of the model."""
    machines: Machines
    """The machines of the run."""
    sequence_length: int
    """Tokens of one sequence."""
    origins: Mapping[str, Origin]
    """Where the values of these fields came from."""
    findings: tuple[Finding, ...]
    """Warnings that came up on the way."""
    limits: EngineLimits
    """What the engine can do."""

    @property
    def open_fields(self) -> list[str]:
        """The fields that the spec leaves to the planner."""
        return open_fields(self.loaded.spec, self.architecture)

    @property
    def published_tokens(self) -> int:
        """Tokens of a step as the model's authors trained it; 0 when they do not say."""
        preset = self.preset[1] if self.preset else None
        if preset is None or preset.global_batch_size is None:
            return 0
        return preset.global_batch_size * preset.sequence_length


def basis(loaded: LoadedSpec, catalog: Catalog) -> Basis:
    """What a layout is for; raises with every finding when names or machines are wrong."""
    return _Resolution(loaded, catalog).basis()


def plan_on(known: Basis, choices: Choices | None = None) -> Plan:
    """The plan of a spec with choices for its open fields; raises with every finding at once."""
    choices = choices or {}
    origins = origins_of(choices, known.published_tokens // known.sequence_length)
    resolution = _Resolution(filled(known.loaded, choices), known.catalog, origins)
    return resolution.plan(known)


def resolve(loaded: LoadedSpec, catalog: Catalog) -> Plan:
    """The plan of a spec that leaves nothing to the planner; raises with every finding at once."""
    return plan_on(basis(loaded, catalog))


@dataclass
class _Resolution:
    """One pass from spec to plan; what it finds on the way is reported together."""

    loaded: LoadedSpec
    catalog: Catalog
    filled: Mapping[str, Origin] = field(default_factory=dict)
    origins: dict[str, Origin] = field(default_factory=dict)
    autos: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.spec: RunSpec = self.loaded.spec
        self.report = FindingReport(self.loaded)

    def plan(self, found: Basis) -> Plan:
        """Resolve what stands on the basis: the layout, then batch and length."""
        self.origins |= found.origins
        self.report.findings += found.findings
        preset, architecture, machines = found.preset, found.architecture, found.machines
        sequence_length = found.sequence_length
        degrees = self.degrees(architecture)
        self.report_autos()
        self.report.stop_if_errors()
        split = degrees.tp > 1 and self.spec.parallelism.sequence_parallel is True
        stages = self.check_layout(architecture, machines, degrees, sequence_length, split=split)
        self.report.stop_if_errors()
        layout = _layout(machines.world_size, degrees)
        batch = self.batch(layout, sequence_length)
        length, schedule = self.length(batch, sequence_length, preset)
        self.report.stop_if_errors()
        multiple = found.limits.vocab_multiple
        padded = padded_vocab_size(architecture.vocab_size, layout.tp_size, multiple)
        home = f"{self.spec.cluster.storage.mount}/{self.spec.name}"
        stage_parameters = tuple(
            rank_parameters(architecture, padded, layout, stage) for stage in stages
        )
        self.check_state(max(stage_parameters), layout, machines.accelerator)
        return Plan(
            spec=self.spec,
            model=PlannedModel(
                name=preset[0] if preset else "custom",
                architecture=architecture,
                sequence_length=sequence_length,
                padded_vocab_size=padded,
                parameters=total_parameters(architecture, padded),
                active_parameters=active_parameters(architecture, padded),
                tokenizer=self.tokenizer(preset),
            ),
            machines=machines,
            layout=layout,
            sequence_parallel=split,
            sharding=self.spec.parallelism.sharding,
            recompute=self.spec.parallelism.recompute,
            stages=stages,
            stage_parameters=stage_parameters,
            batch=batch,
            length=length,
            schedule=schedule,
            save_every_steps=self.number("checkpoints.every_steps"),
            checkpoint_location=self.path("checkpoints.location", f"{home}/checkpoints"),
            data_location=self.path("data.location", f"{home}/data"),
            origins=MappingProxyType(self.origins | dict(self.filled)),
            findings=tuple(self.report.findings),
        )

    def basis(self) -> Basis:
        """Model, machines and sequence length; names of both that are wrong are told together."""
        try:
            preset, architecture = self.model()
        except FindingsError:
            self.report_machines()
            raise
        machines = self.machines()
        sequence_length = self.sequence_length(preset)
        self.report.stop_if_errors()
        return Basis(
            self.loaded,
            self.catalog,
            preset,
            architecture,
            machines,
            sequence_length,
            MappingProxyType(dict(self.origins)),
            tuple(self.report.findings),
            limits_of(self.spec),
        )

    def report_machines(self) -> None:
        """Look at the machines of a run whose model is wrong; raises with all that was found."""
        of_model, self.report.findings = self.report.findings, []
        with suppress(FindingsError):
            self.machines()
        self.report.findings += of_model
        self.report.stop_if_errors()

    def model(self) -> tuple[tuple[str, ModelPreset] | None, Architecture]:
        """The preset, if one is named, and the architecture."""
        section = self.spec.model
        if section.dimensions is not None:
            return None, section.dimensions
        name = self.known(Kind.MODELS, "model.preset", section.preset or "")
        self.report.stop_if_errors()
        preset = self.catalog.model(name)
        if preset.engine not in (DEFAULT_ENGINE, self.spec.engine.name):
            self.report.error(
                PlanCode.ENGINE,
                "model.preset",
                f"{name} is trained by {preset.engine}, and the engine is {self.spec.engine.name}.",
                name,
                f"Use engine.name={preset.engine}, or another preset.",
            )
        return (name, preset), preset.architecture

    def machines(self) -> Machines:
        """The machines, with what the profile and the node type supply."""
        cluster = self.spec.cluster
        profile_name = self.known(Kind.PROFILES, "cluster.profile", cluster.profile)
        if cluster.node_type is not None:
            others = self.node_types_like(cluster.node_type, profile_name)
            self.known(Kind.NODE_TYPES, "cluster.node_type", cluster.node_type, others)
        self.report.stop_if_errors()
        profile = self.catalog.profile(profile_name)
        node_name = self.chosen("cluster.node_type", cluster.node_type, profile.default_node_type)
        node_name = self.known(Kind.NODE_TYPES, "cluster.node_type", node_name)
        self.report.stop_if_errors()
        node = self.catalog.node_type(node_name)
        self.require("cluster.node_type", node_name, profile_name, profile.node_types)
        fabric = self.chosen("cluster.fabric", cluster.fabric, node.fabric)
        # What the catalog itself supplies fits (`seatrial catalog check`), and is not read again.
        if cluster.fabric is not None:
            fabric = self.known(Kind.FABRICS, "cluster.fabric", fabric)
            machine_rules.check_fabric(self.report, fabric, node_name, node)
        engine = self.spec.engine.name
        image = self.chosen("cluster.image", cluster.image, profile.images.get(engine, ""))
        if cluster.image is not None:
            machine_rules.check_image(self.report, image, engine, self.catalog)
        if node.accelerator:
            gpu = self.catalog.accelerator(node.accelerator)
            precision = self.spec.training.precision
            machine_rules.check_precision(self.report, precision, node.accelerator, gpu)
        return Machines(
            profile=profile_name,
            operator=self.operator(profile_name, profile),
            node_type=node_name,
            nodes=cluster.nodes,
            processes_per_node=self.processes(node_name, node),
            accelerator=node.accelerator,
            fabric=fabric,
            image=image,
            storage=self.storage(profile_name, profile),
        )

    def node_types_like(self, name: str, profile_name: str) -> tuple[str, ...]:
        """The node types of a profile that a word stands in, such as the name of their GPU."""
        names = self.catalog.names(Kind.NODE_TYPES)
        if name in names or profile_name not in self.catalog.names(Kind.PROFILES):
            return ()
        word = name.lower()
        return tuple(
            each
            for each in self.catalog.profile(profile_name).node_types
            if word in f"{each} {self.catalog.node_type(each).accelerator}".lower()
        )

    def processes(self, name: str, node: NodeType) -> int:
        """Processes per node: given, or one for each GPU."""
        wanted = self.spec.cluster.processes_per_node
        field_name = "cluster.processes_per_node"
        if wanted is None and not node.gpus:
            self.report.error(
                PlanCode.PROCESSES,
                field_name,
                f"{name} has no GPUs to count, so the number of processes is needed.",
                "",
                "Add cluster.processes_per_node=2, for example.",
            )
            return 1
        if wanted is not None and node.gpus and wanted > node.gpus:
            self.report.error(
                PlanCode.PROCESSES,
                field_name,
                f"{wanted} processes would share the {node.gpus} "
                f"{'GPU' if node.gpus == 1 else 'GPUs'} of {name}.",
                wanted,
                f"Use at most {node.gpus}.",
            )
        self.origins[field_name] = Origin.CATALOG if wanted is None else Origin.YOU
        return wanted or node.gpus

    def operator(self, name: str, profile: Profile) -> Operator:
        """What starts the processes."""
        wanted = self.spec.cluster.operator
        if wanted is Operator.AUTO:
            self.origins["cluster.operator"] = Origin.CATALOG
            return profile.operators[0]
        self.origins["cluster.operator"] = Origin.YOU
        self.require("cluster.operator", wanted, name, profile.operators)
        return wanted

    def storage(self, name: str, profile: Profile) -> str:
        """The storage tier, or the existing claim."""
        storage = self.spec.cluster.storage
        if storage.claim is not None:
            self.origins["cluster.storage.claim"] = Origin.YOU
            return f"claim/{storage.claim}"
        tier = self.chosen("cluster.storage.tier", storage.tier, profile.default_storage)
        if storage.tier is not None:
            tier = self.known(Kind.STORAGE, "cluster.storage.tier", tier)
            self.require("cluster.storage.tier", tier, name, profile.storage)
            self.report.stop_if_errors()
        if storage.capacity is not None:
            facts = self.catalog.storage(tier)
            machine_rules.check_capacity(self.report, storage.capacity, tier, facts)
        return tier

    def sequence_length(self, preset: tuple[str, ModelPreset] | None) -> int:
        """Given, or the preset's, or as long as the model allows."""
        given = self.spec.training.sequence_length
        dimensions = self.spec.model.dimensions
        fallback = dimensions.max_positions if dimensions else 1
        return self.chosen(
            "training.sequence_length", given, preset[1].sequence_length if preset else fallback
        )

    def tokenizer(self, preset: tuple[str, ModelPreset] | None) -> str:
        """Given, or the preset's."""
        own = preset[1].tokenizer if preset else ""
        return self.chosen("data.tokenizer", self.spec.data.tokenizer, own)

    def degrees(self, model: Architecture) -> Degrees:
        """The parallel degrees; an `auto` with one possible value takes it."""
        spec = self.spec.parallelism
        # While pp_size itself is auto, nothing can be said of vp_size.
        forced = {"ep_size": model.moe is None, "vp_size": spec.pp_size in (1, AUTO)}
        sizes = {}
        for name in ("tp", "pp", "cp", "ep", "vp"):
            key = f"{name}_size"
            if forced.get(key) and getattr(spec, key) == AUTO:
                self.origins[f"parallelism.{key}"] = Origin.DEFAULT
                sizes[name] = 1
            else:
                sizes[name] = self.number(f"parallelism.{key}")
        for key in ("training.micro_batch_size", "training.global_batch_size"):
            self.number(key)
        self.number("checkpoints.every_steps")
        for key in ("sharding", "recompute", "sequence_parallel"):
            self.origins[f"parallelism.{key}"] = Origin.YOU
        if spec.sharding is Sharding.AUTO:
            self.refuse_auto("parallelism.sharding")
        if spec.recompute is Recompute.AUTO:
            self.refuse_auto("parallelism.recompute")
        if spec.sequence_parallel == AUTO:
            self.origins["parallelism.sequence_parallel"] = Origin.DEFAULT
            if sizes["tp"] > 1:
                self.refuse_auto("parallelism.sequence_parallel")
        return Degrees(**sizes, etp=spec.etp_size)

    def check_layout(
        self,
        model: Architecture,
        machines: Machines,
        degrees: Degrees,
        sequence_length: int,
        *,
        split: bool,
    ) -> tuple[Stage, ...]:
        """Every rule of the layout; the stages when all hold."""
        report, world = self.report, machines.world_size
        layout_rules.check_experts(report, model, world, degrees)
        # What a wrong tp_size breaks further on would only distract from it.
        if layout_rules.check_tensor_parallel(report, model, degrees):
            layout_rules.check_world(report, world, machines.processes_per_node, degrees)
            layout_rules.check_sequence(report, model, sequence_length, degrees, split=split)
        domain = self.catalog.node_type(machines.node_type).link_domain_gpus
        layout_rules.check_links(report, degrees, domain)
        spec = self.spec.parallelism
        layout_rules.check_recompute(report, model, self.spec.training.precision, spec)
        return layout_rules.check_stages(report, model.layers, degrees.pp, degrees.vp, spec)

    def check_state(self, parameters: int, layout: RankLayout, accelerator: str) -> None:
        """Warn when not even weights, gradients and optimizer state fit."""
        if accelerator:
            copies = layout.dp_size * layout.cp_size
            sharding = self.spec.parallelism.sharding
            state = machine_rules.state_bytes(parameters, sharding, copies)
            gpu = self.catalog.accelerator(accelerator)
            machine_rules.check_state(self.report, state, accelerator, gpu)

    def batch(self, layout: RankLayout, sequence_length: int) -> Batch:
        """The batch of a step and how it is split."""
        micro = self.number("training.micro_batch_size")
        total = self.number("training.global_batch_size")
        nodes = self.spec.cluster.nodes
        return layout_rules.check_batch(self.report, micro, total, layout, sequence_length, nodes)

    def length(
        self, batch: Batch, sequence_length: int, preset: tuple[str, ModelPreset] | None
    ) -> tuple[Length, Schedule]:
        """The length of the run and its learning rate."""
        training, size = self.spec.training, batch.global_batch_size
        length = run_length(training, size, sequence_length)
        rate = training.learning_rate
        published = preset[1].learning_rate if preset else None
        fallback = published or DEFAULT_PEAK_LEARNING_RATE
        peak = self.chosen("training.learning_rate.peak", rate.peak, fallback)
        if rate.peak is None and not published:
            self.origins["training.learning_rate.peak"] = Origin.DEFAULT
        warmup, decay = (
            span_samples(span, length.samples, size, sequence_length)
            for span in (rate.warmup, rate.decay)
        )
        minimum = decimal_quotient(peak, 10) if rate.minimum is None else rate.minimum
        anneal = 0
        if rate.anneal is not None:
            anneal = span_samples(rate.anneal, length.samples, size, sequence_length)
        schedule = Schedule(peak, minimum, warmup, decay, anneal)
        length_rules.check_length(self.report, length, size)
        length_rules.check_schedule(self.report, schedule)
        saves = self.number("checkpoints.every_steps")
        length_rules.check_saves(self.report, length, saves, self.spec.checkpoints.keep_every_steps)
        length_rules.check_evaluation(self.report, training, self.spec.data.split)
        return length, schedule

    def known(self, kind: Kind, field_name: str, name: str, others: tuple[str, ...] = ()) -> str:
        """The entry's own name, or an error at the field that names it, with others that may do."""
        try:
            return self.catalog.canonical(kind, name)
        except NotInCatalogError as error:
            rule, _, fix = str(error).partition(". ")
            if others:
                fix = f"Use one of: {', '.join(others)}."
            self.report.error(
                PlanCode.NAME, field_name, f"{rule[:1].lower()}{rule[1:]}.", name, fix
            )
            return name

    def require(self, field_name: str, name: str, profile: str, known: tuple[str, ...]) -> None:
        """An error unless the profile has the thing."""
        if name not in known:
            self.report.error(
                PlanCode.NODE_TYPE,
                field_name,
                f"a cluster of profile {profile} has no {name}.",
                name,
                f"Use one of: {', '.join(known)}.",
            )

    def chosen[T](self, field_name: str, given: T | None, fallback: T) -> T:
        """The given value, or the one that the catalog supplies."""
        self.origins[field_name] = Origin.CATALOG if given is None else Origin.YOU
        return fallback if given is None else given

    def path(self, field_name: str, fallback: str) -> str:
        """The given location, or the usual one."""
        section, _, key = field_name.partition(".")
        given: str | None = getattr(getattr(self.spec, section), key)
        self.origins[field_name] = Origin.DEFAULT if given is None else Origin.YOU
        return fallback if given is None else given

    def number(self, field_name: str) -> int:
        """The number in a field that could also be `auto`."""
        section, _, key = field_name.partition(".")
        value = getattr(getattr(self.spec, section), key)
        if value == AUTO:
            self.refuse_auto(field_name)
            return 1
        self.origins[field_name] = Origin.YOU
        return int(value)

    def refuse_auto(self, field_name: str) -> None:
        """Remember a field that the planner has to fill."""
        if field_name not in self.autos:
            self.autos.append(field_name)

    def report_autos(self) -> None:
        """One finding for all fields that are still `auto`, at the first of them."""
        if not self.autos:
            return
        names = ", ".join(self.autos)
        verb = "is" if len(self.autos) == 1 else "are"
        self.report.error(
            PlanCode.AUTO,
            self.autos[0],
            f"{names} {verb} auto: the planner chooses.",
            AUTO,
            f"See what, and why: seatrial plan {self.loaded.root.file}.",
        )


def _layout(world_size: int, degrees: Degrees) -> RankLayout:
    """The grid, with the data-parallel size that is left."""
    return RankLayout(
        tp_size=degrees.tp,
        cp_size=degrees.cp,
        dp_size=world_size // degrees.model_size,
        pp_size=degrees.pp,
        vp_size=degrees.vp,
        ep_size=degrees.ep,
        etp_size=degrees.etp,
    )
