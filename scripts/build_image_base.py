# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A base image of Debian, made here from its packages."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from scripts.build_image_store import Store

SUITE = "trixie"
"""Debian 13, the first stable release whose Python (3.13) is new enough."""
MIRROR = "http://deb.debian.org/debian"
SECURITY = "http://security.debian.org/debian-security"
EXCLUDED = """path-exclude /usr/share/doc/*
path-include /usr/share/doc/*/copyright
path-exclude /usr/share/info/*
path-exclude /usr/share/locale/*
path-exclude /usr/share/man/*
"""
"""What a container has no reader for; licences stay."""


def base_image(store: Store, suite: str, mirror: str) -> str:
    """The name of the base, made unless it is there."""
    name = f"localhost/seatrial-base:{suite}"
    if store.has(name):
        return name
    with tempfile.TemporaryDirectory(prefix="seatrial-base-") as work:
        root = Path(work, "root")
        words = ["debootstrap", "--variant=minbase", suite, str(root), mirror]
        if subprocess.run(words, stdout=sys.stderr, check=False).returncode:
            log = root / "debootstrap" / "debootstrap.log"
            detail = log.read_text(encoding="utf-8")[-2000:] if log.exists() else "no log"
            sys.exit(f"build_image: debootstrap of {suite} from {mirror} failed.\n{detail}")
        trim(root, suite, mirror)
        container = store.ask("from", "scratch")
        try:
            store.run("add", "--quiet", container, str(root), "/")
            store.run("config", "--cmd=/bin/bash", container)
            store.run("commit", "--quiet", "--format=docker", container, name)
        finally:
            store.run("rm", container)
    return name


def trim(root: Path, suite: str, mirror: str) -> None:
    """Leave out what no container reads, and make its apt see security updates."""
    for name in ("var/cache/apt", "var/lib/apt/lists", "var/log", "dev"):
        for path in (root / name).iterdir():
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    for name in ("info", "locale", "man"):
        shutil.rmtree(root / "usr/share" / name, ignore_errors=True)
    for path in (root / "usr/share/doc").rglob("*"):
        if path.is_file() and path.name != "copyright":
            path.unlink()
    (root / "etc/dpkg/dpkg.cfg.d/without-docs").write_text(EXCLUDED, encoding="utf-8")
    sources = [f"deb {mirror} {suite} main", f"deb {mirror} {suite}-updates main"]
    sources.append(f"deb {SECURITY} {suite}-security main")
    (root / "etc/apt/sources.list").write_text("\n".join(sources) + "\n", encoding="utf-8")
    # debootstrap takes these from the machine it runs on.
    for name in ("etc/hostname", "etc/resolv.conf"):
        (root / name).unlink(missing_ok=True)
