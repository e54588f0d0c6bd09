# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The packages of documentation that the corpus is made of, and how to get at their files."""

import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Package:
    """A package of documentation."""

    name: str
    """Its name in Debian."""
    domain: str
    """What its documents say as their `redpajama_set_name`."""
    left_out: str = r"\Z\A"
    """Pattern of paths to leave out: the same text in another form, or in another language."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """The version of a package that the package manager would install."""

    package: Package
    """The package."""
    version: str
    """Its version."""
    sha256: str
    """Digest of its file."""


def _packages(domain: str, names: str) -> list[Package]:
    return [Package(name, domain) for name in names.split()]


ENGLISH: tuple[Package, ...] = (
    Package("linux-doc-6.1", "kernel", r"/translations/"),
    *_packages("kernel", "dpdk-doc manpages manpages-dev freebsd-manpages"),
    *_packages(
        "books", "anarchism dict-gcide dict-foldoc dict-jargon debian-policy debian-reference-en"
    ),
    *_packages("languages", "openjdk-17-doc python3.11-doc libstdc++-12-doc"),
    # Its manual pages are made from its pod files.
    Package("perl-doc", "languages", r"/share/man/"),
    *_packages("languages", "llvm-16-doc octave-doc maxima-doc tcllib"),
    *_packages("languages", "erlang-manpages fp-docs-3.2.2 pike8.0-doc tcl8.6-doc tk8.6-doc"),
    *_packages("languages", "ada-reference-manual-2012 zsh-doc"),
    *_packages("databases", "postgresql-doc-15 db5.3-doc sqlite3-doc derby-doc"),
    *_packages("libraries", "python-django-doc python-sympy-doc twisted-doc"),
    *_packages("libraries", "libboost1.81-doc qtbase5-doc-html libglib2.0-doc libgtk-4-doc"),
    *_packages("libraries", "python-sqlalchemy-doc sphinx-doc libssl-doc libx11-doc"),
    *_packages("applications", "git-doc cmake-doc libreoffice-help-en-us"),
    *_packages("applications", "ns3-doc buildbot-doc nova-doc neutron-doc cinder-doc keystone-doc"),
    *_packages("applications", "slurm-wlm-doc kicad-doc-en"),
)
"""English text."""

MULTILINGUAL: tuple[Package, ...] = (
    *_packages("de", "libreoffice-help-de manpages-de"),
    *_packages("fr", "libreoffice-help-fr manpages-fr"),
    *_packages("ja", "libreoffice-help-ja manpages-ja manpages-ja-dev"),
    *_packages("zh", "libreoffice-help-zh-cn manpages-zh"),
    *_packages("ru", "libreoffice-help-ru manpages-ru"),
    *_packages("ko", "libreoffice-help-ko"),
    *_packages("hi", "libreoffice-help-hi"),
    *_packages("el", "libreoffice-help-el"),
    *_packages("pl", "manpages-pl"),
    *_packages("es", "manpages-es"),
    Package("debian-handbook", "handbook", r"/en-US/"),
)
"""Text in other languages."""


def candidates(packages: Iterable[Package]) -> tuple[list[Candidate], list[str]]:
    """What the package manager has of the packages, and the names that it does not know."""
    by_name = {package.name: package for package in packages}
    found: dict[str, Candidate] = {}
    # What it does not know makes apt-cache end with 100, and it shows the rest all the same.
    shown = _run(["apt-cache", "show", "--no-all-versions", *by_name], codes=(0, 100))
    for paragraph in shown.split("\n\n"):
        fields = dict(re.findall(r"^(Package|Version|SHA256): (.*)$", paragraph, re.MULTILINE))
        if fields.get("Package") in by_name and "SHA256" in fields:
            package = by_name[fields["Package"]]
            found[package.name] = Candidate(package, fields["Version"], fields["SHA256"])
    missing = [name for name in by_name if name not in found]
    return [found[name] for name in by_name if name in found], missing


def file_of(candidate: Candidate, directory: Path) -> Path:
    """Where the file of a package is kept: named by its digest, so that it can be trusted."""
    return directory / f"{candidate.package.name}-{candidate.sha256[:16]}.deb"


def download(wanted: Sequence[Candidate], directory: Path) -> None:
    """Download what is not there yet, with the machine's own package manager."""
    directory.mkdir(parents=True, exist_ok=True)
    wanted = [item for item in wanted if not file_of(item, directory).exists()]
    if not wanted:
        return
    fresh = directory / "fresh"
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir()
    words = [f"{item.package.name}={item.version}" for item in wanted]
    _run(["apt-get", "download", "--quiet", *words], cwd=fresh)
    by_digest = {item.sha256: item for item in wanted}
    for file in fresh.iterdir():
        with file.open("rb") as stream:
            digest = file_digest(stream, "sha256").hexdigest()
        file.rename(file_of(by_digest[digest], directory))
    fresh.rmdir()


def names(deb: Path) -> list[str]:
    """Paths of everything in a package."""
    words = ["dpkg-deb", "--fsys-tarfile", str(deb)]
    with (
        subprocess.Popen(words, stdout=subprocess.PIPE) as unpacking,
        tarfile.open(fileobj=unpacking.stdout, mode="r|") as archive,
    ):
        return [member.name for member in archive if member.isfile()]


def files(deb: Path) -> Iterator[tuple[str, bytes]]:
    """Paths and contents of the files of a package, in its order, without unpacking it to disk."""
    words = ["dpkg-deb", "--fsys-tarfile", str(deb)]
    with (
        subprocess.Popen(words, stdout=subprocess.PIPE) as unpacking,
        tarfile.open(fileobj=unpacking.stdout, mode="r|") as archive,
    ):
        for member in archive:
            content = archive.extractfile(member) if member.isfile() else None
            if content is not None:
                yield member.name, content.read()
    if unpacking.returncode:
        raise SystemExit(f"make_corpus: {deb} cannot be unpacked. Remove it and start again.")


def _run(words: Sequence[str], codes: Sequence[int] = (0,), cwd: Path | None = None) -> str:
    """The output of a command."""
    if shutil.which(words[0]) is None:
        raise SystemExit(f"make_corpus: there is no {words[0]}: this needs a Debian system.")
    done = subprocess.run(words, capture_output=True, text=True, cwd=cwd, check=False)
    if done.returncode not in codes:
        raise SystemExit(
            f"make_corpus: {words[0]} {words[1]} failed: {done.stderr.strip()}\n"
            "When the lists of packages are old, apt-get update brings them up to date."
        )
    return done.stdout
