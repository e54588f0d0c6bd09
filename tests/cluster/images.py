# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Container images made of files of this machine, without a registry and without a build.

Environments of Python are not in them: the node shows them to every container (see node.py). Images
differ in which of these comes first on the path.
"""

import hashlib
import io
import json
import os
import platform
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.building import program
from tests.cluster.cache import key_of, made_once

PAUSE = "docker.io/local/pause:1"
"""What holds the namespaces of a pod."""
USERLAND = "docker.io/local/userland:1"
"""A shell and the usual commands, with Megatron's environment and the libraries that it needs."""
FOUNDRY = "docker.io/local/llm-foundry:1"
"""The same with LLM Foundry's environment."""
DATA = "docker.io/local/data:1"
"""The same with the development environment, which has the libraries of data preparation."""
SOURCE = "/opt/seatrial/src"
"""Where containers find the code of this checkout."""

_COMMANDS = (
    *("sh", "bash", "cat", "chmod", "cp", "date", "df", "dirname", "echo", "env", "false", "find"),
    *("getent", "grep", "head", "hostname", "id", "kill", "ln", "ls", "mkdir", "mktemp", "mv"),
    *("nproc", "printf", "ps", "pwd", "readlink", "rm", "rmdir", "sed", "seq", "sleep", "sort"),
    *("stat", "tail", "tar", "tee", "test", "timeout", "touch", "tr", "true", "uname", "wc"),
)
_FILES = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nrun:x:1000:1000:run:/tmp:/bin/sh\n",
    "etc/group": "root:x:0:\nrun:x:1000:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}
_LIBRARY = re.compile(r"(?:=> )?(/\S+) \(0x[0-9a-f]+\)")


@dataclass(frozen=True, slots=True)
class Image:
    """What a container starts from."""

    name: str
    """Its full name with a tag."""
    files: dict[str, Path | str | None]
    """What is in it by path: a file of this machine, a text, or nothing for a directory."""
    entrypoint: tuple[str, ...] = ()
    """What it runs unless told otherwise."""
    environment: tuple[str, ...] = ()
    """Variables, as NAME=value."""


def pause_image() -> Image:
    """The image of pods' first container."""
    return Image(PAUSE, {"pause": program("pause")}, ("/pause",))


def userland_image(name: str, environment: Path | None) -> Image:
    """Commands of this machine; with an environment of Python, if there is one, on the path."""
    commands = {
        Path(found).name: Path(found) for name in _COMMANDS if (found := shutil.which(name))
    }
    files: dict[str, Path | str | None] = {f"usr/bin/{n}": p for n, p in commands.items()}
    objects = list(commands.values())
    path = "/usr/bin:/bin"
    if environment is not None:
        base = base_python(environment)
        objects += [environment / "bin/python", *_shared_objects(environment, base)]
        path = f"{environment}/bin:{path}"
    # /lib is a link to /usr/lib in the image, as it is in Debian.
    files |= {f"usr{str(path).removeprefix('/usr')}": path for path in _libraries(objects)}
    files |= dict.fromkeys(("tmp", "proc", "sys", "dev", "root", "var"), None)
    files |= _FILES
    variables = (f"PATH={path}", f"PYTHONPATH={SOURCE}", "LANG=C.UTF-8", "HOME=/tmp")
    return Image(name, files, environment=variables)


def archive(image: Image) -> Path:
    """The image as an archive that containerd imports; made once for its files."""
    told = [image.name, *image.entrypoint, *image.environment]
    for path, source in image.files.items():
        told += [path, source if isinstance(source, str) else _mark(source)]
    name = image.name.rpartition("/")[2].replace(":", "-")
    folder = made_once(f"cluster/image-{name}-{key_of(told)}", lambda place: _write(image, place))
    return folder / "image.tar"


def base_python(environment: Path) -> Path:
    """The installation that a virtual environment is of."""
    settings = (environment / "pyvenv.cfg").read_text()
    home = next(line for line in settings.splitlines() if line.startswith("home"))
    return Path(home.partition("=")[2].strip()).resolve().parent


