# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Choose the performance options of a layout.

The engine states what each option requires, and when it pays off. An option of the spec's is kept
as it is; `check` reports it if the engine rejects it.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

from seatrial.planning.layout import Layout
from seatrial.spec.model import Architecture
from seatrial.spec.parallelism import Recompute, Sharding
from seatrial.spec.performance import CudaGraphs, MomentPrecision, TokenDispatcher
from seatrial.spec.run import RunSpec
from seatrial.spec.scalars import AUTO


@dataclass(frozen=True, slots=True)
class Options:
    """The performance options of a run, each with the value that switches it off as default.

    `spec/performance.py` describes them.
    """

    gradient_overlap: bool = False
    parameter_overlap: bool = False
    tensor_overlap: bool = False
    pipeline_overlap: bool = False
    expert_overlap: bool = False
    shared_expert_overlap: bool = False
    token_dispatcher: TokenDispatcher = TokenDispatcher.ALLTOALL
    grouped_experts: bool = False
    fused_routing: bool = False
    fused_loss: bool = False
    fused_layers: bool = False
    cuda_graphs: CudaGraphs = CudaGraphs.NONE
    moments: MomentPrecision = MomentPrecision.FP32
    optimizer_offload: float = 0.0
    activation_offload: int = 0

    def values(self) -> dict[str, Any]:
        """Return the value of each option."""
        return {name: getattr(self, name) for name in NAMES}

    def is_on(self, name: str) -> bool:
        """Return True if an option has a value other than the one that switches it off."""
        return bool(getattr(self, name) != getattr(NO_OPTIONS, name))

    def words(self) -> list[str]:
        """Return the options that are on: `gradient overlap`, `CUDA graphs (layers)`."""
        return [self.in_words(name) for name in NAMES if self.is_on(name)]

    def in_words(self, name: str) -> str:
        """Return an option that is on, with its value if it has more than one."""
        value, title = getattr(self, name), TITLES.get(name, name.replace("_", " "))
        if name == "activation_offload" and value == 1:
            title = title.replace("layers", "layer")
        return title if value is True else title.format(value)


TITLES = {
    "token_dispatcher": "tokens by {}",
    "cuda_graphs": "CUDA graphs ({})",
    "moments": "moments in {}",
    "optimizer_offload": "{:.0%} of the optimizer on the host",
    "activation_offload": "activations of {} layers on the host",
}
"""How options with several values are listed."""
FLEX_DISPATCHERS = frozenset({TokenDispatcher.DEEPEP, TokenDispatcher.HYBRIDEP})
"""Dispatchers that send a token once to each node, not once to each expert."""
NO_OPTIONS = Options()
NAMES = tuple(each.name for each in fields(Options))


@dataclass(frozen=True, slots=True)
class OptionCase:
    """Everything that decides which options a run can have."""

    spec: RunSpec
    model: Architecture
    layout: Layout
    sequence_parallel: bool
    """True if norms and dropout are split along the sequence."""
    sharding: Sharding
    recompute: Recompute
    accelerator: str
    """The GPU; empty without GPUs."""
    generation: str
    """The generation of the GPU, such as `Hopper`; empty without GPUs."""
    domain: int
    """Number of GPUs that the fast link connects."""
    options: Options = NO_OPTIONS
    """The options that are decided so far."""


@dataclass(frozen=True, slots=True)
class OptionRule:
    """A reason why an engine rejects an option."""

    holds: Callable[[OptionCase], bool]
    """True if the engine would reject the option."""
    rule: str
    by: str = ""
    """The override that resolves it; empty if the option must be removed."""
    clashes: bool = False
    """True if the override undoes what the run has, False if it adds what the run lacks."""


@dataclass(frozen=True, slots=True)
class EngineOption:
    """What an engine requires of an option, and whether the option pays off."""

    name: str
    rules: tuple[OptionRule, ...] = ()
    """Reasons why the engine rejects it."""
    required: OptionRule | None = None
    """The reason why the engine rejects a run without it."""
    needless: Callable[[OptionCase], str] = lambda _: ""
    """Return why the planner leaves it off although the engine allows it; empty to switch it on."""
    value: Callable[[OptionCase], Any] = lambda _: True
    """Return the value that switches it on."""

    def against(self, case: OptionCase) -> OptionRule | None:
        """Return the first reason why the engine rejects it; None if it does not."""
        return next((rule for rule in self.rules if rule.holds(case)), None)

    def problems(self, case: OptionCase) -> list[OptionRule]:
        """Return why the engine rejects the case's value of it.

        If it must be removed, only the reasons for that: other changes would not help.
        """
        required = () if self.required is None else (self.required,)
        rules = self.rules if case.options.is_on(self.name) else required
        found = [rule for rule in rules if rule.holds(case)]
        return [rule for rule in found if not rule.by] or found


