# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The blend: the files that the engine reads, their weights, and checks that they suffice.

`blend.txt` is the input of Megatron's `--data-args-path`: words separated by white space, either
paths only, or a weight before each path. Without weights the engine reads every file once and then
stops, so a run that repeats data uses the file sizes as weights.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

from seatrial.codes.datasets import DatasetCode
from seatrial.dataprep.blends.splits import Shares, Split, SplitFile, split_counts, tokens_between
from seatrial.dataprep.inputs.sources import named_sources
from seatrial.dataprep.output.dataset import DataFile, DatasetRecord
from seatrial.dataprep.output.index_file import HEADER_BYTES, parse_header
from seatrial.dataprep.output.stored_index import ShortReadError, read_exactly
from seatrial.errors import SeatrialError
from seatrial.findings import Finding, Severity, Where, has_errors
from seatrial.planning.plan import Plan
from seatrial.storage.access import store_at
from seatrial.storage.store import Store

BLEND_FILE = "blend.txt"
"""Path of the blend below the root of the output."""
MOST_DATA_SETS = 32_766
"""The engine stores the data set number in a signed 16-bit integer and requires fewer."""
SURPLUS = 0.005
"""Fraction that the engine reads beyond a file's share of the blend, by default."""
MANY_EPOCHS = 4
"""Up to this many epochs, repeated data train about as well as new (Muennighoff et al., 2023)."""

_NAMES = {
    Split.TRAINING: "training",
    Split.VALIDATION: "validation",
    Split.TEST: "test",
}


@dataclass(frozen=True, slots=True)
class Needs:
    """The amount of data that a run needs."""

    sequence_length: int
    """Tokens per sample."""
    samples: tuple[int, int, int]
    """Samples for training, validation and test."""
    shares: Shares
    """Shares of the data for training, validation and test."""

    def built(self) -> list[Split]:
        """Return the splits that the engine builds: all with a share, even if unused."""
        return [split for split in Split if self.shares[split] > 0]


@dataclass(frozen=True, slots=True)
class Blend:
    """The content of a blend file, and findings about it."""

    words: tuple[str, ...]
    """The words of `blend.txt`."""
    findings: tuple[Finding, ...]
    """Findings; a run with errors would stop or hang."""

    def to_bytes(self) -> bytes:
        """Return the content of the file: one data set per line."""
        step = 2 if len(self.words) > 1 and _is_number(self.words[0]) else 1
        rows = (self.words[n : n + step] for n in range(0, len(self.words), step))
        return "".join(" ".join(row) + "\n" for row in rows).encode()


def blend(files: Sequence[SplitFile], weights: Mapping[str, float] | None, needs: Needs) -> Blend:
    """Build the blend of a run.

    Args:
        files: The files at their paths during training, with the counts of their splits.
        weights: Weight of each source by name; None to blend by size.
        needs: The amount of data that the run needs.
    """
    kept = [file for file in files if file.all_tokens or not file.is_known]
    findings = [_no_tokens(file) for file in files if file.is_known and not file.all_tokens]
    findings += [_unknown(file) for file in kept if not file.is_known]
    findings += _limits(kept) + _paths(kept) + _empty_splits(kept, needs)
    shares = _shares(kept, weights, needs)
    if not has_errors(findings):
        findings += _epochs(kept, shares, needs)
    words: list[str] = []
    for place, file in enumerate(kept):
        words += [file.path] if shares is None else [f"{shares[place]:.12g}", file.path]
    return Blend(tuple(words), tuple(findings))


def _shares(
    files: Sequence[SplitFile], weights: Mapping[str, float] | None, needs: Needs
) -> list[float] | None:
    """Return the weight of each file, or None if the engine should read without weights."""
    if len(files) == 1:
        return None
    if weights is None:
        return None if _enough_once(files, needs) else [float(file.all_tokens) for file in files]
    tokens: Counter[str] = Counter()
    for file in files:
        tokens[file.source] += file.all_tokens
    return [
        weights[file.source] * (file.all_tokens / tokens[file.source] if file.is_known else 1.0)
        for file in files
    ]


def _enough_once(files: Sequence[SplitFile], needs: Needs) -> bool:
    """True if every file has samples for every split, and one epoch is enough for the run.

    Also true if any file is unreadable, because its unknown size cannot be a weight.
    """
    if not all(file.is_known for file in files):
        return True
    for split in needs.built():
        samples = [file.samples(split, needs.sequence_length) for file in files]
        if not all(samples) or sum(samples) < needs.samples[split]:
            return False
    return True


def _epochs(
    files: Sequence[SplitFile], shares: Sequence[float] | None, needs: Needs
) -> list[Finding]:
    """Report the sources that the run reads more than once."""
    findings = []
    total = sum(shares or ())
    for split in needs.built():
        read: Counter[str] = Counter()
        held: Counter[str] = Counter()
        for place, file in enumerate(files):
            wanted = needs.samples[split]
            if shares is not None:
                wanted = math.ceil(math.ceil(wanted * shares[place] / total) * (1 + SURPLUS))
            elif len(files) > 1:
                wanted = min(wanted, file.samples(split, needs.sequence_length))
            if file.is_known:
                read[file.source] += wanted * needs.sequence_length
                held[file.source] += file.tokens[split]
        for source, tokens in held.items():
            times = read[source] / tokens
            # The engine's surplus does not count as a second epoch.
            if times > 1 + 2 * SURPLUS:
                findings.append(_repeated(split, source, times, tokens))
    return findings