def _mark(source: Path | None) -> str:
    """What tells one file from another without reading it."""
    if source is None:
        return ""
    found = source.stat()
    return f"{source} {found.st_size} {found.st_mtime_ns}"


def _shared_objects(*folders: Path) -> list[Path]:
    return [path for folder in folders for path in folder.rglob("*.so*") if path.is_file()]


def _libraries(objects: Iterable[Path]) -> set[Path]:
    """The libraries of this machine that programs and modules are linked to."""
    found: set[Path] = set()
    paths = [str(path) for path in objects]
    for begin in range(0, len(paths), 200):
        argv = ["ldd", *paths[begin : begin + 200]]
        # It fails for a file that is no program, and still tells about the others.
        text = subprocess.run(argv, capture_output=True, text=True, check=False).stdout
        found |= {Path(library) for library in _LIBRARY.findall(text)}
    return {path for path in found if str(path).startswith(("/lib", "/usr/lib"))}


def _write(image: Image, place: Path) -> None:
    """Write one layer, and the three small files that describe it (OCI image layout 1.0)."""
    blobs = place / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    layer = blobs / "layer"
    _write_layer(image, layer)
    with layer.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    size = layer.stat().st_size
    layer = layer.rename(blobs / digest)
    machine = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
    described = {"architecture": machine, "os": "linux"}
    settings = _blob(
        blobs,
        {
            **described,
            "config": {"Entrypoint": image.entrypoint, "Env": image.environment, "WorkingDir": "/"},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        },
    )
    media = "application/vnd.oci.image"
    whole = _blob(
        blobs,
        {
            "schemaVersion": 2,
            "mediaType": f"{media}.manifest.v1+json",
            "config": {"mediaType": f"{media}.config.v1+json", **settings},
            "layers": [
                {
                    "mediaType": f"{media}.layer.v1.tar",
                    "digest": f"sha256:{digest}",
                    "size": size,
                }
            ],
        },
    )
    entry = {
        "mediaType": f"{media}.manifest.v1+json",
        **whole,
        "annotations": {"io.containerd.image.name": image.name},
        "platform": described,
    }
    (place / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    (place / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [entry]}))
    with tarfile.open(place / "image.tar", "w") as tar:
        for name in ("oci-layout", "index.json", "blobs"):
            tar.add(place / name, name)
            shutil.rmtree(place / name) if name == "blobs" else (place / name).unlink()


def _blob(blobs: Path, content: dict[str, object]) -> dict[str, object]:
    data = json.dumps(content).encode()
    digest = hashlib.sha256(data).hexdigest()
    (blobs / digest).write_bytes(data)
    return {"digest": f"sha256:{digest}", "size": len(data)}


def _write_layer(image: Image, path: Path) -> None:
    with tarfile.open(path, "w") as tar:
        for name in sorted({str(above) for each in image.files for above in Path(each).parents}):
            if name != ".":
                _add(tar, name, None)
        for link in ("bin", "sbin", "lib", "lib64") if "usr/bin/sh" in image.files else ():
            entry = tarfile.TarInfo(link)
            entry.type, entry.linkname = tarfile.SYMTYPE, f"usr/{'bin' if 'bin' in link else link}"
            tar.addfile(entry)
        for name, source in sorted(image.files.items()):
            _add(tar, name, source)


def _add(tar: tarfile.TarFile, name: str, source: Path | str | None) -> None:
    entry = tarfile.TarInfo(name)
    entry.mode = 0o755
    if source is None:
        entry.type = tarfile.DIRTYPE
        entry.mode = 0o1777 if name == "tmp" else 0o755
        tar.addfile(entry)
        return
    content = (
        source.encode() if isinstance(source, str) else Path(os.path.realpath(source)).read_bytes()
    )
    entry.mode = 0o644 if isinstance(source, str) else 0o755
    entry.size = len(content)
    tar.addfile(entry, io.BytesIO(content))
