# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Stubs for libraries: what needs them loads, and a call of one ends the process."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.build_image_stubs import read_library, stubs_for, system_libraries, write_stub

pytestmark = pytest.mark.skipif(
    not (shutil.which("gcc") and shutil.which("readelf")), reason="needs gcc and readelf"
)
USER = """int cuthing_run(void); int ncclSay(void);
int user(void) { return cuthing_run() + ncclSay(); }
"""


def compiled(directory: Path, name: str, source: str, *words: str) -> Path:
    file = directory / f"{name}.c"
    file.write_text(source)
    out = directory / name
    flags = ["-shared", "-fPIC", f"-Wl,-soname,{name}", "-Wl,-rpath,$ORIGIN"]
    subprocess.run(["gcc", *flags, "-o", out, file, *words], check=True)
    return out


@pytest.fixture
def user(tmp_path: Path) -> Path:
    """A library that needs one with versions and one without, both of which are gone."""
    script = tmp_path / "versions"
    script.write_text("libcuthing.so.13 { global: cuthing_run; local: *; };\n")
    first = compiled(
        tmp_path, "libcuthing.so.13", "int cuthing_run(void) { return 1; }\n",
        f"-Wl,--version-script,{script}",
    )  # fmt: skip
    second = compiled(tmp_path, "libnccl.so.2", "int ncclSay(void) { return 2; }\n")
    path = compiled(tmp_path, "libuser.so", USER, str(first), str(second))
    first.unlink()
    second.unlink()
    return path


def load(path: Path, call: str = "") -> subprocess.CompletedProcess[str]:
    # As Python loads its extensions: every symbol is looked for at once.
    script = f"import ctypes, os; user = ctypes.CDLL({str(path)!r}, mode=os.RTLD_NOW); {call}"
    return subprocess.run([sys.executable, "-c", script], text=True, capture_output=True)


def test_without_its_libraries_it_does_not_load(user: Path) -> None:
    done = load(user)
    assert done.returncode == 1
    assert "libcuthing.so.13" in done.stderr


def test_stubs_let_it_load_and_say_what_was_called(user: Path) -> None:
    stubs = stubs_for([read_library(user)], system_libraries())
    assert stubs == {
        "libcuthing.so.13": {"libcuthing.so.13": {"cuthing_run"}},
        "libnccl.so.2": {"": {"ncclSay"}},
    }
    for soname, symbols in stubs.items():
        write_stub(soname, symbols, user.parent)
    loaded = load(user)
    assert (loaded.returncode, loaded.stderr) == (0, "")
    called = load(user, "user.user()")
    assert called.returncode < 0
    assert "this image is for processors" in called.stderr
