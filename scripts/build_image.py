# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Build a worker image without Docker and without a registry: buildah, on a base of debootstrap.

    python -m scripts.build_image cpu       the Megatron worker on processors
    python -m scripts.build_image data      data preparation

Writes an archive that `ctr images import` takes, and prints its path last. It lies outside the
checkout under a key of all that goes in; what is there is not built again. Runs as root, and
installs debootstrap and buildah from Debian's packages where they are missing.

SEATRIAL_CACHE    where images are kept, if not under XDG_CACHE_HOME or ~/.cache
PIP_CERT, PIP_INDEX_URL    as pip itself reads them; they do not enter the image
"""

import argparse
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from seatrial.sdk.images import pip_secrets
from seatrial.version import VERSION
from tests.cluster.cache import cache_directory
from tests.debian import install

ROOT = Path(__file__).parents[1]
REPOSITORY = "docker.io/local"
"""A registry has to be named, or containerd does not find the image by its name."""
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


class Variant(StrEnum):
    """An image that can be built without a GPU vendor's base."""

    CPU = "cpu"
    DATA = "data"


@dataclass(frozen=True, slots=True)
class Built:
    reference: str
    """The name by which pods ask for it."""
    archive: Path
    """The file for `ctr images import`."""
    seconds: float
    """How long it took; nothing when it was there."""


@dataclass(frozen=True, slots=True)
class Store:
    """buildah with a store of its own, so that no other image on the machine is touched."""

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


def build(variant: Variant, cache: Path, suite: str = SUITE, mirror: str = MIRROR) -> Built:
    """Build an image, unless it is there."""
    tag = f"{VERSION}-{key(variant, suite)}"
    reference = f"{REPOSITORY}/seatrial-worker-{variant}:{tag}"
    archive = cache / f"worker-{variant}-{tag}.tar"
    began = time.monotonic()
    cache.mkdir(parents=True, exist_ok=True)
    with _alone(cache / "lock"):
        if archive.exists():
            return Built(reference, archive, 0.0)
        install({name: name for name in ("debootstrap", "buildah")})
        store = Store.at(cache / "store")
        base = base_image(store, suite, mirror)
        _build(store, variant, base, reference)
        # Under another name until it is whole. Only the newest image of a variant is kept.
        partial = archive.with_suffix(".partial")
        partial.unlink(missing_ok=True)
        store.run("push", "--quiet", reference, f"docker-archive:{partial}:{reference}")
        for old in cache.glob(f"worker-{variant}-*.tar"):
            old.unlink()
        partial.rename(archive)
        store.forget(f"seatrial-worker-{variant}", reference)
    return Built(reference, archive, time.monotonic() - began)


def _build(store: Store, variant: Variant, base: str, reference: str) -> None:
    dockerfile = ROOT / "docker" / f"worker-{variant}.Dockerfile"
    with tempfile.TemporaryDirectory(prefix="seatrial-image-") as work:
        store.run(
            *("bud", "--layers", "--isolation=chroot", "--format=docker", "--pull-never"),
            *(f"--file={dockerfile}", f"--ignorefile={dockerfile}.dockerignore"),
            *(f"--build-arg=BASE={base}", f"--build-arg=VERSION={VERSION}"),
            *(f"--build-arg=REVISION={revision()}", f"--tag={reference}"),
            *(f"--secret={each}" for each in pip_secrets(Path(work))),
            str(ROOT),
        )


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


def key(variant: Variant, suite: str) -> str:
    """A digest of all that goes into an image."""
    digest = hashlib.sha256(f"{variant} {suite}".encode())
    for path in sorted(_ingredients(variant)):
        digest.update(f"{path.relative_to(ROOT)}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _ingredients(variant: Variant) -> Iterator[Path]:
    yield from (ROOT / name for name in ("pyproject.toml", "README.md", "LICENSE"))
    yield from (ROOT / "requirements").glob("*.txt")
    yield from (ROOT / "scripts").glob("build_image*.py")
    yield from (ROOT / "docker").glob(f"worker-{variant}.Dockerfile*")
    for path in (ROOT / "src").rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path


def revision() -> str:
    """The commit of the checkout; empty outside of one."""
    words = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    found = subprocess.run(words, text=True, capture_output=True, check=False)
    return found.stdout.strip() if found.returncode == 0 else ""


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    with path.open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def default_cache() -> Path:
    return cache_directory() / "images"


def main() -> None:
    parser = argparse.ArgumentParser(description="Build a worker image with buildah.")
    parser.add_argument("variant", type=Variant, choices=list(Variant))
    parser.add_argument("--suite", default=SUITE, help="the release of Debian below it")
    parser.add_argument("--mirror", default=MIRROR, help="where Debian's packages come from")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("build_image: run it as root: debootstrap and buildah's chroot need that.")
    built = build(options.variant, default_cache(), options.suite, options.mirror)
    size = built.archive.stat().st_size / 1e6
    took = f"built in {built.seconds:.0f} s" if built.seconds else "was there"
    print(f"{built.reference}: {took}, {size:,.0f} MB")
    print(built.archive)


if __name__ == "__main__":
    main()
