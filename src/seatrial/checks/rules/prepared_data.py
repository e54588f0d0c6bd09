# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Rules about the files of prepared data: there, whole, and of the run's own tokenizer."""

from collections.abc import Iterator

from seatrial.checks.probe_facts import PairFacts, TokenizerFacts, Unknown
from seatrial.checks.rule import Checked, Situation, of_data, proposed
from seatrial.checks.rules.paths import ENDINGS
from seatrial.codes.checks import CheckCode
from seatrial.codes.datasets import DatasetCode
from seatrial.engines.engine import DataFormat
from seatrial.engines.registry import ENGINES
from seatrial.spec.addresses import tokenizer_name

HEADER_BYTES = 34
"""Magic, version, type, and the counts of sequences and documents."""
AGAIN = "Prepare it again, or copy it again from where it is whole."


def pairs(situation: Situation) -> Iterator[tuple[str, str, PairFacts]]:
    """The prepared pairs that could be looked at: field, prefix and facts."""
    for field_name, prefix in named(situation):
        facts = situation.data.pair(prefix) if situation.data else Unknown.UNSEEN
        if isinstance(facts, PairFacts):
            yield field_name, prefix, facts


def usable_pairs(situation: Situation) -> Iterator[tuple[str, str, PairFacts]]:
    """The pairs of which counts can be believed."""
    for field_name, prefix, facts in pairs(situation):
        if _damage(facts)[0] is not DatasetCode.HEADER and facts.sequences and facts.tokens:
            yield field_name, prefix, facts


def named(situation: Situation) -> Iterator[tuple[str, str]]:
    """The prepared pairs of a run: field and prefix."""
    if ENGINES[situation.spec.engine.name].data_format is not DataFormat.INDEXED:
        return
    for number, source in enumerate(situation.spec.data.sources or ()):
        if source.prepared is not None and not source.prepared.endswith(ENDINGS):
            yield f"data.sources[{number}].prepared", source.prepared


def absent(situation: Situation) -> Iterator[Checked]:
    """Pairs that are not where the spec says."""
    for field_name, prefix in named(situation):
        found = situation.data.pair(prefix) if situation.data else Unknown.UNSEEN
        if situation.data is None or found not in _MISSING:
            continue
        near = [other for other in situation.data.pairs_near(prefix) if _whole(situation, other)]
        fix = "Check the path: it is that of both files, without .bin and .idx."
        if found is not Unknown.ABSENT:
            fix = AGAIN
        if near:
            fix = f"There is {near[0]}, if that is meant."
        yield situation.error(
            DatasetCode.ABSENT,
            field_name,
            _MISSING[found].format(prefix),
            fix,
            prefix,
            proposed(*([f"{field_name}={near[0]}"] if near else [])),
        )


_MISSING = {
    Unknown.ABSENT: "there is no {0}.bin and {0}.idx.",
    Unknown.NO_IDX: "there is {0}.bin, and no {0}.idx.",
    Unknown.NO_BIN: "there is {0}.idx, and no {0}.bin.",
}


def _whole(situation: Situation, prefix: str) -> bool:
    """Whether a pair is there and nothing is wrong with its files."""
    facts = situation.data.pair(prefix) if situation.data else Unknown.UNSEEN
    return isinstance(facts, PairFacts) and _damage(facts)[0] is None


def not_whole(situation: Situation) -> Iterator[Checked]:
    """Indexes of another format, files that were cut short, pointers that lead nowhere."""
    for field_name, prefix, facts in pairs(situation):
        code, rule, value = _damage(facts)
        if code is not None:
            yield situation.error(code, field_name, f"{prefix}{rule}", AGAIN, value)


def _damage(facts: PairFacts) -> tuple[DatasetCode | None, str, str]:
    """The first thing that is wrong with the files of a pair."""
    if facts.idx_bytes < HEADER_BYTES:
        rule = f".idx has {facts.idx_bytes} bytes, and Megatron's header alone has {HEADER_BYTES}."
        return DatasetCode.HEADER, rule, str(facts.idx_bytes)
    if facts.index_version != 1:
        rule = f".idx is of version {facts.index_version}, and Megatron reads version 1 only."
        return DatasetCode.HEADER, rule, str(facts.index_version)
    if facts.begins_with:
        rule = f".idx begins with {facts.begins_with!r}, not with Megatron's header MMIDIDX."
        return DatasetCode.HEADER, rule, facts.begins_with
    index = HEADER_BYTES + 12 * facts.sequences + 8 * (facts.documents + 1)
    if facts.idx_bytes != index:
        rule = f".idx has {facts.idx_bytes:,} bytes, and its own counts make {index:,}."
        return DatasetCode.SIZE, rule, str(facts.idx_bytes)
    tokens = facts.tokens * facts.token_bytes
    if facts.bin_bytes != tokens:
        rule = (
            f".bin has {facts.bin_bytes:,} bytes, and its index is of {facts.tokens:,} tokens of "
            f"{facts.token_bytes} bytes: {tokens:,}."
        )
        return DatasetCode.SIZE, rule, str(facts.bin_bytes)
    if facts.wrong_pointer is not None:
        wrong = facts.wrong_pointer
        rule = f".idx says that sequence {wrong.sequence:,} begins at byte {wrong.value:,}."
        return DatasetCode.POINTERS, rule, str(wrong.value)
    return None, "", ""


