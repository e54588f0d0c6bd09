# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The real nvidia-ml-py reads a stand-in for the driver's library: two made-up GPUs.

No GPU is involved: this shows that our calls have the package's names, arguments and units.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from seatrial.engine_process.package_path import python_path
from seatrial.engine_process.process import worker_python
from seatrial.engines.registry import ENGINES
from seatrial.spec.engine import DEFAULT_ENGINE

PROGRAM = """\
import json
from dataclasses import asdict
from seatrial.monitoring.node_measurements import NodeMeasurement
from seatrial.worker.node.measure import add_gpus
from seatrial.worker.node.nvml import open_nvml

nvml = open_nvml()
nvml.watch_xids()
print(json.dumps({
    "gpus": [asdict(nvml.read(index)) for index in range(nvml.count)],
    "xids": [nvml.new_xids(index) for index in (0, 1, 1)],
    "node": add_gpus(NodeMeasurement("ip-1"), nvml, b"").to_dict(),
}))
"""


def has_package() -> bool:
    words = [worker_python(ENGINES[DEFAULT_ENGINE]), "-c", "import pynvml"]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


@pytest.mark.engine
@pytest.mark.skipif(shutil.which("cc") is None, reason="builds the stand-in library")
def test_the_package_reads_made_up_gpus(tmp_path: Path) -> None:
    if not has_package():
        pytest.skip("the worker's environment has no nvidia-ml-py")
    source = Path(__file__).with_name("nvml_stand_in.c")
    library = tmp_path / "libnvidia-ml.so.1"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    done = subprocess.run(
        [worker_python(ENGINES[DEFAULT_ENGINE]), "-c", PROGRAM],
        env={**os.environ, "PYTHONPATH": python_path(), "LD_LIBRARY_PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    healthy, faulty = found["gpus"]
    assert healthy == {
        "utilisation": 0.97,
        "memory_bytes": float(60 << 30),
        "power_watts": 650.0,
        "clock_mhz": 1755,
        "temperature": 64,
        "throttle": 0,
        "ecc_errors": None,
        "needs_reset": False,
    }
    assert (faulty["throttle"], faulty["ecc_errors"], faulty["needs_reset"]) == (0x40, 2, True)
    assert found["xids"] == [[], [79], []]
    assert found["node"] == {
        "node": "ip-1",
        "clock_mhz": 1200.0,
        "driver": "580.82.07",
        "ecc_errors": 2,
        "needs_reset": True,
    }
