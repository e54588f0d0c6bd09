# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Programs of Debian that tests use. `python -m tests.debian` installs those of `make test`."""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from tempfile import gettempdir

from tests.cluster.cache import made_once

NEEDED = {"cc": "gcc", "readelf": "binutils", "chromium": "chromium"}
"""Packages by program. Without one of them tests are skipped, and in CI that is a failure."""


def install(packages: Mapping[str, str]) -> None:
    """Install the packages whose programs are missing; needs root."""
    missing = sorted({name for path, name in packages.items() if shutil.which(path) is None})
    if missing:
        _apt("update")
        _apt("install", "--yes", "--no-install-recommends", *missing)


def unpacked(program: str, package: str) -> str:
    """A program, taken out of its package where this machine has not installed it.

    A package that is installed would start a service, which listens to everybody.
    """
    found = shutil.which(program)
    if found:
        return found
    directory = made_once(f"debian-{package}", lambda fresh: _unpack(package, fresh))
    return str(directory / "usr/bin" / program)


def _unpack(package: str, directory: Path) -> None:
    if os.geteuid() == 0:
        _apt("update")
    _apt("download", package, cwd=directory)
    (file,) = directory.glob("*.deb")
    subprocess.run(["dpkg-deb", "--extract", str(file), str(directory)], check=True)
    file.unlink()


def _apt(*words: str, cwd: Path | None = None) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    # apt-get fails where another one runs, and tests run in several processes.
    with Path(gettempdir(), "seatrial-tests-apt.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(
            ["apt-get", "-qq", *words],
            env=environment,
            cwd=cwd,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise RuntimeError(f"apt-get {' '.join(words)} failed: {done.stderr.strip()}")


if __name__ == "__main__":
    install(NEEDED)
