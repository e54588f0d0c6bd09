# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Specs of an older format; there is none yet, so the tests make one up."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from seatrial.cli.spec import app
from seatrial.errors import FindingsError
from seatrial.spec.loader import load, loads
from seatrial.spec.run import API_VERSION
from seatrial.spec.upgrade import CONVERSIONS, Conversion, upgraded
from tests.conftest import SPEC
from tests.unit.cli.test_commands import seatrial

OLDEST, OLDER = "seatrial.dev/v0", "seatrial.dev/v1alpha0"
OLD = (
    SPEC.replace(API_VERSION, OLDEST)
    .replace("  steps: 1000", "  # three days\n  length: 1000  # steps")
    .replace("checkpoints: {every_steps", "saving: {every_steps")
)


@pytest.fixture
def older_formats(monkeypatch: pytest.MonkeyPatch) -> None:
    first = Conversion(OLDER, (("training.length", "count"), ("model.absent", "other")))
    second = Conversion(API_VERSION, (("training.count", "steps"), ("saving", "checkpoints")))
    monkeypatch.setitem(CONVERSIONS, OLDEST, first)
    monkeypatch.setitem(CONVERSIONS, OLDER, second)


@pytest.mark.usefixtures("older_formats")
def test_an_older_file_works_as_it_is() -> None:
    assert loads(OLD, "run.yaml").spec == loads(SPEC, "run.yaml").spec


@pytest.mark.usefixtures("older_formats")
def test_the_text_is_converted_with_its_comments(tmp_path: Path) -> None:
    text, changes = upgraded(OLD, OLDEST)
    assert "  # three days\n  steps: 1000   # steps\n" in text
    assert loads(text, "run.yaml").spec == loads(SPEC, "run.yaml").spec
    assert changes == (
        "renamed training.length to count",
        f"changed apiVersion from {OLDEST} to {OLDER}",
        "renamed training.count to steps",
        "renamed saving to checkpoints",
        f"changed apiVersion from {OLDER} to {API_VERSION}",
    )
    file = tmp_path / "run.yaml"
    file.write_text(OLD)
    said = CliRunner().invoke(app, ["upgrade", str(file)])
    assert "renamed training.length to count" in said.stdout
    assert file.read_text() == OLD
    assert CliRunner().invoke(app, ["upgrade", str(file), "--write"]).exit_code == 0
    assert load(file).spec.api_version == API_VERSION


def test_the_newest_format_stays_as_it_is(spec_file: Path) -> None:
    done = seatrial("spec", "upgrade", "run.yaml", cwd=spec_file.parent)
    assert done.stdout == (
        f"run.yaml already has the current format, {API_VERSION}.\n"
        "next  seatrial validate run.yaml\n"
    )
    assert spec_file.read_text() == SPEC


def test_an_unknown_format_is_refused(spec_file: Path) -> None:
    spec_file.write_text(OLD)
    done = seatrial("spec", "upgrade", "run.yaml", cwd=spec_file.parent, code=1)
    assert f"this version of Seatrial supports {API_VERSION}" in done.stdout + done.stderr
    with pytest.raises(FindingsError):
        load(spec_file)
