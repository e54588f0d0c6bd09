# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The worker waits as long for another node's files as its storage may take to show them."""

import ast
import os
import subprocess
from pathlib import Path

import pytest

from seatrial.engine_process.process import worker_python
from seatrial.engines.megatron.checkpoint_names import NAMING
from tests.conftest import MEGATRON
from tests.unit.checkpoints.made import make_checkpoint

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
SCRIPT = """
import sys
from pathlib import Path
import torch.distributed as dist
from seatrial.checkpoints.verification import read_record
from seatrial.storage.location import LocalPlace
from seatrial.worker.checkpointing.select_checkpoint import _share_of
from seatrial.worker.node.all_reduce import sharing_findings
from tests.late_files import LateFiles
root, name = sys.argv[1:3]
place = LocalPlace(root)
wanted, _ = read_record(place, name)
dist.init_process_group("gloo", init_method=f"file://{root}/store", rank=0, world_size=1)
late = LateFiles(lambda file: file == "seatrial-record.json" or file.startswith(".meeting-"), 1.0)
late.install(setattr)
print([[str(f.code) for f in _share_of(place, name, wanted)],
       [str(f.code) for f in sharing_findings(Path(root))], late.denied > 0])
"""


@pytest.mark.parametrize(("seconds", "is_seen"), [("20", True), ("0", False)])
def test_files_that_show_late(tmp_path: Path, seconds: str, is_seen: bool) -> None:
    make_checkpoint(tmp_path, 10)
    done = subprocess.run(
        [worker_python(MEGATRON), "-c", SCRIPT, str(tmp_path), NAMING.directory_name(10)],
        env=os.environ
        | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "SEATRIAL_VISIBLE_AFTER_SECONDS": seconds},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    record, probe, was_denied = ast.literal_eval(done.stdout.strip().splitlines()[-1])
    assert was_denied
    assert (record == [], probe == []) == (is_seen, is_seen)
