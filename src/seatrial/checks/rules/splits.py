# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Rules about prepared MDS data: each split exists, is intact and has the right length."""

from collections.abc import Iterator

from seatrial.checks.probe_facts import SplitFacts, Unknown
from seatrial.checks.rule import Checked, Situation, of_data
from seatrial.codes.checks import CheckCode
from seatrial.codes.datasets import DatasetCode
from seatrial.engines.registry import ENGINES

AGAIN = "Prepare the data again, or copy the files again from an intact copy."
INDEX = "index.json"


def named(situation: Situation) -> Iterator[tuple[str, str]]:
    """Yield the field and the directory of each split that the run reads."""
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
            rule = f"{directory}/{facts.absent} is in the index but does not exist."
        elif isinstance(facts, SplitFacts) and facts.other_size:
            code = DatasetCode.SIZE
            rule = f"the size of {directory}/{facts.other_size} differs from the size in the index."
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
                f"samples in {directory} have {facts.length:,} tokens, but the sequence length is "
            )
            title = ENGINES[situation.spec.engine.name].title
            rule += f"{wanted:,}: {title} would train on them without a warning."
        if rule:
            fix = "Use data prepared for training.sequence_length, or change the sequence length."
            yield situation.error(CheckCode.NO_SAMPLES, field_name, rule, fix, facts.length or 0)


RULES = (
    of_data(DatasetCode.ABSENT, DatasetCode.HEADER, DatasetCode.SIZE, look=broken),
    of_data(CheckCode.NO_SAMPLES, look=of_other_length),
)
