# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Rules about the checkpoint that a run would resume from."""

from collections.abc import Iterator
from dataclasses import replace

from seatrial.checkpoints.setup import Setup
from seatrial.checkpoints.verdict import Resume, ResumeReason, Setting, verdict
from seatrial.checks.facts import version
from seatrial.checks.probe_facts import Unknown
from seatrial.checks.resume_source import (
    ResumeOrigin,
    chosen_of,
    has_resume_checks,
    origin_of,
    wanted_setup,
)
from seatrial.checks.rule import Checked, Situation, of_checkpoints, proposed, static
from seatrial.checks.rules.paths import mount_of, seen_by_pods
from seatrial.codes.resume import ResumeCode
from seatrial.engines.registry import ENGINES
from seatrial.planning.layout import Layout

_CODES: dict[str, ResumeCode] = {
    Setting.PADDED_VOCAB_SIZE: ResumeCode.PADDING,
    Setting.CHECKPOINT_FORMAT: ResumeCode.FORMAT,
    Setting.OPTIMIZER: ResumeCode.OPTIMIZER,
    Setting.OPTIMIZER_SHARDING: ResumeCode.OPTIMIZER,
    Setting.PRECISION: ResumeCode.PRECISION,
    Setting.LAYOUT: ResumeCode.LAYOUT,
    Setting.BLEND: ResumeCode.BLEND,
    Setting.SPLIT: ResumeCode.SPLIT,
    Setting.SEED: ResumeCode.SEED,
    Setting.SEQUENCE_LENGTH: ResumeCode.SEQUENCE,
    Setting.TRAIN_SAMPLES: ResumeCode.LENGTH,
    Setting.GLOBAL_BATCH_SIZE: ResumeCode.BATCH,
    Setting.ROTARY_BASE: ResumeCode.MODEL,
    Setting.ROTARY_PERCENT: ResumeCode.MODEL,
    Setting.ROTARY_SCALING: ResumeCode.MODEL,
    Setting.NORM_EPSILON: ResumeCode.MODEL,
    Setting.SIZES: ResumeCode.CONTENT,
    Setting.TOKENIZER: ResumeCode.TOKENIZER,
    Setting.PEAK: ResumeCode.SCHEDULE,
    Setting.MINIMUM: ResumeCode.SCHEDULE,
    Setting.STYLE: ResumeCode.SCHEDULE,
    Setting.WARMUP_SAMPLES: ResumeCode.SCHEDULE,
    Setting.DECAY_SAMPLES: ResumeCode.SCHEDULE,
}
"""The code for each reason. Model dimensions are not listed: they share one code."""
_FIELDS: dict[str, str] = {
    Setting.OPTIMIZER: "training.optimizer",
    Setting.OPTIMIZER_SHARDING: "parallelism.sharding",
    Setting.PRECISION: "training.precision",
    Setting.BLEND: "data.sources",
    Setting.SIZES: "data.sources",
    Setting.SPLIT: "data.split",
    Setting.SEED: "training.seed",
    Setting.SEQUENCE_LENGTH: "training.sequence_length",
    Setting.ROTARY_BASE: "model",
    Setting.TOKENIZER: "data.tokenizer",
    Setting.PEAK: "training.learning_rate.peak",
    Setting.MINIMUM: "training.learning_rate.minimum",
    Setting.STYLE: "training.learning_rate.style",
    Setting.WARMUP_SAMPLES: "training.learning_rate.warmup",
    Setting.DECAY_SAMPLES: "training.learning_rate.decay",
}
"""The field for each reason. All other reasons concern the checkpoint as a whole."""
_OF_OPTIMIZER = (Setting.OPTIMIZER, Setting.OPTIMIZER_SHARDING)
_LENGTHS = ("steps", "samples", "tokens")


def length_field(situation: Situation) -> str:
    """Return the field that sets the length of the run."""
    training = situation.spec.training
    given = (name for name in _LENGTHS if getattr(training, name) is not None)
    return f"training.{next(given, 'steps')}"


