# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Rules about tokenizers and raw text."""

from collections.abc import Iterator

from seatrial.checks.probe_facts import CorpusFacts, TokenizerFacts, Unknown
from seatrial.checks.rule import Checked, Situation, of_data, proposed
from seatrial.codes.checks import CheckCode
from seatrial.dataprep.tasks.task_list import Compression
from seatrial.dataprep.tokenizers.end_wording import NO_CLASS_FIX, fix_of, no_class_rule, rule_of
from seatrial.engines.registry import ENGINES
from seatrial.spec.data import SourceFormat

LIKELY_FIELDS = ("text", "content", "raw_content", "body", "document", "code")
"""Names of the text field in published corpora, the most common first."""
_BY_NAME = (SourceFormat.AUTO, SourceFormat.JSONL, SourceFormat.PARQUET)


def _tokenizer(situation: Situation) -> TokenizerFacts | Unknown:
    name = situation.plan.model.tokenizer
    if situation.data is None or not name:
        return Unknown.UNSEEN
    return situation.data.tokenizer(name)


def large_tokenizer(situation: Situation) -> Iterator[Checked]:
    """Report a tokenizer with more entries than the embedding has rows."""
    facts, model = _tokenizer(situation), situation.plan.model
    if not isinstance(facts, TokenizerFacts) or facts.entries <= model.padded_vocab_size:
        return
    own = model.architecture.vocab_size
    published = situation.published_model
    by = [f"model.dimensions.vocab_size={facts.entries}"]
    fix = f"Use {by[0]}, or a smaller tokenizer."
    if published is not None:
        usual = published.tokenizer
        by = [f"data.tokenizer={usual}"] if usual not in ("", model.tokenizer) else []
        whose = f"preset's tokenizer, {usual}" if usual else "model's own tokenizer"
        fix = f"Use the {whose}, or set model.dimensions yourself."
    padded = f", padded to {model.padded_vocab_size:,}" if model.padded_vocab_size > own else ""
    yield situation.error(
        CheckCode.LARGE_TOKENIZER,
        "data.tokenizer",
        f"{model.tokenizer} has {facts.entries:,} entries, but the embedding has {own:,} "
        f"rows{padded}: the first larger ID fails the run with a device-side assert.",
        fix,
        facts.entries,
        proposed(*by),
    )


def no_end(situation: Situation) -> Iterator[Checked]:
    """Report a tokenizer without an end-of-document token."""
    facts = _tokenizer(situation)
    if isinstance(facts, TokenizerFacts) and not facts.ends_documents:
        yield situation.error(
            CheckCode.NO_END,
            "data.tokenizer",
            f"{situation.plan.model.tokenizer} has no end-of-document token: the model cannot tell "
            "documents apart.",
            "Add one (eos_token in tokenizer_config.json), or use a different tokenizer.",
            situation.plan.model.tokenizer,
        )
    elif isinstance(facts, TokenizerFacts) and facts.unstated_end:
        yield situation.error(
            CheckCode.NO_END,
            "data.tokenizer",
            rule_of(facts.unstated_end),
            fix_of(facts.unstated_end),
            situation.plan.model.tokenizer,
        )


def no_tokenizer(situation: Situation) -> Iterator[Checked]:
    """Report a tokenizer that does not exist, is invalid, or that the engine cannot load."""
    name, found = situation.plan.model.tokenizer, _tokenizer(situation)
    if found is Unknown.ABSENT:
        rule, fix = f"the tokenizer {name} does not exist.", "Check the name or the path."
    elif found is Unknown.UNREADABLE:
        rule = f"{name} exists, but cannot be read as a tokenizer."
        fix = "Use a tokenizer.json written by the tokenizers library, or its directory."
    elif _without_class(situation, found):
        rule = no_class_rule(ENGINES[situation.spec.engine.name].title)
        fix = NO_CLASS_FIX
    else:
        return
    yield situation.error(CheckCode.NO_TOKENIZER, "data.tokenizer", rule, fix, name)


def _without_class(situation: Situation, facts: TokenizerFacts | Unknown) -> bool:
    """True if the engine needs a tokenizer class but the tokenizer's files name none."""
    wanted = ENGINES[situation.spec.engine.name].needs_tokenizer_class
    if not wanted or situation.spec.data.mock or not isinstance(facts, TokenizerFacts):
        return False
    return not facts.names_class and not facts.unstated_end


def _corpora(situation: Situation) -> Iterator[tuple[int, CorpusFacts | Unknown]]:
    for number, source in enumerate(situation.spec.data.sources or ()):
        if source.from_ is not None and situation.data is not None:
            yield number, situation.data.corpus(source.from_, source.files)


