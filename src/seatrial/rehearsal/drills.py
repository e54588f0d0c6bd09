# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The drills of a rehearsal: train, kill and resume, reshard, evaluate, export."""

import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from seatrial.engine_process.process import (
    VERDICT_SECONDS,
    Training,
    TrainingOutcome,
    ask_engine,
    differing_tensors,
    train,
)
from seatrial.engine_process.weights import compare_logits, export_weights, why_not_exported
from seatrial.engines.engine import Arguments, Engine, Resharding, ShortRun, Trial
from seatrial.engines.registry import ENGINES
from seatrial.errors import SeatrialError
from seatrial.monitoring.event_log import EventKind
from seatrial.planning.layout import Layout
from seatrial.rehearsal.full_size import FullSize
from seatrial.rehearsal.parity import FP32_BAR, Parity, bar_of, compare
from seatrial.rehearsal.twin import MAX_PROCESSES, SAVE_AT, STEPS, Twin, degree_words
from seatrial.spec.parallelism import Sharding

TIMEOUT = 240.0
"""Timeout in seconds for a training run that should take one minute."""
STRONG_WEIGHTS = 0.1
"""Standard deviation of the initial weights for the comparison with one rank.

With usual initial weights, attention is nearly uniform and has little effect on the loss within
twenty steps, so a wrong gradient in attention would pass."""
STRONG_STEPS = 5
STRONG_RUNS = ("strong", "reference")
"""The two training runs from strong weights: the twin's, and the one that it is compared with.

The names of runs without multi-token prediction begin with the same words."""


class DrillName(StrEnum):
    """The drills, in the order in which they run."""

    ARGUMENTS = "arguments"
    """The engine validates the production arguments at the real world size."""
    TRAIN = "train"
    """Train twenty steps without interruption."""
    KILL = "kill"
    """Kill a process during the same training run, and resume from the checkpoint."""
    RESHARD = "reshard"
    """Load the checkpoint in a different layout."""
    EVALUATE = "evaluate"
    """Compute the loss on the validation data."""
    EXPORT = "export"
    """Export the trained weights for Hugging Face transformers, and compare their logits."""
    FULL_SIZE = "full-size"
    """Count memory and communication of every distinct rank of the real run, without a twin."""


USUAL_DRILLS = tuple(drill for drill in DrillName if drill is not DrillName.FULL_SIZE)
"""The drills of a rehearsal that does not name any."""
WITHOUT_TWIN = frozenset({DrillName.ARGUMENTS, DrillName.FULL_SIZE})
"""Drills of the real run, which need no twin."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a drill."""

    drill: DrillName
    ok: bool
    said: str
    """The result or the failure, on one line."""
    seconds: float
    judged: bool = True
    """False if this host cannot run the drill."""
    twin: str = ""
    """The twin's parallel degrees; empty for drills without a twin."""
    counted: FullSize | None = None
    """What the full-size drill counted; None for other drills."""


Announce = Callable[[DrillName, str, int], None]
"""Progress callback: the drill, its current activity, and the newest step."""


def steps_of(training: str) -> int:
    """Return the last step of a training run, by its name."""
    return STRONG_STEPS if training.startswith(STRONG_RUNS) else STEPS


def _silent(drill: DrillName, doing: str, step: int) -> None:
    """Report no progress."""


def check_arguments(twin_of: "Full", stages: list[int]) -> Result:
    """Validate the production arguments with the engine, and compare its parameter counts."""
    answer = ask_engine(
        twin_of.arguments,
        twin_of.world_size,
        stages,
        VERDICT_SECONDS,
        twin_of.environment,
        engine=twin_of.engine,
    )
    if answer["accepted"] is None:
        said = f"cannot be verified on CPU: {answer['reason']}"
        return Result(DrillName.ARGUMENTS, True, said, 0.0, judged=False)
    if not answer["accepted"]:
        said = f"rejected by the engine: {answer['reason']}"
        return Result(DrillName.ARGUMENTS, False, said, 0.0)
    counts = {int(stage): number for stage, number in answer["parameters"].items()}
    wrong = [stage for stage in counts if counts[stage] != twin_of.stage_parameters[stage]]
    if wrong:
        stage = wrong[0]
        said = (
            f"stage {stage} has {counts[stage]:,} parameters in the engine and "
            f"{twin_of.stage_parameters[stage]:,} in the plan"
        )
        return Result(DrillName.ARGUMENTS, False, said, 0.0)
    ranks = f"accepted by the engine for {twin_of.world_size:,} ranks"
    most = max(counts.values())
    return Result(DrillName.ARGUMENTS, True, f"{ranks}, at most {most:,} parameters each", 0.0)


