# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Rules about prepared data: the files exist, are intact and match the run's tokenizer."""

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
"""Size of the header: magic, version, token type, and the counts of sequences and documents."""
AGAIN = "Prepare the data again, or copy the files again from an intact copy."


def pairs(situation: Situation) -> Iterator[tuple[str, str, PairFacts]]:
    """Yield the prepared pairs that could be read: field, prefix and facts."""
    for field_name, prefix in named(situation):
        facts = situation.data.pair(prefix) if situation.data else Unknown.UNSEEN
        if isinstance(facts, PairFacts):
            yield field_name, prefix, facts


def usable_pairs(situation: Situation) -> Iterator[tuple[str, str, PairFacts]]:
    """Yield the pairs whose counts are valid."""
    for field_name, prefix, facts in pairs(situation):
        if _damage(facts)[0] is not DatasetCode.HEADER and facts.sequences and facts.tokens:
            yield field_name, prefix, facts


def named(situation: Situation) -> Iterator[tuple[str, str]]:
    """Yield the field and the prefix of each prepared pair."""
    if ENGINES[situation.spec.engine.name].data_format is not DataFormat.INDEXED:
        return
    for number, source in enumerate(situation.spec.data.sources or ()):
        if source.prepared is not None and not source.prepared.endswith(ENDINGS):
            yield f"data.sources[{number}].prepared", source.prepared


def absent(situation: Situation) -> Iterator[Checked]:
    """Report pairs that do not exist at the path in the spec."""
    for field_name, prefix in named(situation):
        found = situation.data.pair(prefix) if situation.data else Unknown.UNSEEN
        if situation.data is None or found not in _MISSING:
            continue
        near = [other for other in situation.data.pairs_near(prefix) if _whole(situation, other)]
        fix = "Check the path: it is the common prefix of both files, without .bin and .idx."
        if found is not Unknown.ABSENT:
            fix = AGAIN
        if near:
            fix = f"Use {near[0]} if that is the data you want."
        yield situation.error(
            DatasetCode.ABSENT,
            field_name,
            _MISSING[found].format(prefix),
            fix,
            prefix,
            proposed(*([f"{field_name}={near[0]}"] if near else [])),
        )


_MISSING = {
    Unknown.ABSENT: "{0}.bin and {0}.idx do not exist.",
    Unknown.NO_IDX: "{0}.idx does not exist; only {0}.bin does.",
    Unknown.NO_BIN: "{0}.bin does not exist; only {0}.idx does.",
}


def _whole(situation: Situation, prefix: str) -> bool:
    """True if both files of a pair exist and are intact."""
    facts = situation.data.pair(prefix) if situation.data else Unknown.UNSEEN
    return isinstance(facts, PairFacts) and _damage(facts)[0] is None


def not_whole(situation: Situation) -> Iterator[Checked]:
    """Report indexes in a different format, truncated files and invalid pointers."""
    for field_name, prefix, facts in pairs(situation):
        code, rule, value = _damage(facts)
        if code is not None:
            yield situation.error(code, field_name, f"{prefix}{rule}", AGAIN, value)


def _damage(facts: PairFacts) -> tuple[DatasetCode | None, str, str]:
    """Return the first defect in the files of a pair: code, rule and value."""
    if facts.idx_bytes < HEADER_BYTES:
        rule = f".idx has {facts.idx_bytes} bytes, but Megatron's header alone has {HEADER_BYTES}."
        return DatasetCode.HEADER, rule, str(facts.idx_bytes)
    if facts.index_version != 1:
        rule = f".idx has version {facts.index_version}, but Megatron reads only version 1."
        return DatasetCode.HEADER, rule, str(facts.index_version)
    if facts.begins_with:
        rule = f".idx starts with {facts.begins_with!r} instead of Megatron's header MMIDIDX."
        return DatasetCode.HEADER, rule, facts.begins_with
    index = HEADER_BYTES + 12 * facts.sequences + 8 * (facts.documents + 1)
    if facts.idx_bytes != index:
        rule = f".idx has {facts.idx_bytes:,} bytes, but its counts require {index:,}."
        return DatasetCode.SIZE, rule, str(facts.idx_bytes)
    tokens = facts.tokens * facts.token_bytes
    if facts.bin_bytes != tokens:
        rule = (
            f".bin has {facts.bin_bytes:,} bytes instead of {tokens:,}: its index lists "
            f"{facts.tokens:,} tokens of {facts.token_bytes} bytes."
        )
        return DatasetCode.SIZE, rule, str(facts.bin_bytes)
    if facts.wrong_pointer is not None:
        wrong = facts.wrong_pointer
        rule = f".idx has a wrong offset for sequence {wrong.sequence:,}: byte {wrong.value:,}."
        return DatasetCode.POINTERS, rule, str(wrong.value)
    return None, "", ""