def judged(situation: Situation) -> Iterator[Checked]:
    """Report each reason in the resume verdict."""
    origin = origin_of(situation)
    chosen = chosen_of(situation, origin) if origin is not None else None
    if origin is None or chosen is None or chosen.setup is None or not chosen.recorded:
        return
    wanted = wanted_setup(situation)
    reasons = verdict(chosen.setup, wanted).reasons
    # If the checkpoint belongs to a different model, other differences do not matter.
    shapes = [each for each in reasons if each.what not in _CODES]
    if not shapes and not chosen.has_optimizer:
        yield situation.error(
            ResumeCode.OPTIMIZER,
            origin.field,
            f"the checkpoint at step {chosen.step:,} has no optimizer state, which a resumed run "
            "needs.",
            "Start a new run from its weights instead, with initial_weights.",
            chosen.step,
        )
        reasons = tuple(each for each in reasons if each.what not in _OF_OPTIMIZER)
    for reason in shapes[:1] or reasons:
        if _CODES.get(reason.what) is ResumeCode.BATCH:
            # `other_batch` reports the batch size, if everything else matches.
            continue
        yield from _finding(situation, origin, chosen.setup, wanted, reason)


def _finding(
    situation: Situation, origin: ResumeOrigin, saved: Setup, wanted: Setup, reason: ResumeReason
) -> Iterator[Checked]:
    code = _CODES.get(reason.what, ResumeCode.MODEL)
    parent = situation.spec.continue_from
    if code is ResumeCode.SCHEDULE and origin.is_parent and parent and parent.reset_schedule:
        return
    field_name = _field(situation, origin, saved, wanted, reason)
    rule = (
        f"{origin.address} was saved with {reason.what} {reason.saved}, but the run uses "
        f"{reason.wanted}: {reason.meaning}"
    )
    fix, by = _repair(situation, origin, saved, wanted, reason, field_name)
    if reason.what == Setting.LAYOUT and reason.outcome is Resume.RESHARDED:
        yield situation.note(ResumeCode.RESHARDED, field_name, rule, "No action needed.")
    elif code is ResumeCode.LENGTH and origin.is_parent:
        # A new run may be longer than its parent; after the parent it has its own data order.
        yield situation.note(code, field_name, rule, "No action needed.", reason.wanted)
    elif reason.outcome is Resume.IMPOSSIBLE:
        yield situation.error(code, field_name, rule, fix, reason.wanted, proposed(*by))
    else:
        yield situation.warning(code, field_name, rule, fix, reason.wanted, proposed(*by))


def _field(
    situation: Situation, origin: ResumeOrigin, saved: Setup, wanted: Setup, reason: ResumeReason
) -> str:
    """Return the spec field that a reason concerns."""
    if reason.what == Setting.LAYOUT:
        return _layout_field(saved.layout, wanted.layout)
    if reason.what == Setting.TRAIN_SAMPLES:
        return length_field(situation)
    return _FIELDS.get(reason.what, origin.field)


def _layout_field(saved: Layout, wanted: Layout) -> str:
    for name in ("tp_size", "pp_size", "vp_size", "cp_size", "ep_size"):
        if getattr(saved, name) != getattr(wanted, name):
            return f"parallelism.{name}"
    return "cluster.nodes"


def _repair(
    situation: Situation,
    origin: ResumeOrigin,
    saved: Setup,
    wanted: Setup,
    reason: ResumeReason,
    field_name: str,
) -> tuple[str, list[str]]:
    """Return the fix for a reason, as text and as overrides."""
    code = _CODES.get(reason.what, ResumeCode.MODEL)
    if code is ResumeCode.SCHEDULE:
        return _schedule_repair(origin, saved, field_name)
    if code is ResumeCode.LAYOUT:
        return _layout_repair(saved, wanted, situation.plan.machines.processes_per_node)
    if code is ResumeCode.BLEND:
        words = saved.data_order.blend
        by = [f"data.sources={sources}"] if (sources := _sources(words)) else []
        return "Use the same data, or start a new run from its weights with initial_weights.", by
    if code is ResumeCode.SEQUENCE:
        length = saved.data_order.sequence_length
        fix = f"Use {length}, or start a new run from its weights with initial_weights."
        return fix, [f"{field_name}={length}"]
    if code is ResumeCode.SEED:
        return f"Use {saved.data_order.seed}.", [f"{field_name}={saved.data_order.seed}"]
    if code is ResumeCode.SPLIT:
        return f"Use [{saved.data_order.split}].", [f"{field_name}=[{saved.data_order.split}]"]
    if code is ResumeCode.PRECISION:
        return f"Use {saved.precision}.", [f"{field_name}={saved.precision}"]
    if code is ResumeCode.CONTENT:
        return "Use the files that the checkpoint was trained on, or start a new run.", []
    if origin.is_parent:
        return "Set continue_from to the run and the checkpoints to continue from.", []
    own = f"checkpoints.location={origin.address.rstrip('/')}/{situation.spec.name}"
    return f"Use the spec that saved the checkpoint, or set a different directory: {own}.", [own]


