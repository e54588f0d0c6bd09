# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""GPUs and packages that a run on this host needs, with a stand-in for NVIDIA's driver."""

import os
import sys
from pathlib import Path

import pytest

from seatrial.checks.probes.host import look_at_host
from seatrial.checks.rules.host import host_findings
from seatrial.codes.runs import RunCode
from seatrial.errors import FindingsError
from seatrial.rendering.rules import unnamed_place
from tests.conftest import MEGATRON
from tests.unit.runs.test_local import launched, on_host

SMI = """#!/bin/sh
for _ in $(seq {gpus}); do echo NVIDIA A100-SXM4-80GB; done
"""


def with_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpus: int) -> None:
    """Put a driver with this number of GPUs on the path."""
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir(exist_ok=True)
    (bin_folder / "nvidia-smi").write_text(SMI.format(gpus=gpus))
    (bin_folder / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_folder}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.parametrize(
    ("gpus", "rule"),
    [
        (0, r"needs 4 × a100-80gb, but no GPU was found.*cluster\.accelerator=none"),
        (2, r"only 2 of them were found.*cluster\.processes_per_node=2"),
        (4, r"need Transformer Engine, which .* does not have.*cluster\.container=docker"),
    ],
)
def test_a_run_for_gpus_is_refused_where_they_or_their_layers_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpus: int, rule: str
) -> None:
    with_gpus(tmp_path, monkeypatch, gpus)
    monkeypatch.setenv(MEGATRON.installation.variable, sys.executable)
    with pytest.raises(FindingsError, match=rule) as refused:
        launched(tmp_path, "cluster.accelerator=a100-80gb")
    assert [finding.code for finding in refused.value.findings] == [RunCode.NO_GPU]
    assert not (tmp_path / ".seatrial").exists()


def test_local_layers_need_no_transformer_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_gpus(tmp_path, monkeypatch, 4)
    plan = on_host(
        tmp_path, "cluster.accelerator=a100-80gb", "engine.options.transformer-impl=local"
    )
    monkeypatch.setenv(MEGATRON.installation.variable, sys.executable)
    assert host_findings(plan, unnamed_place, look_at_host(plan)) == []