def nothing_inside(situation: Situation) -> Iterator[Checked]:
    """Report pairs without documents or without tokens."""
    for field_name, prefix, facts in pairs(situation):
        headless = _damage(facts)[0] is DatasetCode.HEADER
        if not headless and not (facts.sequences and facts.tokens):
            yield situation.error(
                CheckCode.NO_DOCUMENTS,
                field_name,
                f"{prefix} contains {facts.documents:,} documents and {facts.tokens:,} tokens.",
                "Find out why data preparation wrote no tokens, and prepare the data again.",
                facts.documents,
            )


def token_type(situation: Situation) -> Iterator[Checked]:
    """Report token types that are too small for the vocabulary."""
    entries = _entries(situation)
    for field_name, prefix, facts in usable_pairs(situation):
        largest = 1 << 8 * facts.token_bytes
        if entries > largest:
            yield situation.error(
                CheckCode.TOKEN_TYPE,
                field_name,
                f"{prefix} stores token IDs in {8 * facts.token_bytes} bits, up to "
                f"{largest - 1:,}, but the vocabulary has {entries:,} entries: larger IDs were "
                "truncated to the IDs of different tokens.",
                "Prepare the data again with 32 bits per token.",
                f"{8 * facts.token_bytes} bits",
            )


def _entries(situation: Situation) -> int:
    """Return the tokenizer's vocabulary size, or the model's if no tokenizer was read."""
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
    """Report data from a different tokenizer, and token IDs beyond the model's embedding."""
    own = situation.plan.model.tokenizer
    facts_of_own = _own_tokenizer(situation)
    fingerprint = facts_of_own.fingerprint if isinstance(facts_of_own, TokenizerFacts) else ""
    rows = situation.plan.model.padded_vocab_size
    for field_name, prefix, facts in usable_pairs(situation):
        beyond = facts.largest_id is not None and facts.largest_id >= rows
        if own and facts.tokenizer and _differ(own, fingerprint, facts):
            rule = f"{prefix} was prepared with {facts.tokenizer}, but the run uses {own}: token "
            rule += f"IDs go up to {facts.largest_id:,}, but the embedding has {rows:,} rows."
            if not beyond:
                rule = f"{prefix} was prepared with {facts.tokenizer}, but the run uses {own}: the "
                rule += "same IDs stand for different tokens."
            fix = "Use data prepared with the run's tokenizer, or the tokenizer of the data."
            code: str = CheckCode.OTHER_TOKENIZER
            yield situation.error(code, field_name, rule, fix, facts.tokenizer)
        elif beyond:
            rule = (
                f"{prefix} contains ID {facts.largest_id:,}, but the embedding has {rows:,} rows."
            )
            fix = "Prepare the data with the run's tokenizer."
            yield situation.error(
                DatasetCode.VOCABULARY, field_name, rule, fix, str(facts.largest_id)
            )


def _differ(own: str, fingerprint: str, facts: PairFacts) -> bool:
    """Compare two tokenizers by fingerprint if both are known, otherwise by name."""
    if fingerprint and facts.fingerprint:
        return fingerprint != facts.fingerprint
    return tokenizer_name(own)[0] != tokenizer_name(facts.tokenizer)[0]


def without_end(situation: Situation) -> Iterator[Checked]:
    """Report documents without an end-of-document token."""
    for field_name, prefix, facts in usable_pairs(situation):
        if facts.ends_documents is False:
            yield situation.warning(
                DatasetCode.END,
                field_name,
                f"documents in {prefix} do not end with the end-of-document token: the model "
                "cannot tell documents apart, and never learns to stop.",
                "Prepare the data again. With Megatron's preprocess_data.py, pass --append-eod.",
            )


RULES = (
    of_data(DatasetCode.ABSENT, look=absent),
    of_data(DatasetCode.HEADER, DatasetCode.SIZE, DatasetCode.POINTERS, look=not_whole),
    of_data(CheckCode.NO_DOCUMENTS, look=nothing_inside),
    of_data(CheckCode.TOKEN_TYPE, look=token_type),
    of_data(CheckCode.OTHER_TOKENIZER, DatasetCode.VOCABULARY, look=other_tokenizer),
    of_data(DatasetCode.END, look=without_end),
)
