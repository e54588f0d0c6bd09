# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SKIPPED = {
    "test": "import pytest\ndef test_a(): pytest.skip('no program')\n",
    "module": "import pytest\npytest.importorskip('no_such_package')\n",
}


@pytest.mark.parametrize(("ci", "code"), [("true", 1), ("", 0)])
@pytest.mark.parametrize("how", SKIPPED)
def test_a_skipped_test_fails_in_ci_alone(tmp_path: Path, how: str, ci: str, code: int) -> None:
    file = tmp_path / "test_it.py"
    file.write_text(f"{SKIPPED[how]}def test_b(): pass\n")
    (tmp_path / "test_good.py").write_text("def test_b(): pass\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", str(tmp_path)]
    environment = {**os.environ, "CI": ci, "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stdout
