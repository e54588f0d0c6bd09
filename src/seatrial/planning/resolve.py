# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Resolve a spec to its basis: look up model and machines in the catalog, once."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from seatrial.catalog.catalog import Catalog, Kind
from seatrial.catalog.models import ModelPreset
from seatrial.catalog.node_types import HOST, NodeType, detected_gpus, host_name
from seatrial.catalog.profiles import Profile
from seatrial.codes.huggingface import HubConfigCode
from seatrial.codes.planning import PlanCode
from seatrial.errors import FindingsError, NotInCatalogError
from seatrial.findings import Finding
from seatrial.planning import machine_rules
from seatrial.planning.choices import open_fields
from seatrial.planning.engine_limits import EngineLimits, limits_of
from seatrial.planning.finding_report import FindingReport
from seatrial.planning.options import OptionChooser
from seatrial.planning.plan import Machines, Origin
from seatrial.spec.cluster import NO_GPUS, Operator
from seatrial.spec.engine import DEFAULT_ENGINE
from seatrial.spec.loader import LoadedSpec
from seatrial.spec.model import Architecture, hub_address
from seatrial.spec.run import RunSpec

EXACT_GELU_OPTION = "no-bias-gelu-fusion"
"""The engine option without which Megatron approximates GELU by tanh."""


@dataclass(frozen=True, slots=True)
class Basis:
    """Everything that a plan needs before its layout, resolved once."""

    loaded: LoadedSpec
    """The spec with the positions of its values."""
    catalog: Catalog
    preset: tuple[str, ModelPreset] | None
    """The preset and its name, or a model by its config.json; None for custom dimensions."""
    architecture: Architecture
    """Every dimension of the model."""
    machines: Machines
    """The machines of the run."""
    sequence_length: int
    """Tokens per sequence."""
    origins: Mapping[str, Origin]
    """The origins of the resolved fields."""
    findings: tuple[Finding, ...]
    """Warnings and notes."""
    limits: EngineLimits
    """The capabilities of the engine."""

    @property
    def open_fields(self) -> list[str]:
        """The fields that the spec leaves to the planner."""
        return open_fields(self.loaded.spec, self.architecture)

    def option_chooser(self) -> OptionChooser:
        """Return what chooses the performance options of a layout."""
        machines, gpu = self.machines, self.machines.accelerator
        node = self.catalog.node_type(machines.node_type)
        return OptionChooser(
            self.loaded.spec,
            self.architecture,
            self.limits.options,
            gpu,
            self.catalog.accelerator(gpu).architecture if gpu else "",
            node.linked_gpus(machines.processes_per_node),
        )

    @property
    def published_tokens(self) -> int:
        """Tokens per step that the model's authors used; 0 if not published."""
        preset = self.preset[1] if self.preset else None
        if preset is None or preset.global_batch_size is None:
            return 0
        return preset.global_batch_size * preset.sequence_length


def resolve_basis(loaded: LoadedSpec, catalog: Catalog) -> Basis:
    """Return the basis of a plan; raise with all findings if names or machines are wrong."""
    return _Resolution(loaded, catalog).basis()


