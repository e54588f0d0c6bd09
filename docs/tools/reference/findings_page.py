# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The reference page of findings: their fields, and every code."""

from dataclasses import fields
from enum import StrEnum
from itertools import groupby

from docs.tools.reference.markdown import code, doc_of, docs_of, fenced, member_docs, page, table
from docs.tools.reference.spec_page import EXAMPLE
from seatrial.checks.explanations import Explanation, explanations
from seatrial.codes.registry import AREAS, known_codes
from seatrial.errors import FindingsError
from seatrial.findings import Finding, Severity, Where
from seatrial.spec.loader import loads


def findings_page() -> str:
    return page(
        "# Findings",
        f"{doc_of(Finding)} All parts of Seatrial report findings with these fields. Codes are "
        "stable: a code never changes its meaning and is never reused.",
        "## Fields",
        _fields(Finding),
        f"`where` is {doc_of(Where)[:1].lower()}{doc_of(Where)[1:]}",
        _fields(Where),
        "`severity` is one of:",
        table(("severity", "meaning"), [(code(v), d) for v, d in member_docs(Severity).items()]),
        "A finding printed on one line shows its location, its rule and its fix:",
        fenced(_example()),
        "`seatrial validate --json` prints the same fields under `findings`.",
        "`seatrial explain CODE` explains a code.",
        *[block for enum, (_, title) in AREAS.items() for block in _codes(enum, title)],
        "## Explanations",
        "The consequences of ignoring a finding, and the sources. `seatrial explain` prints the "
        "same text.",
        *[block for code_, found in _explained() for block in _background(code_, found)],
    )


def _fields(thing: type[Finding] | type[Where]) -> str:
    """The fields of a finding or of its location."""
    names = [field.name for field in fields(thing)]
    return table(("part", "meaning"), [(code(n), d) for n, d in docs_of(thing, names).items()])


def _codes(enum: type[StrEnum], title: str) -> list[str]:
    """The codes of one enum, a table for each group."""
    docs = member_docs(enum)
    blocks = [f"## {title}", doc_of(enum)]
    for _, values in groupby(docs, key=lambda value: value.rpartition("-")[0]):
        blocks.append(table(("code", "meaning"), [(code(v), docs[v]) for v in values]))
    return blocks


def _explained() -> list[tuple[str, Explanation]]:
    """The codes with a background, in the order of the tables."""
    order = [str(member.value) for enum in AREAS for member in enum]
    known = explanations()
    return [(code_, known[code_]) for code_ in order if code_ in known]


def _background(code_: str, found: Explanation) -> list[str]:
    blocks = [f"### {code_}", f"**{known_codes()[code_].meaning}** {found.why}"]
    if found.do:
        blocks.append(found.do)
    named = [source if "`" in source else f"`{source}`" for source in found.sources]
    words = [s.strip("`") if "://" in s else s for s in named]
    return [
        *blocks,
        f"Source: {', '.join(f'<{w}>' if w.startswith('https') else w for w in words)}",
    ]


def _example() -> str:
    """A real finding of the example spec, in one line."""
    text = EXAMPLE.replace("global_batch_size: 512", "global_batch_size: 510")
    try:
        loads(text, "run.yaml")
    except FindingsError as error:
        return error.findings[0].one_line()
    raise SystemExit("the example of the findings page no longer reports a finding.")
