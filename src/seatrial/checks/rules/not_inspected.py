# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What of a run's data could not be looked at from here, and which rules say nothing for it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from seatrial.checks.probe_facts import Unknown
from seatrial.checks.rule import Checked, Scope, Situation, of_data
from seatrial.checks.rules import blend, prepared_data, sources, splits, tokenizers
from seatrial.codes.checks import CheckCode


@dataclass(frozen=True, slots=True)
class Thing:
    """Something that a run reads."""

    field: str
    """The field that names it."""
    address: str
    unseen: bool
    """Whether it could not be looked at."""


def named_tokenizers(situation: Situation) -> Iterator[Thing]:
    """The tokenizer of the run."""
    name, data = situation.plan.model.tokenizer, situation.data
    if name and data is not None:
        yield Thing("data.tokenizer", name, data.tokenizer(name) is Unknown.UNSEEN)


def pairs(situation: Situation) -> Iterator[Thing]:
    for field_name, prefix in prepared_data.named(situation):
        if situation.data is not None:
            unseen = situation.data.pair(prefix) is Unknown.UNSEEN
            yield Thing(field_name, prefix, unseen)


def samples(situation: Situation) -> Iterator[Thing]:
    """The splits in MDS."""
    for field_name, directory in splits.named(situation):
        if situation.data is not None:
            unseen = situation.data.split(directory) is Unknown.UNSEEN
            yield Thing(field_name, directory, unseen)


def corpora(situation: Situation) -> Iterator[Thing]:
    """The raw text."""
    for number, source in enumerate(situation.spec.data.sources or ()):
        if source.from_ is not None and situation.data is not None:
            found = situation.data.corpus(source.from_, source.files)
            yield Thing(f"data.sources[{number}].from", source.from_, found is Unknown.UNSEEN)


_TOKENIZER_CODES = (CheckCode.LARGE_TOKENIZER, CheckCode.NO_END, CheckCode.NO_TOKENIZER)
_LOOKED: dict[Callable[[Situation], Iterator[Thing]], tuple[str, ...]] = {
    named_tokenizers: _TOKENIZER_CODES,
    pairs: tuple(code for rule in (*prepared_data.RULES, *blend.RULES) for code in rule.codes),
    samples: tuple(code for rule in splits.RULES for code in rule.codes),
    corpora: tuple(
        code
        for rule in (*tokenizers.RULES, *sources.RULES)
        for code in rule.codes
        if rule.scope is Scope.DATA and code not in _TOKENIZER_CODES
    ),
}
"""What there is to look at, and the codes that say nothing where none of it was seen."""


def blind_codes(situation: Situation) -> frozenset[str]:
    """The codes of rules that had nothing to look at, for all that they look at is unseen."""
    found: set[str] = set()
    for look, codes in _LOOKED.items():
        things = list(look(situation))
        if things and all(thing.unseen for thing in things):
            found.update(map(str, codes))
    return frozenset(found)


def unseen(situation: Situation) -> Iterator[Checked]:
    """One note for each thing that could not be looked at."""
    mount = situation.spec.cluster.storage.mount.rstrip("/")
    for look in _LOOKED:
        for thing in look(situation):
            if not thing.unseen:
                continue
            why = "cannot be read from here, or not with what is installed"
            fix = "Run the check where it can be read."
            if thing.address.startswith("hf://"):
                why = "could not be fetched: Hugging Face does not answer, or does not give it"
                fix = "See the name and HF_TOKEN, and run the check with a network."
            elif situation.in_pods and f"{thing.address}/".startswith(f"{mount}/"):
                why = f"lies on the volume, and there is no {mount} here"
                fix = "Run the check where the volume is mounted."
            yield situation.note(
                CheckCode.UNSEEN,
                thing.field,
                f"{thing.address} {why}: nothing is said of it.",
                fix,
                thing.address,
            )


RULES = (of_data(CheckCode.UNSEEN, look=unseen),)
