# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial engines`: what is there, what a run tells its engine, and environments that count."""

import json
import os
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from seatrial.cli.main import app
from seatrial.engine_process import environments
from seatrial.engine_process.environments import (
    WHOLE,
    check,
    environment,
    install,
    installed_python,
)
from seatrial.engine_process.process import worker_python
from seatrial.engines.registry import ENGINES
from seatrial.errors import MissingExtraError, UsageError
from seatrial.recipes.shipped import recipe

FOUNDRY = ENGINES["llm-foundry"]


@pytest.fixture(autouse=True)
def _no_engines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEATRIAL_ENGINES", str(tmp_path / "engines"))
    for engine in ENGINES.values():
        monkeypatch.delenv(engine.installation.variable, raising=False)


def fake_environment(monkeypatch: pytest.MonkeyPatch, said: str, code: int = 0) -> list[list[str]]:
    """An environment whose Python says something when it is asked what is inside."""
    commands: list[list[str]] = []

    def run(words: list[str], failed: str) -> None:
        commands.append(words)
        if words[1:3] == ["-m", "venv"]:
            python = Path(words[3]) / "bin" / "python"
            python.parent.mkdir(parents=True)
            python.write_text(f"#!/bin/sh\necho '{said}'\nexit {code}\n")
            python.chmod(0o755)

    monkeypatch.setattr(environments, "_run", run)
    return commands


def invoke(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["engines", *words])
    return result.exit_code, result.output


def test_engines_are_listed_with_where_they_are() -> None:
    code, said = invoke("list")
    assert code == 0
    assert "llm-foundry  0.22.0   not installed: seatrial engines install llm-foundry" in said


def test_an_engine_is_installed_by_its_hashes_and_then_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = json.dumps({"engine": FOUNDRY.version, "torch": "2.7.0"})
    commands = fake_environment(monkeypatch, found)
    assert installed_python(FOUNDRY) == ""
    assert install(FOUNDRY, lambda _: None) == {"engine": "0.22.0", "torch": "2.7.0"}
    assert "--require-hashes" in commands[1]
    assert worker_python(FOUNDRY) == str(environment(FOUNDRY) / "bin" / "python")
    # Twice does nothing.
    install(FOUNDRY, lambda _: None)
    assert len(commands) == 2


def test_an_environment_that_was_not_checked_does_not_count() -> None:
    place = environment(FOUNDRY)
    (place / "bin").mkdir(parents=True)
    (place / "bin" / "python").symlink_to(sys.executable)
    assert installed_python(FOUNDRY) == ""
    with pytest.raises(MissingExtraError, match="seatrial engines install llm-foundry"):
        worker_python(FOUNDRY)


@pytest.mark.parametrize(
    ("said", "code", "message"),
    [
        ('{"engine": "0.18.0", "torch": "2.6.0"}', 0, "has LLM Foundry 0.18.0"),
        ("", 1, "cannot be imported"),
    ],
)
def test_a_wrong_environment_is_refused(
    monkeypatch: pytest.MonkeyPatch, said: str, code: int, message: str
) -> None:
    fake_environment(monkeypatch, said, code)
    with pytest.raises(UsageError, match=message):
        install(FOUNDRY, lambda _: None)
    assert not (environment(FOUNDRY) / WHOLE).exists()


def test_megatron_comes_with_the_extra() -> None:
    result = CliRunner().invoke(app, ["engines", "install", "megatron"])
    assert isinstance(result.exception, UsageError)
    assert "pip install '.[worker]'" in str(result.exception)


def test_the_check_really_imports(tmp_path: Path) -> None:
    place = tmp_path / "real"
    (place / "bin").mkdir(parents=True)
    (place / "bin" / "python").symlink_to(sys.executable)
    with pytest.raises(UsageError, match="cannot be imported"):
        check(FOUNDRY, place)


@pytest.mark.parametrize(
    ("name", "first"),
    [("aks-mpt-125m", "max_seq_len: 2048"), ("aks-gpt3-375m-quick-test", "--num-layers 12")],
)
def test_settings_are_in_the_engines_own_form(name: str, first: str) -> None:
    code, said = invoke("settings", str(recipe(name).path))
    assert code == 0
    assert said.startswith(first)
    code, said = invoke("settings", str(recipe(name).path), "--json")
    assert isinstance(json.loads(said), dict)


def test_the_home_of_environments_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEATRIAL_ENGINES", "/somewhere")
    assert str(environment(FOUNDRY)).startswith("/somewhere/llm-foundry-")
    monkeypatch.delenv("SEATRIAL_ENGINES")
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert os.fspath(environment(FOUNDRY)).startswith("/data/seatrial/engines/llm-foundry-")
