# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Rules about the sources of a blend: named once, and of the format that the spec says."""

from collections.abc import Callable, Iterator

from seatrial.checks.probe_facts import CorpusFacts
from seatrial.checks.rule import Checked, Situation, of_data, proposed, static
from seatrial.codes.checks import CheckCode
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


def absent_here(situation: Situation, is_there: Callable[[str], bool]) -> Iterator[Checked]:
    """Raw text and a tokenizer that a run on this host would read, and that it does not have.

    For a check that does not look at data: whether a path is there can be said all the same.
    Prepared data need them no more.
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
                f"there is nothing at {path} on this host, where the run would read it.",
                "Check the path, or put it there before the data are prepared.",
                path,
            )


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
                proposed(f"{field_name}={other}"),
            )


RULES = (
    static(CheckCode.SAME_SOURCE, look=same_source),
    of_data(CheckCode.OTHER_FORMAT, look=other_format),
)
