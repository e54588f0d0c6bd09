# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Environments of engines on this host: made from a lock file, checked, found again.

Engines need other versions of torch and cannot share one. An environment is named after its lock
and the Python that made it, so that a new lock gets a new one, and counts once it was checked.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from seatrial.engine_process.package_path import PACKAGE
from seatrial.engines.engine import Engine
from seatrial.errors import UsageError
from seatrial.storage.state_files import write_whole

HOME = "SEATRIAL_ENGINES"
"""Where environments are kept, if not below the user's data."""
WHOLE = ".complete"
"""The file that is made last, with what was found inside."""
LOOK = """
import json, sys
from importlib import import_module
from importlib.metadata import version
name, *packages = sys.argv[1:]
for package in packages:
    import_module(package)
print(json.dumps({"engine": version(name), "torch": version("torch")}))
"""
"""Imports what the engine is known by, and tells its version."""

Say = Callable[[str], None]
"""Told what is going on."""


def lock_file(engine: Engine) -> Path:
    """The lock of an engine."""
    place = PACKAGE / "engines" / "locks" / engine.installation.lock
    if not place.is_file():
        raise UsageError(f"{engine.title} has no environment of its own to be made from a lock.")
    return place


def environment(engine: Engine) -> Path:
    """Where the environment of an engine is, or would be."""
    home = os.environ.get(HOME)
    data = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    place = Path(home) if home else Path(data) / "seatrial" / "engines"
    made_of = f"{lock_file(engine).read_text()}{sys.version}{sys.executable}"
    return place / f"{engine.name}-{sha256(made_of.encode()).hexdigest()[:12]}"


def installed_python(engine: Engine) -> str:
    """The Python of an engine that was installed here; empty when it was not."""
    try:
        place = environment(engine)
    except UsageError:
        return ""
    return str(place / "bin" / "python") if (place / WHOLE).is_file() else ""


def install(engine: Engine, say: Say) -> dict[str, str]:
    """Make the environment of an engine unless it is whole; gives the versions inside."""
    place, lock = environment(engine), lock_file(engine)
    if not (place / WHOLE).is_file():
        shutil.rmtree(place, ignore_errors=True)
        place.parent.mkdir(parents=True, exist_ok=True)
        say(f"Making {place} from {lock.name}; {engine.title} brings a PyTorch of its own.")
        _run([sys.executable, "-m", "venv", str(place)], "the environment cannot be made")
        python = str(place / "bin" / "python")
        words = ["-m", "pip", "install", "--no-input", "--disable-pip-version-check", "--quiet"]
        # A lock names all there is; resolving again refuses `fsspec[http]` beside `fsspec==...`.
        told = ["--require-hashes", "--no-deps", "--requirement", str(lock)]
        _run([python, *words, *told], "the packages of the lock cannot be installed")
    found = check(engine, place)
    write_whole(place / WHOLE, json.dumps(found) + "\n")
    return found


def check(engine: Engine, place: Path) -> dict[str, str]:
    """Import the engine in its environment; raises UsageError when it is not the right one."""
    words = [str(place / "bin" / "python"), "-c", LOOK, str(engine.name)]
    done = subprocess.run(  # noqa: S603  (our own words, no shell)
        [*words, *engine.installation.packages],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONWARNINGS": "ignore"},
    )
    if done.returncode:
        reason = done.stderr.strip().rpartition("\n")[2]
        raise UsageError(f"{engine.title} does not load in {place}: {reason}")
    found: dict[str, str] = json.loads(done.stdout.strip().rpartition("\n")[2])
    if found["engine"] != engine.version:
        raise UsageError(
            f"{place} has {engine.title} {found['engine']}, and this Seatrial is made for "
            f"{engine.version}. Remove that directory and install again."
        )
    return found


def _run(words: list[str], failed: str) -> None:
    done = subprocess.run(  # noqa: S603  (our own words, no shell)
        words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        lines = [line for line in done.stderr.strip().splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("ERROR")] or lines[-1:]
        raise UsageError(f"{failed}: {' '.join(errors[:2])}")
