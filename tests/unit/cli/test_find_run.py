# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A run that is named, and where it is looked for."""

from pathlib import Path

from tests.unit.cli.test_commands import seatrial


def test_without_a_kubeconfig_a_name_is_one_of_this_directory(tmp_path: Path) -> None:
    absent = str(tmp_path / "absent")
    done = seatrial("status", "nope", cwd=tmp_path, code=2, KUBECONFIG=absent)
    assert "no run nope was launched from this directory" in done.stderr
    assert "ST-CLUSTER-001" not in done.stderr
    # Who names a cluster wants to know what is wrong with it.
    asked = ("status", "nope", "--namespace", "research")
    assert "ST-CLUSTER-001" in seatrial(*asked, cwd=tmp_path, code=4, KUBECONFIG=absent).stderr