def no_corpus(situation: Situation) -> Iterator[Checked]:
    """Report raw text that does not exist at the address in the spec."""
    for number, facts in _corpora(situation):
        address = (situation.spec.data.sources or ())[number].from_
        if facts is Unknown.ABSENT or (isinstance(facts, CorpusFacts) and not facts.files):
            yield situation.error(
                CheckCode.NO_CORPUS,
                f"data.sources[{number}].from",
                f"there are no files at {address}.",
                "Check the address, and that this host can read it.",
                address,
            )


def files(situation: Situation) -> Iterator[Checked]:
    """Report patterns that match no files, and samples of more files than exist."""
    for number, facts in _corpora(situation):
        source = (situation.spec.data.sources or ())[number]
        if not isinstance(facts, CorpusFacts) or not facts.files:
            continue
        if not facts.taken and source.files is not None:
            by = _pattern(situation, number, facts, source.files)
            yield situation.error(
                CheckCode.NO_FILES,
                f"data.sources[{number}].files",
                f"{source.files} matches no files in {source.from_}; the first file there is "
                f"{facts.files[0]}.",
                f"Use {by.partition('=')[2]}." if not by.endswith("null") else "Remove files.",
                source.files,
                proposed(by),
            )
        elif source.sample_files is not None and source.sample_files > facts.taken:
            yield situation.warning(
                CheckCode.FEWER_FILES,
                f"data.sources[{number}].sample_files",
                f"sample_files is {source.sample_files:,}, but only {facts.taken:,} files exist.",
                f"Use {facts.taken}, or remove the line to use all files.",
                source.sample_files,
                proposed(f"data.sources[{number}].sample_files={facts.taken}"),
            )


def _pattern(situation: Situation, number: int, facts: CorpusFacts, pattern: str) -> str:
    """Return the override to a pattern that matches compressed files, or all supported files."""
    field_name = f"data.sources[{number}].files"
    address = (situation.spec.data.sources or ())[number].from_ or ""
    for packing in Compression if situation.data else ():
        found = situation.data.corpus(address, pattern + packing) if situation.data else None
        if isinstance(found, CorpusFacts) and found.taken:
            return f'{field_name}="{pattern}{packing}"'
    return f"{field_name}=null"


def unreadable(situation: Situation) -> Iterator[Checked]:
    """Report files that are empty, or whose format differs from their names."""
    for number, facts in _corpora(situation):
        source = (situation.spec.data.sources or ())[number]
        # A format in the spec overrides the format in the file names.
        if isinstance(facts, CorpusFacts) and facts.unreadable and source.format in _BY_NAME:
            yield situation.error(
                CheckCode.UNREADABLE,
                f"data.sources[{number}].from",
                f"no document in {source.from_} can be read: {facts.unreadable}.",
                "Inspect the files, and copy or create them again.",
                source.from_,
            )


def text_field(situation: Situation) -> Iterator[Checked]:
    """Report documents without the text field, or whose text field is not text."""
    for number, facts in _corpora(situation):
        source = (situation.spec.data.sources or ())[number]
        known = isinstance(facts, CorpusFacts) and facts.fields
        if not known or source.format is SourceFormat.TEXT or not isinstance(facts, CorpusFacts):
            continue
        wanted = source.text_field
        if wanted.partition(".")[0] in facts.fields and wanted not in facts.other_fields:
            continue
        rule = f"the documents have no field {wanted!r}; their fields: {', '.join(facts.fields)}."
        if wanted in facts.other_fields:
            rule = f"the field {wanted!r} in the documents is not text."
        textual = [name for name in facts.fields if name not in facts.other_fields]
        likely = next((name for name in LIKELY_FIELDS if name in textual), "".join(textual[:1]))
        yield situation.error(
            CheckCode.TEXT_FIELD,
            f"data.sources[{number}].text_field",
            rule,
            f"Use {likely} if that is the text." if likely else "Use documents with a text field.",
            wanted,
            proposed(*([f"data.sources[{number}].text_field={likely}"] if likely else [])),
        )


RULES = (
    of_data(CheckCode.LARGE_TOKENIZER, look=large_tokenizer),
    of_data(CheckCode.NO_END, look=no_end),
    of_data(CheckCode.NO_TOKENIZER, look=no_tokenizer),
    of_data(CheckCode.NO_CORPUS, look=no_corpus),
    of_data(CheckCode.NO_FILES, CheckCode.FEWER_FILES, look=files),
    of_data(CheckCode.UNREADABLE, look=unreadable),
    of_data(CheckCode.TEXT_FIELD, look=text_field),
)
