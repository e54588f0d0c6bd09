# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Resolve layout, batch, length and schedule for a spec without open fields, and check them."""

from types import MappingProxyType

from seatrial.codes.planning import PlanCode
from seatrial.planning import batch_rules, layout_rules, length_rules, machine_rules
from seatrial.planning.choices import (
    SAVES,
    Choices,
    fill,
    open_fields,
    origins_of,
    value_at,
)
from seatrial.planning.finding_report import FindingReport
from seatrial.planning.layout import Layout
from seatrial.planning.length import (
    Length,
    Schedule,
    anneal_samples,
    run_length,
    span_samples,
)
from seatrial.planning.options import FLEX_DISPATCHERS, NAMES
from seatrial.planning.parameters import (
    active_parameters,
    padded_vocab_size,
    rank_parameters,
    total_parameters,
)
from seatrial.planning.plan import Batch, Origin, PlannedModel
from seatrial.planning.resolve import Basis
from seatrial.planning.stages import Stage
from seatrial.spec.scalars import AUTO
from seatrial.units import decimal_quotient

DEFAULT_PEAK_LEARNING_RATE = 3e-4
"""The default for a model without a published learning rate. The peak is 2.5e-4 for GPT-3 760M
(arXiv 2005.14165, table 2.1), and 3e-4 for Llama 2 7B (arXiv 2307.09288, section 2.2)."""