@dataclass(frozen=True, slots=True)
class Full:
    """The full-size run, as passed to the engine for validation."""

    arguments: Arguments
    world_size: int
    stage_parameters: tuple[int, ...]
    """The number of parameters per rank in each pipeline stage, according to the plan."""
    environment: dict[str, str]
    """Environment variables that the engine needs."""
    engine: Engine


@dataclass(frozen=True, slots=True)
class StrongComparison:
    """A layout that a twin is compared with from strong weights."""

    reference: Layout
    without_mtp: bool = False
    """True if both train without the layers for multi-token prediction."""

    @property
    def runs(self) -> tuple[str, str]:
        """The names of the two training runs."""
        twin, reference = STRONG_RUNS
        ending = "-without-mtp" if self.without_mtp else ""
        return f"{twin}{ending}", f"{reference}{ending}"

    def words(self, degrees: str, parity: Parity) -> str:
        """Format the comparison of a twin with these parallel degrees."""
        model = " without multi-token prediction" if self.without_mtp else ""
        layouts = f"{degrees} and {degree_words(self.reference)}"
        return f"strong weights{model}, {layouts}: {parity.words(FP32_BAR)} (fp32)"


def strong_comparisons(twin: Twin) -> list[StrongComparison]:
    """Return the layouts that a twin is compared with: one rank.

    Under context parallelism, Megatron averages the loss of further tokens over each rank's own
    tokens, which differs from one rank's average. A model with multi-token prediction is therefore
    compared with one rank without these layers, and with them in a layout of the same cp.
    """
    layout = twin.plan.layout
    if layout.world_size == 1:
        return []
    if layout.cp_size == 1 or not twin.plan.model.architecture.mtp_layers:
        return [StrongComparison(Layout())]
    only_cp = Layout(cp_size=layout.cp_size)
    differs = layout.world_size > only_cp.world_size
    return [
        StrongComparison(Layout(), without_mtp=True),
        *([StrongComparison(only_cp)] if differs else []),
    ]


