# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Reports inputs that the check could not read, and the rules that were skipped as a result."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from seatrial.checks.probe_facts import Unknown
from seatrial.checks.rule import Checked, Scope, Situation, of_data
from seatrial.checks.rules import blend, prepared_data, sources, splits, tokenizers
from seatrial.codes.checks import CheckCode


@dataclass(frozen=True, slots=True)
class Thing:
    """An input of a run."""

    field: str
    """The field that names it."""
    address: str
    unseen: bool
    """True if the check could not read it."""


def named_tokenizers(situation: Situation) -> Iterator[Thing]:
    """Yield the tokenizer of the run."""
    name, data = situation.plan.model.tokenizer, situation.data
    if name and data is not None:
        yield Thing("data.tokenizer", name, data.tokenizer(name) is Unknown.UNSEEN)


def pairs(situation: Situation) -> Iterator[Thing]:
    for field_name, prefix in prepared_data.named(situation):
        if situation.data is not None:
            unseen = situation.data.pair(prefix) is Unknown.UNSEEN
            yield Thing(field_name, prefix, unseen)


def samples(situation: Situation) -> Iterator[Thing]:
    """Yield the MDS splits."""
    for field_name, directory in splits.named(situation):
        if situation.data is not None:
            unseen = situation.data.split(directory) is Unknown.UNSEEN
            yield Thing(field_name, directory, unseen)


def corpora(situation: Situation) -> Iterator[Thing]:
    """Yield the raw text sources."""
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
"""Each group of inputs, and the codes that are skipped if none of the inputs could be read."""


def blind_codes(situation: Situation) -> frozenset[str]:
    """Return the codes of rules whose inputs could not be read at all."""
    found: set[str] = set()
    for look, codes in _LOOKED.items():
        things = list(look(situation))
        if things and all(thing.unseen for thing in things):
            found.update(map(str, codes))
    return frozenset(found)


def unseen(situation: Situation) -> Iterator[Checked]:
    """Report a note for each input that could not be read."""
    mount = situation.spec.cluster.storage.mount.rstrip("/")
    for look in _LOOKED:
        for thing in look(situation):
            if not thing.unseen:
                continue
            why = "cannot be read from this host, or with the packages installed here"
            fix = "Run the check on a host that can read it."
            if thing.address.startswith("hf://"):
                why = (
                    "could not be downloaded, because Hugging Face did not respond or denied access"
                )
                fix = "Check the name, HF_TOKEN and the network, and rerun the check."
            elif situation.in_pods and f"{thing.address}/".startswith(f"{mount}/"):
                why = f"is on the volume, which is not mounted at {mount} on this host"
                fix = "Run the check on a host that mounts the volume."
            yield situation.note(
                CheckCode.UNSEEN,
                thing.field,
                f"{thing.address} {why}: not checked.",
                fix,
                thing.address,
            )


RULES = (of_data(CheckCode.UNSEEN, look=unseen),)
