# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Rules about the sources of a blend: named once, and of the format that the spec says."""

from collections.abc import Iterator

from seatrial.checks.codes import CheckCode
from seatrial.checks.data_facts import CorpusFacts
from seatrial.checks.situation import Checked, Situation, of_data, static
from seatrial.dataprep.inputs.selection import format_of
from seatrial.spec.data import SourceFormat


def same_source(situation: Situation) -> Iterator[Checked]:
    """The same data, twice in a blend."""
    seen: dict[tuple[str, str], int] = {}
    for number, source in enumerate(situation.spec.data.sources or ()):
        name = "prepared" if source.prepared else "from"
        key = (source.prepared or source.from_ or "", str(source.files or ""))
        if key in seen:
            yield situation.warning(
                CheckCode.SAME_SOURCE,
                f"data.sources[{number}].{name}",
                f"{key[0]} is source {seen[key] + 1} already: its samples come twice, in the same "
                "order.",
                "Remove one of them, and give the other both weights.",
                key[0],
            )
        seen.setdefault(key, number)


def other_format(situation: Situation) -> Iterator[Checked]:
    """Files that are of another format than the spec says."""
    for number, source in enumerate(situation.spec.data.sources or ()):
        if source.from_ is None or source.format is SourceFormat.AUTO or situation.data is None:
            continue
        facts = situation.data.corpus(source.from_, source.files)
        if not isinstance(facts, CorpusFacts):
            continue
        found = {str(kind) for file in facts.files if (kind := format_of(file)) is not None}
        said = str(source.format)
        if found and said not in found:
            other, field_name = sorted(found)[0], f"data.sources[{number}].format"
            yield situation.error(
                CheckCode.OTHER_FORMAT,
                field_name,
                f"the files of {source.from_} are {other} by their names, and would be read as "
                f"{said}.",
                f"Use {other}, or leave the line out.",
                said,
                f"{field_name}={other}",
            )


RULES = (
    static(CheckCode.SAME_SOURCE, look=same_source),
    of_data(CheckCode.OTHER_FORMAT, look=other_format),
)