class OptionChooser:
    """Chooses the options of the layouts of one run. Most layouts have the same ones."""

    def __init__(
        self,
        spec: RunSpec,
        model: Architecture,
        known: tuple[EngineOption, ...],
        accelerator: str,
        generation: str,
        domain: int,
    ) -> None:
        """Start with an empty cache.

        Args:
            spec: The spec, whose performance section may set options.
            model: The model.
            known: The engine's options.
            accelerator: The GPU; empty without GPUs.
            generation: The generation of the GPU; empty without GPUs.
            domain: Number of GPUs that the fast link connects.
        """
        self._common = (spec, model)
        self._known = known
        self._machine = (accelerator, generation, domain)
        self._decisions: dict[tuple[object, ...], tuple[Options, bool]] = {}
        self.given = [each for each in known if getattr(spec.performance, each.name) != AUTO]
        """The options that the spec sets."""

    def case(
        self, layout: Layout, *, sequence_parallel: bool, sharding: Sharding, recompute: Recompute
    ) -> OptionCase:
        """Return everything that decides the options of a layout."""
        spec, model = self._common
        accelerator, generation, domain = self._machine
        return OptionCase(
            spec,
            model,
            layout,
            sequence_parallel,
            sharding,
            recompute,
            accelerator,
            generation,
            domain,
        )

    def options(
        self, layout: Layout, *, sequence_parallel: bool, sharding: Sharding, recompute: Recompute
    ) -> Options:
        """Return the options of a layout."""
        return self._decided(layout, sequence_parallel, sharding, recompute)[0]

    def allows(
        self, layout: Layout, *, sequence_parallel: bool, sharding: Sharding, recompute: Recompute
    ) -> bool:
        """Return True if the engine accepts the options that the spec sets with a layout."""
        return self._decided(layout, sequence_parallel, sharding, recompute)[1]

    def _decided(
        self, layout: Layout, sequence_parallel: bool, sharding: Sharding, recompute: Recompute
    ) -> tuple[Options, bool]:
        """Return the options of a layout, and whether the engine accepts those of the spec."""
        key = (self._alike(layout), sequence_parallel, sharding, recompute)
        found = self._decisions.get(key)
        if found is None:
            case = self.case(
                layout,
                sequence_parallel=sequence_parallel,
                sharding=sharding,
                recompute=recompute,
            )
            case = replace(case, options=choose_options(case, self._known))
            accepted = not any(each.problems(case) for each in self.given)
            found = self._decisions[key] = case.options, accepted
        return found

    def _alike(self, layout: Layout) -> tuple[object, ...]:
        """Return what rules may depend on: which degrees are above 1, and what leaves a domain."""
        domain = self._machine[-1]
        return (
            layout.tp_size > 1,
            layout.tp_size > domain,
            min(layout.pp_size, 3),
            layout.vp_size > 1,
            layout.cp_size > 1,
            layout.dp_size > 1,
            layout.ep_size > 1,
            layout.ep_size * layout.etp_size > domain,
        )


def choose_options(case: OptionCase, known: tuple[EngineOption, ...]) -> Options:
    """Return the options of a run: those in its spec, and for `auto`, what the engine allows.

    `known` are the engine's options, in an order in which each depends only on earlier ones.
    """
    options = given_options(case.spec)
    for option in known:
        if getattr(case.spec.performance, option.name) == AUTO:
            case = replace(case, options=options)
            if not why_off(case, option):
                options = replace(options, **{option.name: option.value(case)})
    return options


def given_options(spec: RunSpec) -> Options:
    """Return the options that a spec sets; the others are off."""
    asked = {name: getattr(spec.performance, name) for name in NAMES}
    return replace(NO_OPTIONS, **{name: value for name, value in asked.items() if value != AUTO})


@dataclass(frozen=True, slots=True)
class OptionOff:
    """An option that is off, and why."""

    name: str
    reason: str
    is_possible: bool
    """True if the engine would accept it."""

    @property
    def words(self) -> str:
        """The option as the plan lists it: `CUDA graphs`."""
        return OFF_TITLES.get(self.name, self.name.replace("_", " "))


OFF_TITLES = {
    "token_dispatcher": "DeepEP",
    "cuda_graphs": "CUDA graphs",
    "moments": "bf16 moments",
}
SWITCHED_OFF = "the spec switches it off."


def options_off(case: OptionCase, known: tuple[EngineOption, ...]) -> tuple[OptionOff, ...]:
    """Return the options that are off in the case, each with its reason."""
    return tuple(
        OptionOff(
            option.name,
            why_off(case, option)
            if getattr(case.spec.performance, option.name) == AUTO
            else SWITCHED_OFF,
            option.against(case) is None,
        )
        for option in known
        if not case.options.is_on(option.name)
    )


def why_off(case: OptionCase, option: EngineOption) -> str:
    """Return why the planner leaves an option off; empty if it switches it on."""
    rejected = option.against(case)
    return rejected.rule if rejected else option.needless(case)
