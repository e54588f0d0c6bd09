# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Write into ADR 0013 what the second engine added in its own places, and changed elsewhere.

    python -m scripts.write_change_set

Counts `git show --numstat` of the commits that brought it, which are known by their subjects. A
file elsewhere without a reason below is an error: every change has one.
"""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/adr/0013-second-engine.md"
SUBJECTS = (
    "engines: let every layer ask the engine of the spec, and tell LLM Foundry its settings",
    "dataprep: cut prepared tokens into MDS samples for an engine that reads them",
    "cli: install LLM Foundry beside this Seatrial from a lock, and show what a run tells its "
    "engine",
    "build: keep LLM Foundry's packages out of the extras, which one environment could be asked "
    "to hold",
    "rendering: render runs of LLM Foundry, with its own worker, lock and words",
    "worker: train with LLM Foundry's own loop, with our event log among its callbacks",
    "engines: name LLM Foundry's checkpoints so that Composer itself finds them",
    "engines: say which engine's checkpoints are not exported here",
    "worker: add up the gradient norms of LLM Foundry's sharded parts",
    "tests: put the MPT recipes before the API server and on every profile",
    "checkpoints: record, verify and compare Composer's checkpoints too",
    "engines: reach Megatron's arguments through the interface from checks and rehearsals",
    "worker: choose what a start goes on from in one place for both engines",
    "worker: make LLM Foundry's saves count by a record, and go on from a verified one",
    "dataprep: sweep half-written MDS shards of a killed start, and kill conversions 100 times",
    "engines: ask LLM Foundry's validation for no kernel that only a GPU has",
    "checkpoints: export what LLM Foundry has trained, behind the same gate of logits",
    "worker: verify what LLM Foundry is told to begin with before it unpickles it",
)
"""The commits that brought it, oldest first."""

OWN = {
    "lock files, which are made": (
        *("src/seatrial/engines/locks/", "requirements/", "charts/seatrial/files/"),
    ),
    "its adapter": ("src/seatrial/engines/llm_foundry/",),
    "its worker": ("src/seatrial/worker/llm_foundry/",),
    "its data format": ("src/seatrial/dataprep/output/mds_",),
    "its checkpoints' facts": (
        "src/seatrial/checkpoints/settings.py",
        "src/seatrial/checkpoints/composer_contents.py",
        "src/seatrial/checkpoints/foreign.py",
        "src/seatrial/checkpoints/exchange/foundry_",
    ),
    "images, build": (
        *("docker/", "charts/", "scripts/", "Makefile", "pyproject.toml", ".github/"),
    ),
    "catalog and recipes": ("src/seatrial/catalog/", "src/seatrial/recipes/"),
    "tests": ("tests/",),
    "docs": ("docs/", "README.md", "CHANGELOG.md", "mkdocs.yml", "changelog"),
}
"""The places of its own, by the beginnings of paths."""

REASONS = {
    "src/seatrial/engines/": "the interface that other layers ask, and Megatron behind it",
    "src/seatrial/rehearsal/": "changed Megatron's flags for a drill, knew its names, precisions "
    "and Python; now asks the engine, which may have an environment of its own",
    "src/seatrial/rendering/": "wrote Megatron's flags, module, lock and variables; now asks",
    "src/seatrial/checkpoints/": "knew one name of a directory, one format, one way to read "
    "arguments, and one engine's tensors to export",
    "src/seatrial/checks/": "imported Megatron's functions, looked for `.bin` and `.idx`; now asks",
    "src/seatrial/cli/": "the same, and the new command `seatrial engines`",
    "src/seatrial/client.py": "imported Megatron's functions; now asks the engine",
    "src/seatrial/runs/": "imported Megatron's functions; now asks the engine",
    "src/seatrial/dataprep/": "cuts what it has prepared where the engine reads MDS",
    "src/seatrial/spec/": "an option's name may have dots; a tokenizer's name and revision moved "
    "out of Megatron's folder",
    "src/seatrial/worker/": "what does not need Megatron (when a process began, which checkpoint a "
    "start takes) moved to modules that do not import it",
}
"""Why something elsewhere changed, by the beginnings of paths."""


def numbers(subject: str) -> list[tuple[int, int, str]]:
    """Lines added and removed by the commit of a subject, file by file."""
    words = ["git", "log", "--format=", "--numstat", "--no-renames", "--fixed-strings"]
    found = subprocess.run(
        [*words, f"--grep={subject}"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    if not found.strip():
        sys.exit(f"No commit has the subject {subject!r}. Mend SUBJECTS of {__file__}.")
    return [
        (int(added), int(removed), path)
        for added, removed, path in (line.split("\t") for line in found.splitlines() if line)
        if added != "-"
    ]


def place(path: str) -> tuple[bool, str]:
    """Whether a file is in a place of the engine's own, and which place or reason it has."""
    for name, beginnings in OWN.items():
        if path.startswith(beginnings):
            return True, name
    for beginning in REASONS:
        if path.startswith(beginning):
            return False, beginning
    sys.exit(f"{path} changed, and REASONS of {__file__} has no reason for it.")


def main() -> None:
    """Replace the table."""
    counted: dict[tuple[bool, str], Counter[str]] = {}
    for subject in SUBJECTS:
        for added, removed, path in numbers(subject):
            cell = counted.setdefault(place(path), Counter())
            cell.update(added=added, removed=removed)
    lines = ["| where | lines added | removed | why |", "|---|--:|--:|---|"]
    for own in (True, False):
        names = OWN if own else REASONS
        rows = {name: counted[own, name] for name in names if (own, name) in counted}
        total = sum(rows.values(), Counter[str]())
        title = "its own places" if own else "elsewhere"
        lines.append(f"| **{title}** | **{total['added']:,}** | **{total['removed']:,}** | |")
        for name, cell in rows.items():
            shown, why = (name, "") if own else (f"`{name}`", REASONS[name])
            lines.append(f"| {shown} | {cell['added']:,} | {cell['removed']:,} | {why} |")
    text = "<!-- change-set -->\n" + "\n".join(lines) + "\n<!-- end -->"
    between = re.compile(r"<!-- change-set -->\n.*?<!-- end -->", re.DOTALL)
    page = PAGE.read_text(encoding="utf-8")
    if not between.search(page):
        sys.exit(f"{PAGE} has no place for the table: <!-- change-set --> … <!-- end -->.")
    PAGE.write_text(between.sub(lambda _: text, page), encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
