# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Rules about prepared MDS data: each split exists, is intact and has the sequence length."""

from collections.abc import Iterator

from seatrial.checks.probe_facts import SplitFacts, Unknown
from seatrial.checks.rule import Checked, Situation, of_data
from seatrial.codes.checks import CheckCode
from seatrial.codes.datasets import DatasetCode
from seatrial.engines.registry import ENGINES

AGAIN = "Prepare the data again, or copy the files again from an intact copy."
INDEX = "index.json"


def named(situation: Situation) -> Iterator[tuple[str, str]]:
    """Yield the directories of the splits that a run reads: field and directory."""
    yield from ENGINES[situation.spec.engine.name].prepared_splits(situation.plan)


def broken(situation: Situation) -> Iterator[Checked]:
    """Report splits that do not exist, lack a shard or are truncated."""
    for field_name, directory in named(situation):
        facts = situation.data.split(directory) if situation.data else Unknown.UNSEEN
        code, rule, fix = DatasetCode.ABSENT, "", AGAIN
        if facts is Unknown.ABSENT:
            rule = f"{directory}/{INDEX} does not exist."
            fix = "Check the path: it is the directory that contains train and val."
        elif facts is Unknown.UNREADABLE:
            code, rule = DatasetCode.HEADER, f"{directory}/{INDEX} is not an MDS index."
        elif isinstance(facts, SplitFacts) and facts.absent:
            rule = f"{directory}/{facts.absent} is in the index and does not exist."
        elif isinstance(facts, SplitFacts) and facts.other_size:
            code = DatasetCode.SIZE
            rule = f"{directory}/{facts.other_size} has another size than its index states."
        if rule:
            yield situation.error(code, field_name, rule, fix, directory)


def of_other_length(situation: Situation) -> Iterator[Checked]:
    """Report splits whose samples are longer or shorter than the sequence length."""
    wanted = situation.plan.model.sequence_length
    for field_name, directory in named(situation):
        facts = situation.data.split(directory) if situation.data else Unknown.UNSEEN
        if not isinstance(facts, SplitFacts):
            continue
        rule = ""
        if not facts.samples:
            rule = f"{directory} has no samples."
        elif facts.length is not None and facts.length != wanted:
            rule = (
                f"samples in {directory} have {facts.length:,} tokens, and the sequence length is "
            )
            title = ENGINES[situation.spec.engine.name].title
            rule += f"{wanted:,}: {title} would train on them without a warning."
        if rule:
            fix = (
                "Use data prepared for training.sequence_length, or set that to the data's length."
            )
            yield situation.error(CheckCode.NO_SAMPLES, field_name, rule, fix, facts.length or 0)


RULES = (
    of_data(DatasetCode.ABSENT, DatasetCode.HEADER, DatasetCode.SIZE, look=broken),
    of_data(CheckCode.NO_SAMPLES, look=of_other_length),
)