@dataclass
class _Resolution:
    """One pass over the names of a spec, which reports all findings together."""

    loaded: LoadedSpec
    catalog: Catalog
    origins: dict[str, Origin] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.spec: RunSpec = self.loaded.spec
        self.report = FindingReport(self.loaded)

    def basis(self) -> Basis:
        """Return model, machines and sequence length; report all wrong names together."""
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
        """Check the machines of a run whose model is wrong; raise with all findings."""
        of_model, self.report.findings = self.report.findings, []
        with suppress(FindingsError):
            self.machines()
        self.report.findings += of_model
        self.report.stop_if_errors()

    def model(self) -> tuple[tuple[str, ModelPreset] | None, Architecture]:
        """Return the preset, if there is one, and the architecture."""
        section = self.spec.model
        if section.dimensions is not None:
            return None, section.dimensions
        if section.huggingface is not None:
            name, preset = self.unlisted(section.huggingface)
        else:
            name = self.known(Kind.MODELS, "model.preset", section.preset or "")
            self.report.stop_if_errors()
            preset = self.catalog.model(name)
        if preset.engine not in (DEFAULT_ENGINE, self.spec.engine.name):
            self.report.error(
                PlanCode.ENGINE,
                "model.preset",
                f"{name} needs the engine {preset.engine}, not {self.spec.engine.name}.",
                name,
                f"Use engine.name={preset.engine}, or a different preset.",
            )
        self.compare(preset)
        return (name, preset), preset.architecture

    def unlisted(self, address: str) -> tuple[str, ModelPreset]:
        """Return a model by its config.json; report what is wrong with it at the spec's field."""
        try:
            preset = self.catalog.unlisted_model(address)
        except FindingsError as error:
            for found in error.findings:
                field_name = found.where.field
                inside = f"{field_name} in the config.json: " if field_name else ""
                where, rule = self.loaded.where("model.huggingface"), f"{inside}{found.rule}"
                self.report.findings.append(replace(found, where=where, rule=rule))
            self.report.stop_if_errors()
            raise
        name, commit = hub_address(address)
        version = commit[:12] or f"sha256:{preset.source.rpartition(':')[2][:12]}"
        return f"{name}@{version}", preset

    def compare(self, preset: ModelPreset) -> None:
        """Report how the model will differ from the published one."""
        code, field_name = HubConfigCode.DIFFERENT, self.spec.model.field
        option = EXACT_GELU_OPTION
        if preset.exact_gelu and not self.spec.engine.options.get(option):
            rule = "the published model has exact GELU, and the engine approximates it by tanh."
            self.report.error(code, field_name, rule, "", f"Set engine.options.{option}=true.")
        for difference in preset.differences:
            rule = f"{difference}. Weights cannot be imported or exported."
            self.report.note(code, field_name, rule, "", "No action is needed for a new run.")
        training = self.spec.training
        if preset.init_std is None or "init_std" in training.model_fields_set:
            return
        if preset.init_std != training.init_std:
            rule = (
                f"the published model was initialised with a deviation of {preset.init_std:.6g}, "
            )
            rule += f"the default is {training.init_std}."
            fix = f"To use the published one, set training.init_std={preset.init_std:.6g}."
            self.report.note(code, "training.init_std", rule, training.init_std, fix)

    def machines(self) -> Machines:
        """Return the machines, with the defaults of the profile and the node type."""
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
        self.require("cluster.node_type", node_name, profile_name, profile.node_types)
        if node_name == HOST:
            node_name = self.host()
        else:
            machine_rules.check_host_only(self.report, cluster, profile_name)
        self.report.stop_if_errors()
        node = self.catalog.node_type(node_name)
        fabric = self.chosen("cluster.fabric", cluster.fabric, node.fabric)
        # `seatrial catalog check` ensures that the defaults in the catalog are valid.
        if cluster.fabric is not None:
            fabric = self.known(Kind.FABRICS, "cluster.fabric", fabric)
            machine_rules.check_fabric(self.report, fabric, node_name, node)
        engine = self.spec.engine.name
        # On this host, an image is used only in a container.
        default = (
            ""
            if Operator.TORCHRUN in profile.operators and not cluster.container
            else profile.images.get(engine, "")
        )
        image = self.chosen("cluster.image", cluster.image, default)
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

    def host(self) -> str:
        """Return the node type of this host: with the GPUs of the spec, or with those found."""
        cluster, field_name = self.spec.cluster, "cluster.accelerator"
        if cluster.accelerator == NO_GPUS:
            self.origins[field_name] = Origin.YOU
            return HOST
        if cluster.accelerator is not None:
            self.origins[field_name] = Origin.YOU
            name = self.known(Kind.ACCELERATORS, field_name, cluster.accelerator)
            machine_rules.require_gpu_count(self.report, cluster, name)
            return host_name(name, cluster.processes_per_node or 1)
        found = detected_gpus()
        if not found:
            return HOST
        self.origins[field_name] = Origin.HOST
        try:
            name = self.catalog.canonical(Kind.ACCELERATORS, found[0])
        except NotInCatalogError:
            machine_rules.report_unknown_gpu(self.report, found[0])
            return HOST
        return host_name(name, len(found))

    def node_types_like(self, name: str, profile_name: str) -> tuple[str, ...]:
        """Return the node types in a profile whose name or GPU contains a word."""
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
        """Return the processes per node: the number in the spec, or one per GPU."""
        wanted = self.spec.cluster.processes_per_node
        field_name = "cluster.processes_per_node"
        if wanted is None and not node.gpus:
            self.report.error(
                PlanCode.PROCESSES,
                field_name,
                f"{name} has no GPUs, so cluster.processes_per_node is required.",
                "",
                "Set it, for example cluster.processes_per_node=2.",
            )
            return 1
        if wanted is not None and node.gpus and wanted > node.gpus:
            self.report.error(
                PlanCode.PROCESSES,
                field_name,
                f"{wanted} processes would share the {node.gpus} "
                f"{'GPU' if node.gpus == 1 else 'GPUs'} on {name}.",
                wanted,
                f"Use at most {node.gpus}.",
            )
        self.origins[field_name] = Origin.CATALOG if wanted is None else Origin.YOU
        return wanted or node.gpus

    def operator(self, name: str, profile: Profile) -> Operator:
        """Return the operator that starts the processes."""
        wanted = self.spec.cluster.operator
        if wanted is Operator.AUTO:
            self.origins["cluster.operator"] = Origin.CATALOG
            return profile.operators[0]
        self.origins["cluster.operator"] = Origin.YOU
        self.require("cluster.operator", wanted, name, profile.operators)
        return wanted

    def storage(self, name: str, profile: Profile) -> str:
        """Return the storage tier, or the existing PVC."""
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
        """Return the length in the spec or the preset, or the model's maximum."""
        given = self.spec.training.sequence_length
        dimensions = self.spec.model.dimensions
        fallback = dimensions.max_positions if dimensions else 1
        return self.chosen(
            "training.sequence_length", given, preset[1].sequence_length if preset else fallback
        )

    def known(self, kind: Kind, field_name: str, name: str, others: tuple[str, ...] = ()) -> str:
        """Return the canonical name of an entry, or report an error with alternatives."""
        try:
            return self.catalog.canonical(kind, name)
        except NotInCatalogError as error:
            rule = f"{error.rule[:1].lower()}{error.rule[1:]}"
            fix = f"Use one of: {', '.join(others)}." if others else error.fix
            self.report.error(PlanCode.NAME, field_name, rule, name, fix)
            return name

    def require(self, field_name: str, name: str, profile: str, known: tuple[str, ...]) -> None:
        """Report an error if the profile does not have the entry."""
        if name not in known:
            self.report.error(
                PlanCode.NODE_TYPE,
                field_name,
                f"clusters with the profile {profile} have no {name}.",
                name,
                f"Use one of: {', '.join(known)}.",
            )

    def chosen[T](self, field_name: str, given: T | None, fallback: T) -> T:
        """Return the value in the spec, or the default in the catalog."""
        self.origins[field_name] = Origin.CATALOG if given is None else Origin.YOU
        return fallback if given is None else given
