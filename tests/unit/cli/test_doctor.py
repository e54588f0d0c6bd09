# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What `seatrial doctor` finds."""

import json
import sys
import tomllib
from pathlib import Path

import pytest

from seatrial.cli.doctor import command
from seatrial.cli.main import COMMANDS
from seatrial.errors import MissingExtraError
from seatrial.sdk import doctor
from seatrial.sdk.doctor import NEEDED_FOR, SOURCES, Need, kubeconfig, needs, parts, second_engine
from tests.unit.cli.test_commands import seatrial

INSTALLED: dict[str, tuple[Need, ...]] = dict.fromkeys(NEEDED_FOR, ())


def test_every_extra_is_known_and_said_what_for() -> None:
    declared = tomllib.loads(SOURCES.read_text())["project"]["optional-dependencies"]
    assert set(NEEDED_FOR) == set(declared)
    assert Need("megatron-core", ("==0.19.2",)) in needs()["worker"]
    assert Need("ray", (">=2.60", "<3")) in needs()["ray"]


def test_an_installed_package_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    from_sources = needs()
    lines = [
        f"{requirement} ; extra == '{extra}'"
        for extra, requirements in doctor._declared().items()
        for requirement in requirements
    ]
    monkeypatch.setattr(doctor, "SOURCES", Path("nowhere"))
    monkeypatch.setattr(doctor, "requires", lambda _: ["rich>=15,<16", *lines])
    assert needs() == from_sources


def test_what_is_missing_or_of_another_version_is_named() -> None:
    needed = INSTALLED | {"data": (Need("pytest"), Need("No.Such_Package"))}
    needed |= {"report": (Need("pytest", ("==0.1",)),)}
    found = {part.extra: part for part in parts(needed)}
    assert found["data"].missing == ("No.Such_Package",)
    assert "but ==0.1 is required" in found["report"].other_versions[0]
    assert [extra for extra, part in found.items() if not part.is_ready] == ["data", "report"]


@pytest.mark.parametrize(
    ("bounds", "good", "bad"),
    [
        ((">=37", "<38"), ("37.0.0", "37.1", "37.2.0rc1"), ("1.0", "36.9.9", "38.0.0")),
        (("==2.13.0",), ("2.13.0", "2.13", "2.13.0+cpu"), ("2.13.1", "2.1")),
        ((">=2026.8",), ("2026.10.0", "2026.8"), ("2026.7.3",)),
        ((), ("0.1",), ()),
        ((">=1",), ("unknown",), ()),
    ],
)
def test_a_version_is_compared_with_every_bound(
    bounds: tuple[str, ...], good: tuple[str, ...], bad: tuple[str, ...]
) -> None:
    need = Need("a", bounds)
    assert [version for version in (*good, *bad) if need.takes(version)] == list(good)


def test_a_package_outside_of_its_bounds_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    class Old:
        name, version = "kubernetes", "1.0"

    monkeypatch.setattr(doctor, "distributions", lambda: [Old])
    found = {part.extra: part for part in parts(needs())}["cluster"]
    assert found.other_versions == ("kubernetes is 1.0, but >=37,<38 is required",)
    assert not found.is_ready


def test_bounds_are_read_in_either_order() -> None:
    # As hatchling writes them into a wheel.
    assert doctor._need("kubernetes<38,>=37").bounds == (">=37", "<38")


def test_the_worker_is_looked_for_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEATRIAL_WORKER_PYTHON", sys.executable)
    needed = INSTALLED | {"worker": (Need("pytest"), Need("absent"))}
    found = {part.extra: part for part in parts(needed)}
    assert (found["worker"].where, found["worker"].missing) == (sys.executable, ("absent",))
    monkeypatch.setenv("SEATRIAL_WORKER_PYTHON", "/bin/false")
    with pytest.raises(MissingExtraError, match="is not a working Python"):
        parts(INSTALLED)


def test_the_file_of_a_cluster_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "config"
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'absent'}:{file}")
    assert kubeconfig() is None
    file.touch()
    assert kubeconfig() == file


