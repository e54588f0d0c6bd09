# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Rules about the sources in a blend: no duplicates, and the format that the spec states."""

from collections.abc import Callable, Iterator

from seatrial.checks.probe_facts import CorpusFacts
from seatrial.checks.rule import Checked, Situation, of_data, proposed, static
from seatrial.codes.checks import CheckCode
from seatrial.dataprep.inputs.selection import can_be_read_as, format_of
from seatrial.dataprep.tasks.task_list import InputFormat
from seatrial.spec.data import SourceFormat


def same_source(situation: Situation) -> Iterator[Checked]:
    """Report data that appears twice in a blend."""
    seen: dict[tuple[str, str], int] = {}
    for number, source in enumerate(situation.spec.data.sources or ()):
        name = "prepared" if source.prepared else "from"
        key = (source.prepared or source.from_ or "", str(source.files or ""))
        if key in seen:
            yield situation.warning(
                CheckCode.SAME_SOURCE,
                f"data.sources[{number}].{name}",
                f"{key[0]} is also source {seen[key] + 1}: the run reads its samples twice, in "
                "the same order.",
                "Remove one of the two sources, and add its weight to the other.",
                key[0],
            )
        seen.setdefault(key, number)


def absent_here(situation: Situation, is_there: Callable[[str], bool]) -> Iterator[Checked]:
    """Report raw text and a tokenizer that do not exist on the host of a local run.

    A check without `--data` applies this rule too, because it only tests that a path exists. Once
    the data is prepared, the run needs neither.
    """
    if situation.in_pods or is_there(situation.plan.data_location):
        return
    data = situation.spec.data
    named = [
        (CheckCode.NO_CORPUS, f"data.sources[{number}].from", source.from_)
        for number, source in enumerate(data.sources or ())
    ]
    for code, field_name, path in (
        *named,
        (CheckCode.NO_TOKENIZER, "data.tokenizer", data.tokenizer),
    ):
        if path and "://" not in path and not is_there(path):
            yield situation.warning(
                code,
                field_name,
                f"{path} does not exist on this host, where the run would read it.",
                "Check the path, or copy the files there before you prepare the data.",
                path,
            )


def other_format(situation: Situation) -> Iterator[Checked]:
    """Report files whose format differs from the format in the spec."""
    for number, source in enumerate(situation.spec.data.sources or ()):
        if source.from_ is None or source.format is SourceFormat.AUTO or situation.data is None:
            continue
        facts = situation.data.corpus(source.from_, source.files)
        if not isinstance(facts, CorpusFacts):
            continue
        found = {kind for file in facts.files if (kind := format_of(file)) is not None}
        stated = InputFormat(source.format)
        if found and not any(can_be_read_as(kind, stated) for kind in found):
            other, field_name = sorted(found)[0], f"data.sources[{number}].format"
            yield situation.error(
                CheckCode.OTHER_FORMAT,
                field_name,
                f"the files in {source.from_} are {other} according to their names, but would be "
                f"read as {stated}.",
                f"Use {other}, or remove the line.",
                stated,
                proposed(f"{field_name}={other}"),
            )


RULES = (
    static(CheckCode.SAME_SOURCE, look=same_source),
    of_data(CheckCode.OTHER_FORMAT, look=other_format),
)
