# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What a command loads: nothing that it does not need."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import seatrial

HEAVY = ("torch", "kubernetes", "megatron", "composer")


def with_stubs(directory: Path) -> dict[str, str]:
    """An environment in which the heavy packages can be imported, so that an import is seen."""
    for name in HEAVY:
        package = directory / "stubs" / name
        package.mkdir(parents=True, exist_ok=True)
        (package / "__init__.py").touch()
    return os.environ | {"PYTHONPATH": f"{directory / 'stubs'}:{os.environ['PYTHONPATH']}"}


def loaded_by(*arguments: str, cwd: Path) -> set[str]:
    """The top-level packages and own modules that a command imports."""
    script = (
        "import sys, atexit\n"
        f"sys.argv = ['seatrial', *{list(arguments)!r}]\n"
        "from seatrial.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        "print('MODULES', *sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        cwd=cwd,
        env=with_stubs(cwd),
    )
    return set(done.stdout.rsplit("MODULES", 1)[1].split())


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("--version",),
        ("validate", "run.yaml"),
        ("plan", "run.yaml"),
        ("check", "run.yaml"),
        ("explain", "ST-BATCH-002"),
        ("schema",),
        ("recipes", "list"),
        ("catalog", "list"),
        ("catalog", "list", "models"),
        ("catalog", "check"),
        ("init", "new.yaml"),
    ],
    ids=" ".join,
)
def test_no_command_loads_an_engine_or_a_cluster_client(
    spec_file: Path, arguments: tuple[str, ...]
) -> None:
    assert not loaded_by(*arguments, cwd=spec_file.parent) & set(HEAVY)


def test_an_import_of_an_engine_would_be_seen(tmp_path: Path) -> None:
    script = f"import sys, {', '.join(HEAVY)}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env=with_stubs(tmp_path),
    )
    assert set(HEAVY) <= set(done.stdout.split())


def test_help_loads_neither_the_spec_nor_tables(tmp_path: Path) -> None:
    modules = loaded_by("--help", cwd=tmp_path)
    assert not modules & {"pydantic", "ruamel.yaml", "rich", "seatrial.spec", "seatrial.catalog"}


def test_validate_loads_no_tables_and_no_starter(spec_file: Path) -> None:
    modules = loaded_by("validate", "run.yaml", cwd=spec_file.parent)
    assert not modules & {"rich", "seatrial.reports.tables", "seatrial.recipes.starter"}
    planner = ("seatrial.planning.search", "seatrial.planning.memory", "seatrial.planning.timing")
    assert not [module for module in modules if module.startswith((*planner, "seatrial.runs"))]


def test_import_seatrial_loads_nothing_else() -> None:
    script = "import sys, seatrial; print(*[m for m in sys.modules if m.startswith('seatrial')])"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert set(done.stdout.split()) == {"seatrial", "seatrial.version"}


def test_every_name_of_the_sdk_is_there() -> None:
    for name in seatrial.__all__:
        assert getattr(seatrial, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'frobnicate'"):
        _ = seatrial.frobnicate


def test_dir_lists_the_names_of_the_sdk() -> None:
    assert set(seatrial.__all__) <= set(dir(seatrial))
    assert "import_module" not in dir(seatrial)