@dataclass
class Rehearsal:
    """The drills for one twin. Later drills reuse the files of earlier drills."""

    twin: Twin
    directory: Path
    seed: int
    """Seed for choosing the killed rank and the step."""
    announce: Announce = _silent
    bug: str = ""
    """A deliberate bug for every training run; only tests set it."""
    straight: TrainingOutcome | None = None
    """The uninterrupted training run; None before it has run."""

    @property
    def engine(self) -> Engine:
        return ENGINES[self.twin.plan.spec.engine.name]

    def run(self, drill: DrillName) -> Result:
        """Run one drill. Drills that compare losses run the uninterrupted training first."""
        drills = {
            DrillName.TRAIN: self.train,
            DrillName.KILL: self.kill,
            DrillName.RESHARD: self.reshard,
            DrillName.EVALUATE: self.evaluate,
            DrillName.EXPORT: self.export,
        }
        return drills[drill]()

    def train(self) -> Result:
        """Train twenty steps without interruption."""
        outcome = self._straight()
        if outcome.code:
            return self._result(DrillName.TRAIN, False, _failure(outcome), outcome.seconds)
        losses = outcome.losses()
        bad = [step for step, loss in losses.items() if not math.isfinite(loss)]
        skipped = sum(event.values["skipped"] for event in outcome.steps().values())
        if len(losses) != STEPS or bad:
            said = f"finished {len(losses)} of {STEPS} steps, {len(bad)} without a finite loss"
            return self._result(DrillName.TRAIN, False, said, outcome.seconds)
        said = f"{STEPS} steps, loss {losses[1]:.2f} → {losses[STEPS]:.2f}"
        said += f", {skipped} skipped by the loss scale" if skipped else ""
        return self._result(DrillName.TRAIN, True, said, outcome.seconds)

    def kill(self) -> Result:
        """Kill a rank after the save, resume, and compare with the uninterrupted training run."""
        straight = self._straight()
        if straight.code:
            return self._result(DrillName.KILL, False, "the uninterrupted training failed", 0.0)
        draw = random.Random(self.seed)  # noqa: S311  (a drill, not a secret)
        rank = draw.randrange(self.twin.plan.layout.world_size)
        # An asynchronous save needs a few steps to finish.
        after = 5 if self.twin.plan.spec.checkpoints.asynchronous else 1
        step = draw.randint(SAVE_AT + after, STEPS - 1)
        where = self.directory / "killed"
        killed = self._train("killed", self._saving(where), DrillName.KILL, kill=(rank, step))
        resumed = self._train("resumed", self._saving(where), DrillName.KILL)
        seconds = killed.seconds + resumed.seconds
        if killed.code == 0:
            said = f"rank {rank} did not exit when it was killed at step {step}"
            return self._result(DrillName.KILL, False, said, seconds)
        if resumed.code:
            return self._result(DrillName.KILL, False, _failure(resumed), seconds)
        first = min(resumed.steps(), default=0)
        if first != SAVE_AT + 1:
            said = f"resumed at step {first}, not {SAVE_AT + 1}"
            return self._result(DrillName.KILL, False, said, seconds)
        differing = [
            number
            for number, event in resumed.steps().items()
            if number not in straight.steps()
            or _figures(event) != _figures(straight.steps()[number])
        ]
        last = self.engine.checkpoint_naming.directory_name(STEPS)
        tensors, changed = differing_tensors(
            self.directory / "straight" / last, where / last, engine=self.engine
        )
        said = f"rank {rank} killed at step {step}, resumed from step {SAVE_AT}: "
        if differing:
            said += f"{len(differing)} of {STEPS - SAVE_AT} steps differ"
        elif changed:
            said += f"{len(changed)} of {tensors} tensors in the checkpoint differ: {changed[0]}"
        else:
            said += f"losses, gradient norms and {tensors} tensors are bitwise identical"
        return self._result(DrillName.KILL, not (differing or changed), said, seconds)

    def reshard(self) -> Result:
        """Compare the losses and gradient norms of different layouts.

        First from the same strong weights, in fp32, with one rank. Then resume from the checkpoint
        in a different layout.
        """
        strong: list[tuple[StrongComparison, Parity]] = []
        seconds = 0.0
        for comparison in strong_comparisons(self.twin) if self.engine.takes_strong_weights else ():
            found, said, took = self._compare_strong(comparison)
            seconds += took
            if found is None or not found.holds(FP32_BAR):
                return self._result(DrillName.RESHARD, False, said, seconds)
            strong.append((comparison, found))
        straight = self._straight()
        if straight.code:
            return self._result(DrillName.RESHARD, False, "the uninterrupted training failed", 0.0)
        moe = self.twin.plan.model.architecture.is_moe
        other = other_layout(
            self.twin.plan.layout,
            moe,
            splits_model=self.engine.splits_model,
            fsdp=self.twin.plan.sharding is Sharding.FSDP,
        )
        arguments = self._resharded(other)
        outcome = self._train("resharded", arguments, DrillName.RESHARD, other.world_size)
        seconds += outcome.seconds
        if outcome.code:
            return self._result(DrillName.RESHARD, False, _failure(outcome), seconds)
        theirs = outcome.steps()
        if len(theirs) != STEPS - SAVE_AT or not theirs.keys() <= straight.steps().keys():
            said = f"finished {len(theirs)} of {STEPS - SAVE_AT} steps"
            return self._result(DrillName.RESHARD, False, said, seconds)
        precision = self.twin.plan.spec.training.precision
        bar, parity = bar_of(precision), compare(straight, outcome)
        layouts = f"saved with {self._degrees}, resumed with {degree_words(other)}"
        said = f"{layouts}: {parity.words(bar)} ({precision})"
        judged = parity.is_conclusive(bar)
        for comparison, found in strong:
            said += f"; {comparison.words(self._degrees, found)}"
            judged = judged and found.is_conclusive(FP32_BAR)
        result = self._result(DrillName.RESHARD, parity.holds(bar), said, seconds)
        return replace(result, judged=judged)

    def _compare_strong(self, comparison: StrongComparison) -> tuple[Parity | None, str, float]:
        """Train from strong weights in fp32, with the twin's layout and with the reference.

        Return the comparison, or None if a training run failed, with the result on one line and
        the duration in seconds.
        """
        outcomes, seconds = [], 0.0
        layouts = (self.twin.plan.layout, comparison.reference)
        for name, layout in zip(comparison.runs, layouts, strict=True):
            short = ShortRun(STRONG_STEPS, layout, comparison.without_mtp)
            arguments = self._arguments(short=short)
            ranks = layout.world_size
            outcome = self._train(name, arguments, DrillName.RESHARD, ranks, strong=True)
            seconds += outcome.seconds
            if outcome.code:
                return None, _failure(outcome), seconds
            outcomes.append(outcome)
        twin, one = outcomes
        done = len(one.steps().keys() & twin.steps().keys())
        if done != STRONG_STEPS:
            return None, f"finished {done} of {STRONG_STEPS} steps with strong weights", seconds
        parity = compare(one, twin)
        return parity, comparison.words(self._degrees, parity), seconds

    def evaluate(self) -> Result:
        """Require finite losses in the evaluations during the uninterrupted training run."""
        straight = self._straight()
        if straight.code:
            return self._result(DrillName.EVALUATE, False, "the uninterrupted training failed", 0.0)
        batches = self.twin.plan.spec.training.evaluation.batches
        if not batches:
            return self._result(DrillName.EVALUATE, True, "disabled in the spec", 0.0)
        found = [event for event in straight.events if event.kind is EventKind.EVALUATION]
        losses = [event.values["loss"] for event in found]
        good = bool(losses) and all(loss is not None and math.isfinite(loss) for loss in losses)
        said = f"{len(found)} evaluations of {batches} batches"
        said += f", loss {losses[0]:.2f} → {losses[-1]:.2f}" if good else ", without a finite loss"
        return self._result(DrillName.EVALUATE, good, said, sum(e.values["seconds"] for e in found))

    def export(self) -> Result:
        """Export the last checkpoint, and compare its logits in transformers with the engine's."""
        why = why_not_exported(self.engine, self._arguments())
        if why:
            said = f"this run cannot be exported: {why}"
            return replace(self._result(DrillName.EXPORT, True, said, 0.0), judged=False)
        straight = self._straight()
        if straight.code:
            return self._result(DrillName.EXPORT, False, "the uninterrupted training failed", 0.0)
        self.announce(DrillName.EXPORT, "exported", STEPS)
        began = time.monotonic()
        source = self.directory / "straight"
        last = self.engine.checkpoint_naming.directory_name(STEPS)
        target = self.directory / "exported"
        try:
            done = export_weights(str(source), last, target, engine=self.engine)
            self.announce(DrillName.EXPORT, "compared", STEPS)
            arguments = self._arguments()
            logits = compare_logits(source / last, target, arguments, self.seed, engine=self.engine)
        except SeatrialError as error:
            said = str(error).partition("\n")[0]
            return self._result(DrillName.EXPORT, False, said, time.monotonic() - began)
        said = (
            f"{done['class']}, logits for {logits.tokens} tokens in transformers differ by "
            f"{logits.largest:.0e} from the engine's"
        )
        return self._result(DrillName.EXPORT, logits.equal, said, time.monotonic() - began)

    def _straight(self) -> TrainingOutcome:
        """Return the uninterrupted training run. The first call runs it."""
        if self.straight is None:
            arguments = self._saving(self.directory / "straight")
            self.straight = self._train("straight", arguments, DrillName.TRAIN)
        return self.straight

    def _arguments(
        self,
        where: str = "",
        resharding: Resharding | None = None,
        short: ShortRun | None = None,
    ) -> Arguments:
        """Return the twin's arguments, adapted to CPU and to this drill."""
        tokens = self.twin.data.null_tokenizer
        trial = Trial(str(self.directory), where, tokens, resharding, short)
        return self.engine.trial_arguments(self.twin.plan, trial)

    def _saving(self, where: Path) -> Arguments:
        """Return the arguments for a drill that saves to its own directory."""
        return self._arguments(str(where))

    def _resharded(self, other: Layout) -> Arguments:
        """Return the arguments that load the first save in a different layout, without saving."""
        return self._arguments(str(self.directory / "straight"), Resharding(SAVE_AT, other))

    def _train(
        self,
        name: str,
        arguments: Arguments,
        drill: DrillName,
        processes: int | None = None,
        kill: tuple[int, int] | None = None,
        *,
        strong: bool = False,
    ) -> TrainingOutcome:
        """Start the engine once, and report progress."""
        training = Training(
            name,
            arguments,
            processes or self.twin.plan.layout.world_size,
            self.directory,
            kill,
            self.bug,
            strong_weights=STRONG_WEIGHTS if strong else 0.0,
            counts_experts=self.twin.plan.model.architecture.is_moe,
            environment=self.engine.environment(self.twin.plan) | self._tokenizer(),
            engine=self.engine.name,
        )
        return train(training, TIMEOUT, lambda step: self.announce(drill, name, step))

    def _tokenizer(self) -> dict[str, str]:
        """Return the variables that select the data set's copy of the tokenizer, if it is used."""
        data = self.twin.data
        return {} if data.copy is None or data.null_tokenizer else data.copy.variables()

    @property
    def _degrees(self) -> str:
        return degree_words(self.twin.plan.layout)

    def _result(self, drill: DrillName, ok: bool, said: str, seconds: float) -> Result:
        return Result(drill, ok, said, seconds, twin=self._degrees)


