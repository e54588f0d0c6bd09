# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Spec -> Basis: model and machines looked up in the catalog, once for all that is planned."""

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
from seatrial.planning import machine_rules
from seatrial.planning.choices import open_fields
from seatrial.planning.engine_limits import EngineLimits, limits_of
from seatrial.planning.finding_report import FindingReport
from seatrial.planning.plan import Machines, Origin
from seatrial.spec.cluster import Operator
from seatrial.spec.engine import DEFAULT_ENGINE
from seatrial.spec.loader import LoadedSpec
from seatrial.spec.model import Architecture
from seatrial.spec.run import RunSpec


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


def resolve_basis(loaded: LoadedSpec, catalog: Catalog) -> Basis:
    """What a layout is for; raises with every finding when names or machines are wrong."""
    return _Resolution(loaded, catalog).basis()


@dataclass
class _Resolution:
    """One pass over the names of a spec; what it finds on the way is reported together."""

    loaded: LoadedSpec
    catalog: Catalog
    origins: dict[str, Origin] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.spec: RunSpec = self.loaded.spec
        self.report = FindingReport(self.loaded)

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