def _schedule_repair(origin: ResumeOrigin, saved: Setup, field_name: str) -> tuple[str, list[str]]:
    """Return the fix that restarts the schedule if possible, or restores the saved one."""
    if origin.is_parent:
        by = ["continue_from.reset_schedule=true"]
        return f"Keep the parent's schedule, or restart the schedule: {by[0]}.", by
    schedule, name = saved.schedule, field_name.rpartition(".")[2]
    if schedule is None or name == "style":
        return "Keep the checkpoint's schedule, or give the run a different name.", []
    values: dict[str, object] = {
        "peak": schedule.peak,
        "minimum": schedule.minimum,
        "warmup": f"{{samples: {schedule.warmup_samples}}}",
        "decay": f"{{samples: {schedule.decay_samples}}}",
    }
    fix = "Keep the checkpoint's schedule, or continue in a run with a different name."
    return fix, [f"{field_name}={values[name]}"]


def _layout_repair(saved: Setup, wanted: Setup, of_node: int) -> tuple[str, list[str]]:
    """Return the fix that restores the checkpoint's layout."""
    one, other = saved.layout, wanted.layout
    by = [
        f"parallelism.{name}={getattr(one, name)}"
        for name in ("tp_size", "pp_size", "vp_size", "cp_size", "ep_size")
        if getattr(one, name) != getattr(other, name)
    ]
    if one.tp_size == 1 and other.tp_size > 1:
        by.append("parallelism.sequence_parallel=false")
    if one.world_size != other.world_size and one.world_size % of_node == 0:
        by.append(f"cluster.nodes={one.world_size // of_node}")
        if saved.global_batch_size != wanted.global_batch_size:
            by.append(f"training.global_batch_size={saved.global_batch_size}")
    return f"Use the checkpoint's layout, {one} on {one.world_size} ranks.", by


def _sources(words: tuple[str, ...]) -> str:
    """Convert blend arguments to spec sources; "" if they are not weights and paths."""
    sources, weight = [], ""
    for word in words:
        if word.replace(".", "", 1).isdigit():
            weight = word
            continue
        if not word.startswith("/"):
            return ""
        share = f", weight: {weight}" if weight else ""
        sources.append(f"{{prepared: {word}{share}}}")
        weight = ""
    return f"[{', '.join(sources)}]" if sources else ""


def other_batch(situation: Situation) -> Iterator[Checked]:
    """Report a checkpoint with a different global batch size."""
    origin = origin_of(situation)
    chosen = chosen_of(situation, origin) if origin is not None else None
    if origin is None or chosen is None or chosen.setup is None or not chosen.recorded:
        return
    saved, size = chosen.setup.global_batch_size, situation.plan.batch.global_batch_size
    same = replace(chosen.setup.model, padded_vocab_size=0) == replace(
        wanted_setup(situation).model, padded_vocab_size=0
    )
    if saved and saved != size and same:
        yield situation.warning(
            ResumeCode.BATCH,
            "training.global_batch_size",
            f"the global batch size was {saved:,} up to step {chosen.step:,}, but the run uses "
            f"{size:,}. The schedule counts sequences: the learning rate and the last step shift.",
            f"Use {saved}, unless the change is intended.",
            size,
        )


def newer_engine(situation: Situation) -> Iterator[Checked]:
    """Report a checkpoint from an engine version that is newer than the run's."""
    origin = origin_of(situation)
    chosen = chosen_of(situation, origin) if origin is not None else None
    if origin is None or chosen is None or chosen.setup is None:
        return
    text = chosen.setup.versions.engine.rpartition(" ")[2]
    engine = ENGINES[situation.spec.engine.name]
    if version(text)[:2] > version(engine.version)[:2]:
        yield situation.warning(
            ResumeCode.NEWER_ENGINE,
            origin.field,
            f"the checkpoint at step {chosen.step:,} was saved by {engine.name} {text}, but "
            f"the run uses {engine.version}: an older engine may be unable to read it.",
            f"Use an image with {engine.name} {text} or newer.",
            text,
        )


