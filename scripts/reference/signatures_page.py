# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The page of signatures: every cause that a diagnosis can name, and the lines that tell of it."""

from scripts.reference.markdown import code, fenced, link, member_docs, page, table
from seatrial.monitoring.diagnosis.knowledge import (
    Cause,
    Certainty,
    Knowledge,
    Signature,
    knowledge,
)


def signatures_page() -> str:
    """The text of the page."""
    known = knowledge()
    return page(
        "# Causes and signatures",
        f"`seatrial diagnose` knows {len(known.causes)} causes by {len(known.signatures)} "
        f"signatures, and {len(known.symptoms)} symptoms that are only ever consequences. They are "
        "data: the files in `src/seatrial/monitoring/diagnosis/data`. Besides them a few rules lay "
        "several ranks side by side: collectives, exit codes, versions of NCCL, dumps of the "
        "flight recorder.",
        "How much a line proves:",
        table(("certainty", "meaning"), [(code(v), d) for v, d in member_docs(Certainty).items()]),
        *[block for cause in known.causes.values() for block in _of_cause(cause, known)],
        "## Symptoms",
        "What is only ever a consequence, and never named as a cause:",
        table(
            ("symptom", "says", "source"),
            [(code(one.name), one.says, link(one.source)) for one in known.symptoms],
        ),
    )


def _of_cause(cause: Cause, known: Knowledge) -> list[str]:
    signatures = [one for one in known.signatures if one.cause == cause.key]
    words = [cause.says]
    if cause.slows:
        words.append("The run goes on with it.")
    if cause.yields:
        words.append("Any other cause that is found explains it.")
    if cause.before_start:
        words.append("A run that failed later by something else had got over it.")
    if cause.explained_by:
        words.append(f"Explained by: {', '.join(map(code, cause.explained_by))}.")
    return [
        f"## {cause.key}",
        " ".join(words),
        f"Do: {cause.do}",
        _table(signatures) if signatures else "Found by a rule, for no single line tells of it.",
        *[fenced(signatures[0].example.strip()) for _ in signatures[:1]],
    ]


def _table(signatures: list[Signature]) -> str:
    return table(
        ("signature", "certainty", "source"),
        [(code(one.name), one.certainty, link(one.source)) for one in signatures],
    )