class LayoutResolution:
    """One pass from basis and choices to the values of a plan.

    Errors are reported together: `layout` raises before `batch` and `length` are checked, and
    `schedule` raises with the errors from both.
    """

    def __init__(self, basis: Basis, choices: Choices) -> None:
        """Start with the spec in which choices replace `auto`."""
        self.basis = basis
        self.spec = fill(basis.loaded.spec, choices)
        self.report = FindingReport(basis.loaded, list(basis.findings))
        self._origins = dict(basis.origins)
        self._refuse_open()

    def _refuse_open(self) -> None:
        """Report all fields that are still `auto` in one finding, at the first field."""
        left = [name for name in open_fields(self.spec, self.basis.architecture) if name != SAVES]
        if not left:
            return
        names, verb = ", ".join(left), "is" if len(left) == 1 else "are"
        self.report.error(
            PlanCode.AUTO,
            left[0],
            f"{names} {verb} auto, but the planner chose no value.",
            AUTO,
            f"Run seatrial plan {self.basis.loaded.root.file}.",
        )
        self.report.stop_if_errors()

    @property
    def sequence_parallel(self) -> bool:
        """True if norms and dropout are split along the sequence."""
        given = self.spec.parallelism
        return given.tp_size != 1 and given.sequence_parallel is True

    def layout(self) -> tuple[Layout, tuple[Stage, ...]]:
        """Return the layout with its stages; raise with every broken rule."""
        layout = self._written_layout()
        basis, report, spec = self.basis, self.report, self.spec.parallelism
        model, machines = basis.architecture, basis.machines
        world, per_node = machines.world_size, machines.processes_per_node
        layout_rules.check_experts(report, model, world, layout)
        # A wrong tp_size also breaks other rules, whose findings would distract from the cause.
        if layout_rules.check_tensor_parallel(report, model, layout):
            layout_rules.check_world(report, world, per_node, layout, spec.pipeline_layout)
            layout_rules.check_sequence(
                report, model, basis.sequence_length, layout, split=self.sequence_parallel
            )
        node = basis.catalog.node_type(machines.node_type)
        if node.links_nodes:
            layout_rules.check_node_links(report, layout, per_node)
        else:
            layout_rules.check_links(report, layout, node.link_domain_gpus)
            # The search compares such layouts itself (`prefer_experts_inside`).
            asked = basis.loaded.spec
            plain = asked.performance.token_dispatcher not in FLEX_DISPATCHERS
            if node.gpus and plain and asked.parallelism.ep_size != AUTO:
                layout_rules.check_expert_links(report, layout, per_node)
        layout_rules.check_recompute(report, model, self.spec.training.precision, spec)
        sizes = layout.pp_size, layout.vp_size
        if spec.pipeline_layout is None:
            stages = layout_rules.check_stages(report, model.layers, *sizes, spec)
        else:
            custom = spec.pipeline_layout
            stages = layout_rules.check_custom_stages(report, model, *sizes, custom)
        report.stop_if_errors()
        return layout, stages

    def _written_layout(self) -> Layout:
        """Return the layout in the spec; `auto` fields with one possible value get that value."""
        spec = self.spec.parallelism
        sizes: dict[str, int] = {}
        for name in ("tp_size", "pp_size", "cp_size", "ep_size", "vp_size"):
            size = getattr(spec, name)
            forced = size == AUTO
            self._origins[f"parallelism.{name}"] = Origin.DEFAULT if forced else Origin.YOU
            sizes[name] = 1 if forced else int(size)
        for field in (
            "training.micro_batch_size",
            "training.global_batch_size",
            SAVES,
            "parallelism.sharding",
            "parallelism.recompute",
            "parallelism.sequence_parallel",
        ):
            forced = value_at(self.spec, field) == AUTO
            self._origins[field] = Origin.DEFAULT if forced else Origin.YOU
        layout = Layout(**sizes, etp_size=spec.etp_size)
        return layout.spread_over(self.basis.machines.world_size)

    def choose_options(self, layout: Layout) -> None:
        """Fill the performance options that the spec leaves to the planner, if the engine has any.

        They follow from the layout, so they are not choices that a stored plan must keep.
        """
        if not self.basis.limits.options:
            return
        parallelism, asked = self.spec.parallelism, self.spec.performance
        chosen = self.basis.option_chooser().options(
            layout,
            sequence_parallel=self.sequence_parallel,
            sharding=parallelism.sharding,
            recompute=parallelism.recompute,
        )
        for name in NAMES:
            origin = Origin.PLANNER if getattr(asked, name) == AUTO else Origin.YOU
            self._origins[f"performance.{name}"] = origin
        self.spec = self.spec.model_copy(
            update={"performance": asked.model_copy(update=chosen.values())}
        )

    def batch(self, layout: Layout) -> Batch:
        """Return the batch of a step and how it is split."""
        training, nodes = self.spec.training, self.spec.cluster.nodes
        micro, total = int(training.micro_batch_size), int(training.global_batch_size)
        length = self.basis.sequence_length
        early = tuple(one.global_batch_size for one in training.batch_schedule)
        batch = batch_rules.check_batch(self.report, micro, total, layout, length, nodes)
        batch_rules.check_early_batches(self.report, early, batch, layout)
        return batch

    def length(self, batch: Batch) -> Length:
        length = self.basis.sequence_length
        return run_length(self.spec.training, batch.global_batch_size, length)

    def schedule(self, length: Length) -> Schedule:
        """Return the learning-rate schedule; raise with all errors, including earlier ones."""
        training, preset = self.spec.training, self.basis.preset
        sequence_length = self.basis.sequence_length
        rate = training.learning_rate
        published = preset[1].learning_rate if preset else None
        peak = published or DEFAULT_PEAK_LEARNING_RATE if rate.peak is None else rate.peak
        fallback = Origin.CATALOG if published else Origin.DEFAULT
        origin = fallback if rate.peak is None else Origin.YOU
        self._origins["training.learning_rate.peak"] = origin
        warmup, decay = (
            span_samples(span, length, sequence_length) for span in (rate.warmup, rate.decay)
        )
        minimum = decimal_quotient(peak, 10) if rate.minimum is None else rate.minimum
        anneal = 0
        if rate.anneal is not None:
            anneal = anneal_samples(rate.anneal, length, decay, sequence_length)
        schedule = Schedule(peak, minimum, warmup, decay, anneal)
        report, saves = self.report, self.spec.checkpoints
        length_rules.check_length(report, length)
        length_rules.check_batch_schedule(report, training, length, sequence_length)
        length_rules.check_schedule(report, schedule)
        if saves.every_steps != AUTO:
            length_rules.check_saves(report, length, int(saves.every_steps), saves.keep_every_steps)
        length_rules.check_timed_saves(report, saves, self.basis.machines.accelerator)
        length_rules.check_evaluation(report, training, self.spec.data.split)
        report.stop_if_errors()
        return schedule

    def model(self, layout: Layout) -> PlannedModel:
        basis, preset = self.basis, self.basis.preset
        architecture, given = basis.architecture, self.spec.data.tokenizer
        multiple = basis.limits.vocab_multiple
        padded = padded_vocab_size(architecture.vocab_size, layout.tp_size, multiple)
        self._origins["data.tokenizer"] = Origin.CATALOG if given is None else Origin.YOU
        own = preset[1].tokenizer if preset else ""
        return PlannedModel(
            name=preset[0] if preset else "custom",
            architecture=architecture,
            sequence_length=basis.sequence_length,
            padded_vocab_size=padded,
            parameters=total_parameters(architecture, padded),
            active_parameters=active_parameters(architecture, padded),
            tokenizer=own if given is None else given,
        )

    def stage_parameters(
        self, model: PlannedModel, layout: Layout, stages: tuple[Stage, ...]
    ) -> tuple[int, ...]:
        """Return each stage's parameters per rank; warn if their state exceeds a GPU's memory."""
        padded = model.padded_vocab_size
        found = tuple(rank_parameters(model.architecture, padded, layout, each) for each in stages)
        accelerator = self.basis.machines.accelerator
        if accelerator:
            copies = layout.dp_size * layout.cp_size
            state = machine_rules.state_bytes(max(found), self.spec.parallelism.sharding, copies)
            gpu = self.basis.catalog.accelerator(accelerator)
            machine_rules.check_state(self.report, state, accelerator, gpu)
        return found

    def location(self, field: str, usual: str) -> str:
        """Return the location in the spec, or the default in the run's directory."""
        given: str | None = value_at(self.spec, field)
        self._origins[field] = Origin.DEFAULT if given is None else Origin.YOU
        return (
            f"{self.spec.cluster.storage.mount}/{self.spec.name}/{usual}"
            if given is None
            else given
        )

    def origins(self, choices: Choices) -> MappingProxyType[str, Origin]:
        """Return the origin of each resolved field's value."""
        published = self.basis.published_tokens // self.basis.sequence_length
        found = self._origins | origins_of(choices, published)
        if self.spec.checkpoints.every_seconds is not None:
            found[SAVES] = Origin.YOU
        return MappingProxyType(found)
