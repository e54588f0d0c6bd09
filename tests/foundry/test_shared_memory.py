# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Attaching to shared memory that another rank has named, and not given its size yet."""

import os
import subprocess

import pytest

from seatrial.engine_process.package_path import python_path

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]

ATTACH = """
import _posixshmem, os, sys, threading, time
from streaming.base.shared import memory
from seatrial.worker.llm_foundry import training
if sys.argv[2] == "installed":
    training.install_shared_memory()
block = _posixshmem.shm_open("/" + sys.argv[1], os.O_CREAT | os.O_EXCL | os.O_RDWR, mode=0o600)
threading.Timer(1.0, os.ftruncate, (block, 64)).start()
try:
    # As the library does it for a name that is there.
    print(memory.BuiltinSharedMemory(sys.argv[1], False, 64).size)
finally:
    _posixshmem.shm_unlink("/" + sys.argv[1])
"""


@pytest.mark.parametrize("installed", ["installed", "not"])
def test_a_block_without_a_size_is_waited_for(installed: str, foundry_python: str) -> None:
    name = f"seatrial-{os.getpid()}-{installed}"
    done = subprocess.run(
        [foundry_python, "-c", ATTACH, name, installed],
        env=os.environ | {"PYTHONPATH": python_path()},
        capture_output=True,
        text=True,
        check=False,
    )
    if installed == "installed":
        assert done.stdout.strip().endswith("64"), done.stderr
    else:
        # What it is for: when the library itself waits, ours can go.
        assert "cannot mmap an empty file" in done.stderr
