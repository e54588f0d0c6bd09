# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The packages of documentation that the corpus is made of, and how to get at their files."""

import re
import subprocess
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measured import measure


@dataclass(frozen=True, slots=True)
class Package:
    name: str
    domain: str
    """What its documents say as their `redpajama_set_name`."""
    left_out: str = r"\Z\A"
    """Pattern of paths to leave out: the same text in another form, or in another language."""


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


def versions(packages: Iterable[Package]) -> dict[str, str]:
    """The version of each package that the package manager has."""
    # What it does not know makes apt-cache end with 100, and it shows the rest all the same.
    names = {package.name for package in packages}
    argv = ["apt-cache", "show", "--no-all-versions", *sorted(names)]
    shown = measure(argv, codes=(0, 100)).output
    found = re.findall(r"^Package: (.*)\n(?:.+\n)*?Version: (.*)$", shown, re.MULTILINE)
    return {name: version for name, version in found if name in names}


def download(wanted: Mapping[str, str], directory: Path) -> dict[str, Path]:
    """Download packages with the machine's own package manager, which checks their digests.

    It fails when its lists of packages are old: apt-get update brings them up to date.
    """
    pinned = [f"{name}={version}" for name, version in wanted.items()]
    measure(["apt-get", "download", "--quiet", *pinned], cwd=directory)
    return {file.name.partition("_")[0]: file for file in directory.glob("*.deb")}


def files(deb: Path, *, read: bool = True) -> Iterator[tuple[str, bytes]]:
    """Paths of the files of a package, in its order, and their contents unless not asked for."""
    argv = ["dpkg-deb", "--fsys-tarfile", str(deb)]
    with (
        subprocess.Popen(argv, stdout=subprocess.PIPE) as unpacking,
        tarfile.open(fileobj=unpacking.stdout, mode="r|") as archive,
    ):
        for member in archive:
            content = archive.extractfile(member) if read and member.isfile() else None
            if member.isfile():
                yield member.name, content.read() if content else b""
