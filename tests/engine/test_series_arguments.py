# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The engine's own validation of a model of each series, in the layout that was planned."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from seatrial.cli.rehearse import app
from tests.unit.catalog.test_series import SERIES, planned

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.mark.parametrize("model", SERIES)
def test_the_engine_accepts_a_model_of_each_series(tmp_path: Path, model: str) -> None:
    file = planned(tmp_path, model, SERIES[model])
    done = CliRunner().invoke(app, [str(file), "--arguments-only"])
    assert done.exit_code == 0, done.output