def unseen_place(situation: Situation) -> Iterator[Checked]:
    """Report a checkpoint at a path that pods cannot see."""
    spec = situation.spec
    parent, weights = spec.continue_from, spec.initial_weights
    brought = weights.huggingface if weights else None
    named = {
        "continue_from.checkpoints": parent.checkpoints if parent else None,
        "initial_weights.checkpoint": weights.checkpoint if weights else None,
        "initial_weights.huggingface": brought if brought and brought[0] == "/" else None,
    }
    for field_name, path in named.items():
        if path is None or not situation.in_pods or seen_by_pods(situation, path):
            continue
        mount = mount_of(situation)
        yield situation.error(
            ResumeCode.PLACE,
            field_name,
            f"{path} does not exist in pods: the volume is mounted at {mount}.",
            f"Copy the checkpoints to the volume, and use their path below {mount}.",
            path,
        )


def first_weights(situation: Situation) -> Iterator[Checked]:
    """Report initial weights that do not exist or belong to a different model."""
    weights, probe = situation.spec.initial_weights, situation.checkpoints
    address = weights.checkpoint if weights else None
    if address is None or probe is None or not has_resume_checks(situation):
        return
    place, field_name = probe.at(address), "initial_weights.checkpoint"
    if place is Unknown.UNSEEN:
        return
    if isinstance(place, Unknown) or (not place.saved and place.tracked is None):
        yield situation.error(
            ResumeCode.NOTHING_SAVED,
            field_name,
            f"{address} contains no checkpoint to start from.",
            "Use the directory that contains the iter_ directories.",
            address,
        )
    elif place.newest is not None and place.newest.setup is not None:
        saved, wanted = place.newest.setup, wanted_setup(situation)
        for reason in verdict(saved, wanted).reasons:
            if reason.what not in _CODES:
                yield situation.error(
                    ResumeCode.MODEL,
                    field_name,
                    f"{address} was saved with {reason.what} {reason.saved}, but the run uses "
                    f"{reason.wanted}: {reason.meaning}",
                    "Use weights of this model, or train the model that these weights belong to.",
                    reason.wanted,
                )
                return


def torn_newest(situation: Situation) -> Iterator[Checked]:
    """Report a parent whose newest save is incomplete."""
    origin, parent = origin_of(situation), situation.spec.continue_from
    newest = origin.place.newest if origin is not None else None
    if origin is None or newest is None or not origin.is_parent or parent is None:
        return
    last = origin.place.saved[0]
    if parent.step == "latest" and not last.whole:
        yield situation.warning(
            ResumeCode.TORN,
            "continue_from.step",
            f"the newest checkpoint, at step {last.step:,}, is incomplete: the run would continue "
            f"from step {newest.step:,}.",
            f"Use {newest.step} if that is intended, or restore the newest checkpoint from an "
            "intact copy.",
            last.step,
            proposed(f"continue_from.step={newest.step}"),
        )


def step_there(situation: Situation) -> Iterator[Checked]:
    """Report a step that was not saved, or whose save is incomplete."""
    origin, parent = origin_of(situation), situation.spec.continue_from
    if origin is None or not origin.is_parent or parent is None or not origin.place.newest:
        return
    if parent.step == "latest":
        return
    chosen, newest = chosen_of(situation, origin), origin.place.newest
    field_name = "continue_from.step"
    if chosen is None:
        there = ", ".join(f"{one.step:,}" for one in origin.place.saved[:5])
        yield situation.error(
            ResumeCode.NO_STEP,
            field_name,
            f"{origin.address} has no checkpoint at step {parent.step:,}; it has steps {there}.",
            f"Use {newest.step}, or latest.",
            parent.step,
            proposed(f"{field_name}={newest.step}"),
        )
    elif not chosen.whole:
        yield situation.error(
            ResumeCode.TORN,
            field_name,
            f"the checkpoint at step {parent.step:,} is incomplete: it has no record.",
            f"Use {newest.step}, the newest complete checkpoint, or latest.",
            parent.step,
            proposed(f"{field_name}={newest.step}"),
        )


