# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Rules about prepared data in MDS: every split that a run reads is there, whole, of its length."""

from collections.abc import Iterator

from seatrial.checks.probe_facts import SplitFacts, Unknown
from seatrial.checks.rule import Checked, Situation, of_data
from seatrial.codes.checks import CheckCode
from seatrial.codes.datasets import DatasetCode
from seatrial.engines.registry import ENGINES

AGAIN = "Prepare it again, or copy it again from where it is whole."
INDEX = "index.json"


def named(situation: Situation) -> Iterator[tuple[str, str]]:
    """The directories of the splits that a run reads: field and directory."""
    yield from ENGINES[situation.spec.engine.name].prepared_splits(situation.plan)


def broken(situation: Situation) -> Iterator[Checked]:
    """Splits that are not where the spec says, lack a shard, or were cut short."""
    for field_name, directory in named(situation):
        facts = situation.data.split(directory) if situation.data else Unknown.UNSEEN
        code, rule, fix = DatasetCode.ABSENT, "", AGAIN
        if facts is Unknown.ABSENT:
            rule = f"there is no {directory}/{INDEX}."
            fix = "Check the path: it is that of the directory in which train and val are."
        elif facts is Unknown.UNREADABLE:
            code, rule = DatasetCode.HEADER, f"{directory}/{INDEX} is no index of MDS."
        elif isinstance(facts, SplitFacts) and facts.absent:
            rule = f"there is no {directory}/{facts.absent}, which its index names."
        elif isinstance(facts, SplitFacts) and facts.other_size:
            code = DatasetCode.SIZE
            rule = f"{directory}/{facts.other_size} has another size than its index says."
        if rule:
            yield situation.error(code, field_name, rule, fix, directory)


def of_other_length(situation: Situation) -> Iterator[Checked]:
    """Splits whose samples are not as long as the sequence: they would be cut, or be too short."""
    wanted = situation.plan.model.sequence_length
    for field_name, directory in named(situation):
        facts = situation.data.split(directory) if situation.data else Unknown.UNSEEN
        if not isinstance(facts, SplitFacts):
            continue
        rule = ""
        if not facts.samples:
            rule = f"{directory} has no sample."
        elif facts.length is not None and facts.length != wanted:
            rule = f"samples of {directory} have {facts.length:,} tokens, and sequences of the run "
            title = ENGINES[situation.spec.engine.name].title
            rule += f"{wanted:,}: {title} would train on what there is, and say nothing."
        if rule:
            fix = "Use data that were cut to training.sequence_length, or that length."
            yield situation.error(CheckCode.NO_SAMPLES, field_name, rule, fix, facts.length or 0)


RULES = (
    of_data(DatasetCode.ABSENT, DatasetCode.HEADER, DatasetCode.SIZE, look=broken),
    of_data(CheckCode.NO_SAMPLES, look=of_other_length),
)
