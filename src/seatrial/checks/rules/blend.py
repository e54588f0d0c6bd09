# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Rules about the amount of prepared data: samples per split, and epochs per source."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from seatrial.checks.probe_facts import CorpusFacts
from seatrial.checks.rule import Checked, Situation, of_data, proposed
from seatrial.checks.rules.prepared_data import usable_pairs
from seatrial.codes.checks import CheckCode
from seatrial.codes.datasets import DatasetCode
from seatrial.dataprep.inputs.sources import named_sources
from seatrial.units import format_count

NAMES = ("training", "validation", "test")
MANY_EPOCHS = 4
"""Epochs up to which repeated data is about as useful as new data (Muennighoff et al., 2023)."""
MORE_THAN_ONCE = 1.01
"""Report data as repeated from this number of epochs on; the engine itself reads 0.5 % more."""
ROUGH = 2.0
"""Error factor of a token count that is estimated from the stored size."""
UNEVEN = 2.0
"""Report a source that is read this many times, and this many times as often as a different one."""
TRIED_SPLITS = ((98, 2, 0), (95, 5, 0), (90, 10, 0), (80, 20, 0), (50, 50, 0))
"""Splits to propose; the first one that works is used."""

Shares = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Source:
    """A prepared source and its size."""

    number: int
    """Index in the spec."""
    prefix: str
    sequences: int
    tokens: int

    def sequences_of(self, shares: Shares) -> tuple[int, int, int]:
        """Return the sequences in each split, rounded as in megatron.core.datasets 0.19.2."""
        total = sum(shares)
        edges = [0.0]
        for share in shares:
            edges.append(edges[-1] + share / total)
        places = [round(edge * float(self.sequences)) for edge in edges]
        counts = [
            0 if not share else end - begin
            for share, (begin, end) in zip(shares, pairwise(places), strict=True)
        ]
        return counts[0], counts[1], counts[2]

    def tokens_of(self, shares: Shares, split: int) -> float:
        """Estimate the tokens in a split, as if all sequences had the same length."""
        return self.tokens * self.sequences_of(shares)[split] / self.sequences


def _sources(situation: Situation) -> list[Source]:
    """Return the prepared sources that could be read."""
    return [
        Source(int(field.split("[")[1].split("]")[0]), prefix, facts.sequences, facts.tokens)
        for field, prefix, facts in usable_pairs(situation)
    ]


def empty_split(situation: Situation) -> Iterator[Checked]:
    """Report a split without documents, or with too few tokens for one sample."""
    shares, length = situation.spec.data.split, situation.plan.model.sequence_length
    found = _sources(situation)
    for split, name in enumerate(NAMES):
        for source in found if shares[split] else ():
            documents = source.sequences_of(shares)[split]
            tokens = source.tokens_of(shares, split)
            if documents and tokens - 1 >= length:
                continue
            share = f"the {name} split ({shares[split]:g} of {sum(shares):g})"
            code: str = DatasetCode.SPLIT_EMPTY
            rule = (
                f"{share} contains none of the {source.sequences:,} documents in {source.prefix}."
            )
            if documents:
                code = CheckCode.NO_SAMPLES
                rule = (
                    f"{share} contains about {tokens:,.0f} tokens from {source.prefix}, less than "
                    f"one sample of {length:,}: the engine fails with `assert num_samples > 0`."
                )
            by = _working_split(situation, found)
            fix = f"Use {' and '.join(by)}."
            value = ", ".join(f"{part:g}" for part in shares)
            yield situation.error(code, "data.split", rule, fix, value, proposed(*by))
            return


def _working_split(situation: Situation, sources: list[Source]) -> tuple[str, ...]:
    """Return the smallest change to a split in which every source has samples."""
    length = situation.plan.model.sequence_length
    for shares in TRIED_SPLITS:
        if all(
            source.tokens_of(shares, split) - 1 >= length for source in sources for split in (0, 1)
        ):
            return (f"data.split=[{', '.join(map(str, shares))}]",)
    return "data.split=[100, 0, 0]", "training.evaluation.batches=0"