def growing_decay(situation: Situation) -> Iterator[Checked]:
    """Report a growing weight decay in a run whose length differs from the checkpoint's."""
    options = situation.spec.engine.options
    name = ENGINES[situation.spec.engine.name].growing_decay_option(options)
    origin, parent = origin_of(situation), situation.spec.continue_from
    chosen = chosen_of(situation, origin) if origin is not None else None
    if not name or origin is None or chosen is None or chosen.setup is None:
        return
    if origin.is_parent and parent is not None and parent.reset_schedule:
        return
    saved, wanted = chosen.setup.data_order, wanted_setup(situation).data_order
    if saved.train_samples != wanted.train_samples:
        yield situation.error(
            ResumeCode.SCHEDULE,
            f"engine.options.{name}",
            f"weight decay grows over the whole run, whose length changed from "
            f"{saved.train_samples:,} to {wanted.train_samples:,} samples: the engine compares the "
            "lengths when it loads the checkpoint, and exits if they differ.",
            "Keep the length, use constant weight decay, or restart the schedule: "
            "continue_from.reset_schedule=true.",
            options[name],
        )


def finished(situation: Situation) -> Iterator[Checked]:
    """Report a checkpoint after which no steps are left to train."""
    origin = origin_of(situation)
    chosen = chosen_of(situation, origin) if origin is not None else None
    if origin is None or chosen is None or not chosen.whole:
        return
    samples, step = situation.plan.length.samples, chosen.step
    if chosen.consumed_samples < samples:
        return
    make = situation.error if origin.is_parent else situation.warning
    yield make(
        ResumeCode.FINISHED,
        length_field(situation),
        f"the run had consumed {chosen.consumed_samples:,} sequences at step {step:,}, and it ends "
        f"after {samples:,}: no steps are left to train.",
        f"Make the run longer than {step:,} steps, or continue from an earlier checkpoint.",
        samples,
    )


def nothing_saved(situation: Situation) -> Iterator[Checked]:
    """Report a location without a complete checkpoint."""
    origin = origin_of(situation)
    if origin is None or origin.place.newest is not None:
        return
    torn = len(origin.place.saved)
    if origin.is_parent:
        saves = "save" if torn == 1 else "saves"
        state = f"{torn:,} {saves} without a record" if torn else "no checkpoint"
        yield situation.error(
            ResumeCode.NOTHING_SAVED,
            "continue_from.checkpoints",
            f"{origin.address} has {state}: the run cannot continue from it.",
            "Use the location of the parent's checkpoints. For weights that Seatrial did not save, "
            "set initial_weights.",
            origin.address,
        )
    elif origin.place.tracked is not None:
        yield situation.error(
            ResumeCode.FOREIGN,
            "checkpoints.location",
            f"{origin.address} contains checkpoints that Seatrial did not save: the run would stop "
            "instead of loading them or starting at step 0.",
            f"Use a separate directory, such as {origin.address.rstrip('/')}/"
            f"{situation.spec.name}.",
            origin.address,
            proposed(f"checkpoints.location={origin.address.rstrip('/')}/{situation.spec.name}"),
        )


RULES = (
    of_checkpoints(
        *(
            *(ResumeCode.MODEL, ResumeCode.PADDING, ResumeCode.FORMAT, ResumeCode.OPTIMIZER),
            *(ResumeCode.PRECISION, ResumeCode.LAYOUT, ResumeCode.RESHARDED, ResumeCode.BLEND),
            *(ResumeCode.SEQUENCE, ResumeCode.SPLIT, ResumeCode.SEED, ResumeCode.LENGTH),
            *(ResumeCode.CONTENT, ResumeCode.TOKENIZER, ResumeCode.SCHEDULE),
        ),
        look=judged,
    ),
    of_checkpoints(ResumeCode.NO_STEP, ResumeCode.TORN, look=step_there),
    of_checkpoints(ResumeCode.TORN, look=torn_newest),
    of_checkpoints(ResumeCode.BATCH, look=other_batch),
    of_checkpoints(ResumeCode.NEWER_ENGINE, look=newer_engine),
    of_checkpoints(ResumeCode.MODEL, ResumeCode.NOTHING_SAVED, look=first_weights),
    of_checkpoints(ResumeCode.SCHEDULE, look=growing_decay),
    of_checkpoints(ResumeCode.FINISHED, look=finished),
    of_checkpoints(ResumeCode.NOTHING_SAVED, ResumeCode.FOREIGN, look=nothing_saved),
    static(ResumeCode.PLACE, look=unseen_place),
)
