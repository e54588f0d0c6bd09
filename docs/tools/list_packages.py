# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""List what an installation brings along, with licences, from the lock files.

    python -m docs.tools.list_packages SITE_PACKAGES [SITE_PACKAGES ...]

Reads the lock files of a plain installation, of the worker, of LLM Foundry and of the image for
data, and the licence of each package from the metadata in the given directories. Writes the tables
of docs/packages.md and a CycloneDX list for each of the four into dist/; a package whose licence is
not known has none in it. The wheel itself holds nothing but Seatrial.
"""

import json
import re
import sys
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path

from scripts.build_image_packages import closure, normalised, packages, requirements
from seatrial.version import VERSION

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/packages.md"
PIN = re.compile(
    r"^(?P<name>[A-Za-z0-9][\w.-]*)(?:\[[^\]]*\])?==(?P<version>[^\s;\\]+)", re.MULTILINE
)
UNKNOWN = "not said in its metadata"
NOT_READ = "not read"
"""For a package that is not installed here, such as one for another system."""
LONGEST = 60
"""Characters of a licence that is given as a name; what is longer is its text."""


@dataclass(frozen=True, slots=True)
class Package:
    name: str
    version: str
    licence: str
    """What its metadata say, or why that is not known."""

    @property
    def has_licence(self) -> bool:
        return self.licence not in (UNKNOWN, NOT_READ)


@dataclass(frozen=True, slots=True)
class Lock:
    title: str
    file: str
    what: str
    extras: tuple[str, ...] = ()
    """Only what these extras and the core bring is installed of the file; all of it without."""

    def pinned(self) -> list[tuple[str, str]]:
        text = (ROOT / "requirements" / self.file).read_text(encoding="utf-8")
        found = [(match["name"], match["version"]) for match in PIN.finditer(text)]
        if not self.extras:
            return found
        roots = requirements(ROOT / "pyproject.toml", self.extras)
        wanted = {each.name for each in closure(packages(text), roots)}
        return [(name, version) for name, version in found if normalised(name) in wanted]


LOCKS = {
    "core": Lock(
        "A plain installation", "core.txt", "a plain installation, `pip install seatrial`"
    ),
    "worker": Lock(
        "The worker", "worker.txt", "the worker and its images, `pip install '.[worker,wandb]'`"
    ),
    "llm-foundry": Lock(
        "LLM Foundry",
        "llm-foundry.txt",
        "the other engine and its image, `seatrial engines install llm-foundry`",
    ),
    "data": Lock(
        "The image for data",
        "dev.txt",
        "what the extras `data` and `ray` bring of it",
        ("data", "ray"),
    ),
}


def licence_of(distribution: Distribution) -> str:
    """The licence by the newest of the three ways in which metadata say it."""
    metadata = distribution.metadata
    expression = metadata.get("License-Expression", "")
    if expression:
        return expression
    classified = [
        line.rpartition(" :: ")[2]
        for line in metadata.get_all("Classifier") or ()
        if line.startswith("License :: ") and not line.endswith("OSI Approved")
    ]
    if classified:
        return ", ".join(classified)
    named = (metadata.get("License") or "").strip()
    return named if named and len(named) <= LONGEST and "\n" not in named else UNKNOWN


def packages_of(lock: Lock, sites: list[str]) -> list[Package]:
    """The packages of a lock file; those that are not installed have no licence here."""
    known: dict[tuple[str, str], str] = {}
    for found in distributions(path=sites):
        known.setdefault((normalised(found.name), found.version), licence_of(found))
    return [
        Package(name, version, known.get((normalised(name), version), NOT_READ))
        for name, version in lock.pinned()
    ]


def table(found: list[Package]) -> str:
    lines = ["| package | version | licence |", "| --- | --- | --- |"]
    lines += [f"| {each.name} | {each.version} | {each.licence} |" for each in found]
    return "\n".join(lines)


def bill(lock: str, found: list[Package]) -> dict[str, object]:
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "name": f"seatrial ({lock})",
                "version": VERSION,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            }
        },
        "components": [_component(each) for each in found],
    }


def _component(package: Package) -> dict[str, object]:
    """A package in a bill; CycloneDX leaves out licences that nobody has told."""
    licences = [{"license": {"name": package.licence}}] if package.has_licence else []
    return {
        "type": "library",
        "name": package.name,
        "version": package.version,
        "purl": f"pkg:pypi/{normalised(package.name)}@{package.version}",
    } | ({"licenses": licences} if licences else {})


def page(found: dict[str, list[Package]]) -> str:
    parts = [
        "<!-- Generated by `python -m docs.tools.list_packages`. Do not edit. -->\n\n"
        "# What is installed along\n\n"
        "The wheel of Seatrial holds Seatrial alone, under Apache-2.0. What comes with it is named "
        "by the lock files, every file by its hash. Licences are those that the packages' own "
        "metadata say; nobody has read their texts for this list. Those of packages that were not "
        "installed where it was made, because they are for other systems, are not read.\n"
    ]
    for name, listed in found.items():
        lock = LOCKS[name]
        parts.append(
            f"\n## {lock.title}\n\n`requirements/{lock.file}`: {lock.what}; {len(listed)} "
            f"packages.\n\n{table(listed)}\n"
        )
    return "".join(parts)


def main() -> None:
    found = {name: packages_of(lock, sys.argv[1:]) for name, lock in LOCKS.items()}
    PAGE.write_text(page(found), encoding="utf-8")
    (ROOT / "dist").mkdir(exist_ok=True)
    for name, listed in found.items():
        file = ROOT / f"dist/seatrial-{VERSION}-{name}.cdx.json"
        file.write_text(json.dumps(bill(name, listed), indent=2) + "\n", encoding="utf-8")
        silent = [each.name for each in listed if not each.has_licence]
        print(f"{file.relative_to(ROOT)}: {len(listed)} packages, {len(silent)} without a licence")
        if silent:
            print(f"  {', '.join(silent)}")


if __name__ == "__main__":
    main()