def nothing_inside(situation: Situation) -> Iterator[Checked]:
    """Pairs without a document, or without a token."""
    for field_name, prefix, facts in pairs(situation):
        headless = _damage(facts)[0] is DatasetCode.HEADER
        if not headless and not (facts.sequences and facts.tokens):
            yield situation.error(
                CheckCode.NO_DOCUMENTS,
                field_name,
                f"{prefix} holds {facts.documents:,} documents and {facts.tokens:,} tokens.",
                "Look at why its preparation gave nothing, and prepare it again.",
                facts.documents,
            )


def token_type(situation: Situation) -> Iterator[Checked]:
    """Numbers that end below the vocabulary."""
    entries = _entries(situation)
    for field_name, prefix, facts in usable_pairs(situation):
        largest = 1 << 8 * facts.token_bytes
        if entries > largest:
            yield situation.error(
                CheckCode.TOKEN_TYPE,
                field_name,
                f"{prefix} holds {8 * facts.token_bytes} bits a token, which end at {largest - 1:,}"
                f", and the vocabulary has {entries:,}: larger ids were cut to others.",
                "Prepare it again with 32 bits a token.",
                f"{8 * facts.token_bytes} bits",
            )


def _entries(situation: Situation) -> int:
    """Entries of the run's tokenizer, or of the model where the tokenizer was not looked at."""
    facts = _own_tokenizer(situation)
    if isinstance(facts, TokenizerFacts):
        return facts.entries
    return situation.plan.model.architecture.vocab_size


def _own_tokenizer(situation: Situation) -> TokenizerFacts | Unknown:
    name = situation.plan.model.tokenizer
    if situation.data is None or not name:
        return Unknown.UNSEEN
    return situation.data.tokenizer(name)


def other_tokenizer(situation: Situation) -> Iterator[Checked]:
    """Data that another tokenizer made, or ids that the model has no row for."""
    own = situation.plan.model.tokenizer
    facts_of_own = _own_tokenizer(situation)
    fingerprint = facts_of_own.fingerprint if isinstance(facts_of_own, TokenizerFacts) else ""
    rows = situation.plan.model.padded_vocab_size
    for field_name, prefix, facts in usable_pairs(situation):
        beyond = facts.largest_id is not None and facts.largest_id >= rows
        if own and facts.tokenizer and _differ(own, fingerprint, facts):
            rule = f"{prefix} was made with {facts.tokenizer}, and the run has {own}: "
            rule += f"its ids go up to {facts.largest_id:,}, and the model has {rows:,} rows."
            if not beyond:
                rule = f"{prefix} was made with {facts.tokenizer}, and the run has {own}: every id "
                rule += "has a row, of another word."
            fix = "Use the data of the run's own tokenizer, or the tokenizer of the data."
            code: str = CheckCode.OTHER_TOKENIZER
            yield situation.error(code, field_name, rule, fix, facts.tokenizer)
        elif beyond:
            rule = f"{prefix} has the id {facts.largest_id:,}, and the model has {rows:,} rows."
            fix = "Prepare it with the run's own tokenizer."
            yield situation.error(
                DatasetCode.VOCABULARY, field_name, rule, fix, str(facts.largest_id)
            )


def _differ(own: str, fingerprint: str, facts: PairFacts) -> bool:
    """Whether two tokenizers are not the same: by their files where those are known."""
    if fingerprint and facts.fingerprint:
        return fingerprint != facts.fingerprint
    return tokenizer_name(own)[0] != tokenizer_name(facts.tokenizer)[0]


def without_end(situation: Situation) -> Iterator[Checked]:
    """Documents that run into each other."""
    for field_name, prefix, facts in usable_pairs(situation):
        if facts.ends_documents is False:
            yield situation.warning(
                DatasetCode.END,
                field_name,
                f"documents of {prefix} do not end with the end-of-document token: the model sees "
                "them run into each other, and never learns to stop.",
                "Prepare it again; Megatron's own preprocess_data.py needs --append-eod for it.",
            )


RULES = (
    of_data(DatasetCode.ABSENT, look=absent),
    of_data(DatasetCode.HEADER, DatasetCode.SIZE, DatasetCode.POINTERS, look=not_whole),
    of_data(CheckCode.NO_DOCUMENTS, look=nothing_inside),
    of_data(CheckCode.TOKEN_TYPE, look=token_type),
    of_data(CheckCode.OTHER_TOKENIZER, DatasetCode.VOCABULARY, look=other_tokenizer),
    of_data(DatasetCode.END, look=without_end),
)