def repeated(situation: Situation) -> Iterator[Checked]:
    """Report sources that the run reads many times, because of its length or the weights."""
    found = _sources(situation)
    if not found or len(found) < len(situation.spec.data.sources or ()):
        yield from _repeated_corpora(situation)
        return
    times = _times(situation, [source.tokens_of(situation.spec.data.split, 0) for source in found])
    weighted = (situation.spec.data.sources or ())[0].weight is not None and len(found) > 1
    least = min(times)
    for source, often in zip(found, times, strict=True):
        field_name = f"data.sources[{source.number}]"
        if weighted and often >= UNEVEN and often > UNEVEN * least:
            others = [other for other in found if times[found.index(other)] == least]
            yield situation.warning(
                CheckCode.UNEVEN_BLEND,
                f"{field_name}.weight",
                f"the run reads {source.prefix} {often:,.1f} times and {others[0].prefix} "
                f"{least:.2g} times: weights are shares of the samples, not of the sizes.",
                "Set weights in proportion to size, or omit all weights, unless this is intended.",
                f"{often:.1f}",
                proposed(*(f"data.sources[{other.number}].weight=null" for other in found)),
            )
        elif often > MANY_EPOCHS:
            length = situation.plan.length
            steps = max(1, length.steps_within(int(length.samples * MANY_EPOCHS / often)))
            yield situation.warning(
                DatasetCode.EPOCHS,
                f"{field_name}.prepared",
                f"the run reads {source.prefix} {often:,.0f} times ({source.tokens:,} tokens). "
                f"Beyond {MANY_EPOCHS} epochs, repeated data is much less useful than new data.",
                f"Add data, or shorten the run to {steps:,} steps.",
                f"{often:.1f}",
                proposed(*_shortened(situation, steps)),
            )
        elif often > MORE_THAN_ONCE:
            # Not the field of the warning, so that a shorter run counts as a repair of the warning.
            yield situation.note(
                DatasetCode.EPOCHS,
                "data.sources",
                f"the run reads {source.prefix} {often:,.1f} times ({source.tokens:,} tokens).",
                "No action is needed if this is intended.",
                f"{often:.1f}",
            )


def _repeated_corpora(situation: Situation) -> Iterator[Checked]:
    """Report raw sources that the run reads more than once, from prepared data or stored size."""
    names = [name for name, _ in named_sources(situation.plan)]
    if situation.data is None or not names:
        return
    shares = situation.spec.data.split
    prepared = situation.data.training_tokens(situation.plan.data_location, shares)
    if all(name in prepared for name in names):
        held, error = [float(prepared[name]) for name in names], 1.0
    else:
        held, error = _rough_tokens(situation), ROUGH
    if not held:
        return
    for number, (tokens, often) in enumerate(zip(held, _times(situation, held), strict=True)):
        if often > MORE_THAN_ONCE * error:
            rule = f"the run reads the training data of {names[number]} {often:,.1f} times."
            fix = "Add data or shorten the run, unless this is intended."
            if error > 1:
                rule = (
                    f"the run reads the training data of {names[number]} about {often:,.0f} times "
                    f"({format_count(round(tokens))} tokens, estimated from its size)."
                )
                fix = f"Measure the size with seatrial data estimate. {fix}"
            report = situation.warning if often > MANY_EPOCHS * error else situation.note
            field_name = f"data.sources[{number}].from"
            yield report(DatasetCode.EPOCHS, field_name, rule, fix, f"{often:.1f}")


def _rough_tokens(situation: Situation) -> list[float]:
    """Estimate the training tokens in each raw source from its stored size; empty if unknown."""
    shares = situation.spec.data.split
    held = []
    for source in situation.spec.data.sources or ():
        if situation.data is None or source.from_ is None:
            return []
        facts = situation.data.corpus(source.from_, source.files)
        if not isinstance(facts, CorpusFacts) or not facts.rough_tokens:
            return []
        taken = min(1.0, (source.sample_files or facts.taken) / facts.taken)
        held.append(facts.rough_tokens * taken * shares[0] / sum(shares))
    return held


def _times(situation: Situation, held: list[float]) -> list[float]:
    """Return how often the run reads the training split of each source."""
    plan = situation.plan
    wanted = plan.length.samples * plan.model.sequence_length
    given = [source.weight for source in situation.spec.data.sources or ()]
    weights = [weight or tokens for weight, tokens in zip(given, held, strict=True)]
    total = sum(weights)
    return [
        wanted * weight / total / max(tokens, 1.0)
        for weight, tokens in zip(weights, held, strict=True)
    ]


def _shortened(situation: Situation, steps: int) -> tuple[str, ...]:
    """Return the overrides that shorten the run, and the settings that depend on its length."""
    plan, training = situation.plan, situation.spec.training
    samples = plan.length.samples_after(steps)
    tokens = samples * plan.model.sequence_length
    amounts = {"steps": steps, "samples": samples, "tokens": tokens}
    unit = next(name for name in amounts if getattr(training, name) is not None)
    rest = [
        "training.learning_rate.warmup={fraction: 0.01}",
        "training.learning_rate.decay={fraction: 1.0}",
    ]
    if plan.save_every_steps > steps:
        rest.append(f"checkpoints.every_steps={max(1, steps // 10)}")
    if training.evaluation.every_steps > steps:
        rest.append(f"training.evaluation.every_steps={max(1, steps // 10)}")
    return f"training.{unit}={amounts[unit]}", *rest


RULES = (
    of_data(DatasetCode.SPLIT_EMPTY, CheckCode.NO_SAMPLES, look=empty_split),
    of_data(CheckCode.UNEVEN_BLEND, DatasetCode.EPOCHS, look=repeated),
)
