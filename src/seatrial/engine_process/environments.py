# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Environments of engines on this host: create them from a lock file, check them, find them.

Engines need different versions of torch and cannot share an environment. Its name depends on the
lock file and the Python, so a new lock file gets a new environment. It is valid after a check.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from inspect import getfile
from pathlib import Path

from seatrial.engines.engine import Engine
from seatrial.errors import UsageError
from seatrial.storage.state_files import write_whole

HOME = "SEATRIAL_ENGINES"
"""The variable for the directory of environments, if it is not in the user's data directory."""
WHOLE = ".complete"
"""The file that is written last, with the versions in the environment."""
LOOK = """
import json, sys
from importlib import import_module
from importlib.metadata import version
name, *packages = sys.argv[1:]
for package in packages:
    import_module(package)
print(json.dumps({"engine": version(name), "torch": version("torch")}))
"""
"""Imports the engine's packages, and prints its version."""

Say = Callable[[str], None]
"""Progress callback: a message."""


def lock_file(engine: Engine) -> Path:
    """Return the lock file in an engine's folder."""
    place = Path(getfile(type(engine))).with_name(engine.installation.lock)
    if not place.is_file():
        raise UsageError(f"{engine.title} has no lock file to install an environment from.")
    return place


def environment(engine: Engine) -> Path:
    """Return the path of an engine's environment, which may not exist."""
    home = os.environ.get(HOME)
    data = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    place = Path(home) if home else Path(data) / "seatrial" / "engines"
    made_of = f"{lock_file(engine).read_text()}{sys.version}{sys.executable}"
    return place / f"{engine.name}-{sha256(made_of.encode()).hexdigest()[:12]}"


def installed_python(engine: Engine) -> str:
    """Return the Python of an installed engine; empty if it is not installed."""
    try:
        place = environment(engine)
    except UsageError:
        return ""
    return str(place / "bin" / "python") if (place / WHOLE).is_file() else ""


def install(engine: Engine, say: Say) -> dict[str, str]:
    """Create the environment of an engine unless it is complete; return the versions in it."""
    place, lock = environment(engine), lock_file(engine)
    if not (place / WHOLE).is_file():
        shutil.rmtree(place, ignore_errors=True)
        place.parent.mkdir(parents=True, exist_ok=True)
        say(f"Creating {place} from {lock.name}; {engine.title} includes its own PyTorch.")
        _run([sys.executable, "-m", "venv", str(place)], "cannot create the environment")
        python = str(place / "bin" / "python")
        words = ["-m", "pip", "install", "--no-input", "--disable-pip-version-check", "--quiet"]
        # The lock file is complete. Resolving again would reject `fsspec[http]` with `fsspec==...`.
        told = ["--require-hashes", "--no-deps", "--requirement", str(lock)]
        _run([python, *words, *told], "cannot install the packages of the lock file")
    found = check(engine, place)
    write_whole(place / WHOLE, json.dumps(found) + "\n")
    return found


def check(engine: Engine, place: Path) -> dict[str, str]:
    """Import the engine in its environment. Raises UsageError if it is not the right version."""
    words = [str(place / "bin" / "python"), "-c", LOOK, str(engine.name)]
    done = subprocess.run(  # noqa: S603  (our own command, no shell)
        [*words, *engine.installation.packages],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONWARNINGS": "ignore"},
    )
    if done.returncode:
        reason = done.stderr.strip().rpartition("\n")[2]
        raise UsageError(f"{engine.title} cannot be imported in {place}: {reason}")
    found: dict[str, str] = json.loads(done.stdout.strip().rpartition("\n")[2])
    if found["engine"] != engine.version:
        raise UsageError(
            f"{place} has {engine.title} {found['engine']}, but this Seatrial needs "
            f"{engine.version}. Delete that directory and install again."
        )
    return found


def _run(words: list[str], failed: str) -> None:
    done = subprocess.run(  # noqa: S603  (our own command, no shell)
        words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        lines = [line for line in done.stderr.strip().splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("ERROR")] or lines[-1:]
        raise UsageError(f"{failed}: {' '.join(errors[:2])}")