def test_the_command_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("SEATRIAL_WORKER_PYTHON", raising=False)
    said = seatrial("doctor", cwd=tmp_path).stdout
    assert "No kubeconfig found" in said
    assert "pip install '.[worker,wandb]'" in " ".join(said.split())
    assert "without a cluster (in a Seatrial checkout):\n  pip install '.[worker]'" in said
    assert "Missing for llm-foundry: llm-foundry." in said
    told = json.loads(seatrial("doctor", "--json", cwd=tmp_path).stdout)
    ready = {part["extra"]: part["is_ready"] for part in told["parts"]}
    assert ready["data"]
    assert not ready["worker"]
    assert not ready["llm-foundry"]
    assert "seatrial engines install llm-foundry" in said


def test_the_second_engine_is_looked_for_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SEATRIAL_LLM_FOUNDRY_PYTHON", raising=False)
    assert not second_engine().is_ready
    monkeypatch.setenv("SEATRIAL_LLM_FOUNDRY_PYTHON", sys.executable)
    found = second_engine()
    assert (found.is_ready, found.where) == (True, sys.executable)
    said = seatrial("doctor", cwd=tmp_path).stdout
    assert f"LLM Foundry uses {sys.executable}." in " ".join(said.split())


def test_named_commands_exist() -> None:
    words = " ".join(NEEDED_FOR.values()).replace(";", " ").replace(",", " ").split()
    assert {"data", "check", "launch", "status", "logs", "rehearse", "watch", "report"} <= set(
        words
    ) & set(COMMANDS)


def test_the_page_fits_80_columns_off_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    absent = tuple(Need(f"a-package-of-some-length-{i}") for i in range(16))
    monkeypatch.setattr(doctor, "needs", lambda: INSTALLED | {"data": absent})
    command()
    said = capsys.readouterr().out
    assert max(map(len, said.splitlines())) <= 80
    assert "16 packages missing" in said
    assert "Missing for data: a-package-of-some-length-0, " in said
    assert said.rstrip().endswith("next  seatrial init")


def said_with(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    worker: dict[str, str],
    gpus: tuple[str, ...] = (),
) -> str:
    """Return the page of a host whose worker has these packages."""
    monkeypatch.delenv("COLUMNS", raising=False)
    needed = (Need("torch"), Need("nvidia-ml-py"))
    monkeypatch.setattr(doctor, "needs", lambda: INSTALLED | {"worker": needed})
    monkeypatch.setattr(doctor, "_worker_packages", lambda _: (worker, ""))
    monkeypatch.setattr(doctor, "detected_gpus", lambda: list(gpus))
    command()
    return " ".join(capsys.readouterr().out.split())


def test_only_what_is_missing_is_named_and_its_command_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = said_with(monkeypatch, capsys, {"torch": "2.13.0"})
    assert "Missing for worker: nvidia-ml-py." in said
    assert "needs torch" not in said
    assert said.count("pip install '.[worker]'") == 1
    assert "The worker needs torch" not in said_with(
        monkeypatch, capsys, {"torch": "2.13.0", "nvidia-ml-py": "13"}
    )


def test_the_command_for_a_separate_environment_names_its_python(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "needs", lambda: INSTALLED | {"worker": (Need("torch"),)})
    monkeypatch.setattr(doctor, "_worker_packages", lambda _: ({}, "/w/bin/python"))
    command()
    said = " ".join(capsys.readouterr().out.split())
    assert said.count("pip install '.[worker]'") == 1
    assert "/w/bin/python -m pip install '.[worker]'" in said


def test_transformer_engine_is_listed_on_a_host_with_gpus(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = {"torch": "2.13.0", "nvidia-ml-py": "13"}
    gpus = ("NVIDIA H100 80GB HBM3",) * 2
    assert "Transformer Engine" not in said_with(monkeypatch, capsys, whole)
    said = said_with(monkeypatch, capsys, whole, gpus)
    assert "GPUs of this host: 2 × NVIDIA H100 80GB HBM3." in said
    assert "Transformer Engine is missing in the worker's environment." in said
    said = said_with(monkeypatch, capsys, whole | {"transformer-engine": "2.9"}, gpus)
    assert "The worker has Transformer Engine 2.9." in said
