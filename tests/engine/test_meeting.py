# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A fault between nodes that only one rank sees is still told, by real torch over gloo."""

import os
import subprocess
from pathlib import Path

import pytest

from seatrial.codes.preflight import PreflightCode
from seatrial.engine_process.package_path import python_path
from seatrial.engine_process.process import worker_python
from seatrial.worker.node.preflight import read_findings
from tests.conftest import MEGATRON
from tests.engine.test_pods import ENVIRONMENT

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]

CORRUPTING = """\
import os, sys
import torch.distributed as dist
from seatrial.worker.node import all_reduce

add_up, rounds = dist.all_reduce, [0]

def corrupted(numbers, **options):
    add_up(numbers, **options)
    rounds[0] += numbers.numel() == 1000
    if os.environ["RANK"] == "1" and numbers.numel() == 1000 and rounds[0] == 2:
        numbers[5] += 1

dist.all_reduce = corrupted
sys.exit(all_reduce.main(["--directory", sys.argv[1], "--elements", "1000"]))
"""


def test_a_wrong_sum_in_one_round_of_one_rank_is_told(tmp_path: Path) -> None:
    program = tmp_path / "corrupting.py"
    program.write_text(CORRUPTING)
    words = [
        *("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"),
        *("--max-restarts=0", str(program), str(tmp_path)),
    ]
    done = subprocess.run(
        [worker_python(MEGATRON), *words],
        env={**os.environ, **ENVIRONMENT, "PYTHONPATH": python_path()},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    found = read_findings(done.stdout)
    assert {each.code for each in found} == {PreflightCode.SUM, PreflightCode.TOGETHER}, done.stderr
    wrong = next(each for each in found if each.code == PreflightCode.SUM)
    assert wrong.rule == "1 of 5000 sums over 2 ranks are not 3."
    assert done.returncode != 0