def _repeated(split: Split, source: str, times: float, tokens: int) -> Finding:
    many = split is Split.TRAINING and times > MANY_EPOCHS
    often = f"{times:,.1f} times ({tokens:,} tokens)"
    rule = f"the run reads the {_NAMES[split]} data of {source} {often}."
    fix = "No action is needed if this is intended."
    if split is Split.TRAINING:
        fix = "Add data, lower its weight or shorten the run, unless this is intended."
    return Finding(
        DatasetCode.EPOCHS,
        Severity.WARNING if many else Severity.NOTE,
        Where(field="data.sources"),
        rule,
        f"{times:.1f}",
        fix,
    )


def _no_tokens(file: SplitFile) -> Finding:
    return Finding(
        DatasetCode.SPLIT_EMPTY,
        Severity.WARNING,
        Where(file=file.path),
        "all its documents are empty, so the blend leaves it out.",
        "0",
        "If these documents should contain text, check text_field for their source in "
        "data.sources.",
    )


def _unknown(file: SplitFile) -> Finding:
    return Finding(
        DatasetCode.SPLIT_UNKNOWN,
        Severity.WARNING,
        Where(file=file.path),
        "the file cannot be read from here, so the size of its splits was not checked.",
        "",
        "Run seatrial data prepare where the path is mounted to check it.",
    )


def _limits(files: Sequence[SplitFile]) -> list[Finding]:
    if 0 < len(files) <= MOST_DATA_SETS:
        return []
    rule = f"the blend has {len(files)} data sets; the engine accepts 1 to {MOST_DATA_SETS}."
    fix = "Use fewer prepared sources or domains."
    if not files:
        fix = "Check that the sources have documents with text, and data.sources.text_field."
    where = Where(field="data.sources")
    return [Finding(DatasetCode.BLEND_SIZE, Severity.ERROR, where, rule, str(len(files)), fix)]


def _paths(files: Iterable[SplitFile]) -> list[Finding]:
    """Report the first path that the engine would read as two paths or as a weight."""
    findings = []
    for file in files:
        rule = ""
        if file.path.split() != [file.path]:
            rule = f"{file.path!r} contains whitespace, which terminates a path in the blend file."
        elif _is_number(file.path):
            rule = f"{file.path!r} is a number, which the engine reads as a weight."
        if rule:
            where = Where(field="data.location", file=file.path)
            fix = "Set data.location to an absolute path without whitespace."
            code = DatasetCode.BLEND_PATH
            findings.append(Finding(code, Severity.ERROR, where, rule, file.path, fix))
    return findings[:1]


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _empty_splits(files: Sequence[SplitFile], needs: Needs) -> list[Finding]:
    """Report splits with a share but no sequence: the engine would loop forever on them."""
    findings = []
    for split in needs.built():
        empty = [file for file in files if file.is_known and not file.tokens[split]]
        if empty:
            most = max(sum(file.sequences) for file in empty)
            total = sum(needs.shares)
            least = math.ceil(total / needs.shares[split])
            rule = (
                f"the {_NAMES[split]} split, {needs.shares[split]:g} of {total:g}, gets no "
                f"document from {len(empty)} of {len(files)} files; the first is {empty[0].path} "
                f"with {sum(empty[0].sequences)}. The engine would search it for samples forever."
            )
            fix = (
                f"Set the share of {_NAMES[split]} in data.split to 0, or raise it: a file with "
                f"{most} documents needs about 1 in {most}, and data.split has 1 in {least}."
            )
            where = Where(field="data.split", file=empty[0].path)
            value = ",".join(f"{share:g}" for share in needs.shares)
            findings.append(
                Finding(DatasetCode.SPLIT_EMPTY, Severity.ERROR, where, rule, value, fix)
            )
    return findings


def run_blend(store: Store, record: DatasetRecord, plan: Plan) -> Blend:
    """Build the blend of a run, with findings about its splits.

    Sources keep their order in the spec. Prepared sources are read at the path in the spec, if it
    is reachable from here.
    """
    shares = plan.spec.data.split
    files = []
    for name, source in named_sources(plan):
        if source.prepared is not None:
            files.append(_prepared(source.prepared, name, shares))
        else:
            own = (file for file in record.files if file.source == name)
            files += [_own(store, file, plan.data_location, shares) for file in own]
    weights = {n: s.weight for n, s in named_sources(plan) if s.weight is not None}
    needs = Needs(
        plan.model.sequence_length,
        (plan.length.samples, plan.length.validation_samples, plan.length.test_samples),
        shares,
    )
    return blend(files, weights or None, needs)


def _own(store: Store, file: DataFile, location: str, shares: Shares) -> SplitFile:
    """Count the splits of a file of the data set, at its path during training."""
    counts = split_counts(store, file.name, file.header, file.tokens, shares)
    return SplitFile(f"{location.rstrip('/')}/{file.name}", file.source, *counts)


def _prepared(path: str, source: str, shares: Shares) -> SplitFile:
    """Count the splits of a pair that was prepared elsewhere, if it can be read from here."""
    parent, _, name = path.rpartition("/")
    try:
        store = store_at(parent or ".")
        with closing(store.open_reader(f"{name}.idx")) as stream:
            header = parse_header(read_exactly(stream, HEADER_BYTES), f"{path}.idx")
        tokens = tokens_between(store, name, 0, header.sequences)
        counts = split_counts(store, name, header, tokens, shares)
    except (OSError, ShortReadError, SeatrialError):
        return SplitFile(path, source, (0, 0, 0), (0, 0, 0), is_known=False)
    return SplitFile(path, source, *counts)