def other_layout(
    layout: Layout, moe: bool = False, *, splits_model: bool = True, fsdp: bool = False
) -> Layout:
    """Return a different layout for the same model, with 8 ranks or fewer.

    Megatron keeps a second optimizer for experts if ep is greater than 1 or if tp differs from the
    experts' tp. It cannot load a checkpoint with two optimizers into a run with one. Therefore a
    mixture of experts keeps tp and ep, and changes its pipeline stages. FSDP has no stages, and
    names the states of all experts alike.
    """
    if not splits_model:
        # Use more ranks than the save: LLM Foundry cannot load a sharded checkpoint on one rank.
        return replace(layout, dp_size=2 * layout.dp_size)
    if layout.pp_size > 1:
        return replace(layout, pp_size=1)
    if moe and fsdp:
        return replace(layout, dp_size=1 if layout.dp_size > 1 else 2)
    if moe:
        split = replace(layout, pp_size=2)
        return split if split.world_size <= MAX_PROCESSES else replace(split, dp_size=1)
    if layout.tp_size > 1:
        return replace(layout, tp_size=1)
    return replace(layout, tp_size=2, dp_size=max(1, layout.dp_size // 2))


def _figures(event: object) -> tuple[object, object]:
    """Return the values that must be bit-identical after a resume."""
    values = event.values  # type: ignore[attr-defined]
    return values["loss"], values["grad_norm"]


def _failure(outcome: TrainingOutcome) -> str:
    if outcome.timed_out:
        return f"did not finish within {TIMEOUT:.0f} s"
    return f"the engine exited with code {outcome.code}: {outcome.tail}"
