# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""buildah with a store of its own, so that no other image on the machine is touched."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Store:
    directory: Path
    """The place of layers and of their state."""
    driver: str
    """`overlay` where the kernel allows it, else `vfs`, which copies every layer whole."""

    @staticmethod
    def at(directory: Path) -> "Store":
        """The store in a directory, with the better driver that works there."""
        used = directory / "driver"
        directory.mkdir(parents=True, exist_ok=True)
        if not used.exists():
            overlay = Store(directory, "overlay")
            tried = subprocess.run(overlay.words("info"), capture_output=True, check=False)
            used.write_text("vfs" if tried.returncode else "overlay", encoding="utf-8")
        return Store(directory, used.read_text(encoding="utf-8"))

    def words(self, *words: str) -> list[str]:
        return [
            *("buildah", f"--root={self.directory}/layers", f"--runroot={self.directory}/state"),
            *(f"--storage-driver={self.driver}", *words),
        ]

    def run(self, *words: str) -> None:
        """Call buildah; what it says goes to the error stream."""
        done = subprocess.run(self.words(*words), stdout=sys.stderr, check=False)
        if done.returncode:
            sys.exit(f"build_image: buildah {words[0]} ended with {done.returncode}; see above.")

    def ask(self, *words: str) -> str:
        return subprocess.run(
            self.words(*words), text=True, stdout=subprocess.PIPE, check=True
        ).stdout.strip()

    def has(self, reference: str) -> bool:
        return reference in self._names()

    def forget(self, part: str, kept: str) -> None:
        """Remove images whose name has a part in it, but for one, and layers that nothing uses."""
        for name in self._names():
            if part in name and name != kept:
                self.run("rmi", name)

    def _names(self) -> list[str]:
        images = json.loads(self.ask("images", "--json") or "null") or []
        return [name for image in images for name in image.get("names") or []]


def programs(*names: str) -> None:
    """Install programs from Debian's packages of the same names where they are missing."""
    missing = [name for name in names if shutil.which(name) is None]
    if not missing:
        return
    if shutil.which("apt-get") is None:
        sys.exit(f"build_image: {', '.join(missing)} missing. Install them, as root.")
    settings = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for words in (["update"], ["install", "--no-install-recommends", *missing]):
        apt = ["apt-get", "--quiet", "--yes", *words]
        subprocess.run(apt, env=settings, stdout=sys.stderr, check=True)
