# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A rehearsal that is asked to end takes its processes with it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.conftest import SPEC

ROOT = Path(__file__).parents[3]


def test_a_terminated_rehearsal_ends_its_training(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(SPEC)
    worker = tmp_path / "worker"
    # In place of torchrun: tells its process and waits.
    worker.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 100\n")
    worker.chmod(0o755)
    process = subprocess.Popen(
        [sys.executable, "-m", "seatrial", "rehearse", "run.yaml", "--drill", "train"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "SEATRIAL_WORKER_PYTHON": str(worker)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    told = tmp_path / "pid"
    until = time.monotonic() + 60
    while not (told.exists() and told.read_text().strip()) and time.monotonic() < until:
        time.sleep(0.05)
    training = int(told.read_text())
    assert Path(f"/proc/{training}").exists()
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 143
    assert "Traceback" not in said
    assert not Path(f"/proc/{training}").exists()
