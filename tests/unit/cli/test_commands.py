# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The commands as a user calls them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import SPEC


def seatrial(*arguments: str, cwd: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Call the command; its exit code must be the expected one, and no traceback may show."""
    done = subprocess.run(
        [sys.executable, "-m", "seatrial", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    return done


def test_validate_shows_what_a_spec_resolves_to(spec_file: Path) -> None:
    done = seatrial("validate", "run.yaml", cwd=spec_file.parent)
    assert done.stdout.splitlines()[:2] == [
        "run.yaml is valid: slim-7b",
        "  model     gpt3-7.5b, 7.47 B parameters, sequence 2,048",
    ]
    assert "1,024 sequences = 4 micro × 64 × dp 4, 2.1 M tokens a step" in done.stdout


def test_validate_reports_findings_and_exits_with_1(spec_file: Path) -> None:
    done = seatrial(
        "validate", "run.yaml", "training.global_batch_size=1000", cwd=spec_file.parent, code=1
    )
    assert done.stdout == ""
    assert done.stderr == (
        "error   ST-BATCH-002   override training.global_batch_size\n"
        "        1000 sequences cannot be split evenly: micro batch 4 × dp 4 = 16.\n"
        "        Use 992 or 1008.\n"
        "\n"
        "1 error\n"
    )


def test_validate_speaks_json(spec_file: Path) -> None:
    good = json.loads(seatrial("validate", "run.yaml", "--json", cwd=spec_file.parent).stdout)
    assert good["valid"] is True
    assert good["plan"]["layout"]["dp_size"] == 4
    assert good["plan_digest"].startswith("sha256:")
    spec_file.write_text(SPEC.replace("tp_size: 4", "tp_size: 3"))
    bad = json.loads(
        seatrial("validate", "run.yaml", "--json", cwd=spec_file.parent, code=1).stdout
    )
    assert bad["valid"] is False
    places = {finding["where"]["line"] for finding in bad["findings"]}
    assert 10 in places


def test_auto_is_noted_and_valid(spec_file: Path) -> None:
    done = seatrial("validate", "run.yaml", "parallelism.tp_size=auto", cwd=spec_file.parent)
    assert "note    ST-PLAN-001" in done.stdout
    assert "run.yaml is valid: slim-7b" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("validate", "absent.yaml"), "there is no such file"),
        (("validate",), "Missing argument"),
        (("validate", "."), "this is a directory"),
        (("frobnicate",), "No such command"),
        (("catalog", "show", "models", "gpt9"), "There is no model 'gpt9' in the catalog."),
        (("catalog", "list", "model"), "Did you mean models?"),
        (("plan", "run.yaml"), "the command plan is not part of version"),
        (("recipes", "show", "nope"), "There is no recipe 'nope'."),
        (("init", "--model", "gpt9"), "There is no model 'gpt9' in the catalog."),
        (("init", "-i"), "--interactive needs a terminal."),
        (("init", "missing/run.yaml"), "cannot be written: No such file or directory."),
    ],
)
def test_what_cannot_be_exits_with_2(
    tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    done = seatrial(*arguments, cwd=tmp_path, code=2)
    assert message in " ".join(done.stderr.split())


def test_init_writes_a_spec_that_validates_and_does_not_replace_one(tmp_path: Path) -> None:
    done = seatrial("init", "--model", "llama3-8b", "--profile", "eks", cwd=tmp_path)
    assert done.stdout.endswith("next  seatrial validate run.yaml\n")
    seatrial("validate", "run.yaml", cwd=tmp_path)
    again = seatrial("init", cwd=tmp_path, code=2)
    assert "run.yaml exists. Choose another name, or replace it by --force." in again.stderr
    seatrial("init", "--force", cwd=tmp_path)


def test_init_refuses_a_bad_flag_with_the_fields_own_message(tmp_path: Path) -> None:
    done = seatrial("init", "--tokens", "many", cwd=tmp_path, code=1)
    assert "--tokens" in done.stderr
    assert "150B" in done.stderr
    assert not (tmp_path / "run.yaml").exists()


def test_recipes_are_listed_shown_and_copied(tmp_path: Path) -> None:
    names = [
        r["name"] for r in json.loads(seatrial("recipes", "list", "--json", cwd=tmp_path).stdout)
    ]
    shown = seatrial("recipes", "show", names[0], cwd=tmp_path).stdout
    seatrial("recipes", "copy", names[0], "mine.yaml", cwd=tmp_path)
    assert (tmp_path / "mine.yaml").read_text() == shown
    seatrial("validate", "mine.yaml", cwd=tmp_path)


@pytest.mark.parametrize(
    "kind", ["models", "accelerators", "node-types", "fabrics", "storage", "images", "profiles"]
)
def test_every_kind_is_listed_and_shown(tmp_path: Path, kind: str) -> None:
    rows = json.loads(seatrial("catalog", "list", kind, "--json", cwd=tmp_path).stdout)
    text = seatrial("catalog", "list", kind, cwd=tmp_path).stdout
    assert rows[0]["name"] in text
    entry = json.loads(
        seatrial("catalog", "show", kind, rows[0]["name"], "--json", cwd=tmp_path).stdout
    )
    shown = seatrial("catalog", "show", kind, rows[0]["name"], cwd=tmp_path).stdout
    assert entry["title"] in shown
    assert entry["source"] in shown


def test_the_schema_is_json(tmp_path: Path) -> None:
    schema = json.loads(seatrial("schema", cwd=tmp_path).stdout)
    assert schema["properties"]["training"]["description"] == "How it is trained."
    seatrial("schema", "-o", "schema.json", cwd=tmp_path)
    assert json.loads((tmp_path / "schema.json").read_text()) == schema


def test_help_names_every_command_with_its_own_summary(tmp_path: Path) -> None:
    whole = " ".join(seatrial("--help", cwd=tmp_path).stdout.split())
    for command in ("init", "validate", "schema", "catalog", "recipes"):
        assert command in whole
        own = seatrial(command, "--help", cwd=tmp_path).stdout
        assert own.startswith(f"Usage: seatrial {command}")


def test_completion_can_be_shown(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "seatrial"],
        env={
            "_SEATRIAL_COMPLETE": "complete_bash",
            "COMP_WORDS": "seatrial cat",
            "COMP_CWORD": "1",
            "PYTHONPATH": os.environ["PYTHONPATH"],
            "PATH": "",
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["catalog"], done.stderr


def test_a_defect_ends_in_a_file_and_code_70(tmp_path: Path) -> None:
    script = (
        "import seatrial.cli.output, sys\n"
        "import seatrial.recipes.shipped as shipped\n"
        "def boom(): raise RuntimeError('boom')\n"
        "shipped.recipe_names = boom\n"
        "sys.argv = ['seatrial', 'recipes', 'list']\n"
        "from seatrial.cli.main import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 70
    assert "Traceback" not in done.stderr
    file = Path(done.stderr.split("Please report it with ")[1].split(",")[0])
    assert "RuntimeError: boom" in file.read_text()
    file.unlink()
