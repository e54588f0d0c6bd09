# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The commands as a user calls them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from seatrial.catalog.catalog import Catalog
from seatrial.cli.interrupts import on_interrupt
from seatrial.spec.loader import loads
from tests.conftest import SPEC
from tests.unit.huggingface.published import PUBLISHED


def seatrial(
    *arguments: str, cwd: Path, code: int = 0, stdin: str = "", **variables: str
) -> subprocess.CompletedProcess[str]:
    """Call the command; its exit code must be the expected one, and no traceback may show."""
    done = subprocess.run(
        [sys.executable, "-m", "seatrial", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        input=stdin,
        check=False,
        env=os.environ | variables,
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
    assert "1,024 sequences = 4 micro × 64 × dp 4, 2.1 M tokens per step" in done.stdout
    assert "\n  image     " in done.stdout
    assert done.stdout.endswith(
        "\n  not checked  memory, time and cost; data; cluster\nnext  seatrial plan run.yaml\n"
    )


def test_validate_takes_several_files_and_standard_input(spec_file: Path) -> None:
    (spec_file.parent / "b=c.yaml").write_text(SPEC.replace("slim-7b", "other"))
    (spec_file.parent / "bad.yaml").write_text(SPEC.replace("tp_size: 4", "tp_size: 3"))
    both = seatrial("validate", "run.yaml", "b=c.yaml", "cluster.nodes=4", cwd=spec_file.parent)
    assert "run.yaml is valid: slim-7b" in both.stdout
    assert "b=c.yaml is valid: other" in both.stdout
    assert both.stdout.count("4 × p4d.24xlarge") == 2
    assert both.stdout.endswith("\nnext  seatrial plan b=c.yaml cluster.nodes=4\n")
    mixed = seatrial(
        "validate", "bad.yaml", "absent.yaml", "run.yaml", "--json", cwd=spec_file.parent, code=2
    )
    assert [(o["file"], o["valid"]) for o in json.loads(mixed.stdout)] == [
        ("bad.yaml", False),
        ("absent.yaml", False),
        ("run.yaml", True),
    ]
    piped = seatrial("validate", "-", cwd=spec_file.parent, stdin=SPEC)
    assert piped.stdout.startswith("- is valid: slim-7b")


def test_one_process_is_not_called_processes(tmp_path: Path) -> None:
    seatrial("init", "--processes-per-node", "1", cwd=tmp_path)
    seatrial("plan", "run.yaml", cwd=tmp_path)
    assert "= 1 process, " in seatrial("validate", "run.yaml", cwd=tmp_path).stdout


def test_validate_reports_findings_and_exits_with_1(spec_file: Path) -> None:
    done = seatrial(
        "validate", "run.yaml", "training.global_batch_size=1000", cwd=spec_file.parent, code=1
    )
    assert done.stdout == ""
    assert done.stderr == (
        "error   ST-BATCH-002     override training.global_batch_size\n"
        "        1000 sequences are not divisible by micro-batch 4 × dp 4 = 16.\n"
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


def test_validate_shows_what_the_planner_fills_in(spec_file: Path) -> None:
    done = seatrial("validate", "run.yaml", "parallelism.tp_size=auto", cwd=spec_file.parent)
    assert "run.yaml is valid: slim-7b" in done.stdout
    assert "layout    tp " in done.stdout
    assert "chosen by the planner; for the reasons: seatrial plan run.yaml" in done.stdout
    without = seatrial("validate", "run.yaml", cwd=spec_file.parent)
    assert "planner" not in without.stdout


def test_init_says_that_a_name_is_taken(tmp_path: Path) -> None:
    first = seatrial("init", cwd=tmp_path).stdout
    seatrial("plan", "run.yaml", cwd=tmp_path)
    taken = "This directory already has a run named stories-260k"
    assert taken not in first
    assert taken in seatrial("init", "two.yaml", cwd=tmp_path).stdout
    assert taken not in seatrial("init", "three.yaml", "--name", "three", cwd=tmp_path).stdout
    # What takes the place of a spec may be of the same run.
    assert taken not in seatrial("init", "--force", cwd=tmp_path).stdout


def test_init_reports_what_launch_would_reject(tmp_path: Path) -> None:
    gke = ("init", "--profile", "gke", "--node-type")
    large = ("--model", "gpt3-175b", "--profile", "eks")
    done = seatrial("init", *large, cwd=tmp_path)
    assert "seatrial launch would reject this run. Change run.yaml first:" in done.stdout
    assert "ST-PLAN-011" in done.stdout
    assert done.stdout.endswith("next  seatrial plan run.yaml\n")
    fine = seatrial(*gke, "a3-highgpu-8g", "--nodes", "2", "--force", cwd=tmp_path).stdout
    assert "reject" not in fine


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("validate", "absent.yaml"), "the file does not exist"),
        (("validate",), "Missing argument"),
        (("validate", "."), "the path is a directory"),
        (("validate", "cluster.nodes=2"), "no spec given"),
        (("frobnicate",), "No such command 'frobnicate'."),
        (("validat", "run.yaml"), "No such command 'validat'. Did you mean validate?"),
        (("catalog", "show", "models", "gpt9"), "There is no model 'gpt9' in the catalog."),
        (("catalog", "list", "model"), "Did you mean models?"),
        (
            ("rehearse", "run.yaml", "--drill", "exprt"),
            "'exprt' is not one of arguments, train, kill, reshard, evaluate, export, full-size. "
            "Did you mean export?",
        ),
        (("engines", "install", "foundry"), "'foundry' is not one of megatron, llm-foundry."),
        (("check", "absent.yaml"), "the file does not exist"),
        (("explain", "ST-BATCH-999"), "unknown code ST-BATCH-999."),
        (("plan", "absent.yaml"), "the file does not exist"),
        (("init", "--nodes", "x"), "'x' is not a whole number from 1"),
        (("init", "--nodes", "0"), "'0' is not a whole number from 1"),
        (("schema", "-o", "missing/schema.json"), "does not exist. Create it: mkdir -p"),
        (("recipes", "show", "nope"), "There is no recipe 'nope'."),
        (("init", "--model", "gpt9"), "There is no model 'gpt9' in the catalog."),
        (("init", "-i"), "--interactive needs a terminal."),
        (("init", "missing/run.yaml"), "does not exist. Create it: mkdir -p"),
    ],
)
def test_what_cannot_be_exits_with_2(
    tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    done = seatrial(*arguments, cwd=tmp_path, code=2)
    assert message in " ".join(done.stderr.split())


def test_init_writes_a_spec_that_validates_and_does_not_replace_one(tmp_path: Path) -> None:
    done = seatrial("init", "--model", "llama3-8b", "--profile", "eks", cwd=tmp_path)
    assert done.stdout.endswith("next  seatrial plan run.yaml\n")
    seatrial("validate", "run.yaml", cwd=tmp_path)
    machine = ("init", "--profile", "eks", "--node-type", "H100", "--force")
    assert (
        "Node types with this GPU: p5.48xlarge, " in seatrial(*machine, cwd=tmp_path, code=2).stderr
    )
    again = seatrial("init", cwd=tmp_path, code=2)
    assert "run.yaml exists. Choose a different name, or overwrite it with --force." in again.stderr
    seatrial("init", "--force", cwd=tmp_path)


@pytest.mark.parametrize("model", ["gemma-2-2b", "olmo-2-7b"])
def test_init_says_why_a_published_model_is_not_supported(tmp_path: Path, model: str) -> None:
    refused = seatrial("init", "--model", model, cwd=tmp_path, code=1)
    assert "their blocks have a norm after them" in " ".join(refused.stderr.split())


def test_init_looks_in_the_catalog_before_the_working_directory(tmp_path: Path) -> None:
    for name in ("llama3-8b", "mine", "gpt9"):
        (tmp_path / name).mkdir()
    for name in ("llama3-8b", "mine"):
        (tmp_path / name / "config.json").write_text(json.dumps(PUBLISHED["qwen3-0.6b"]))
    for model, written in (
        ("llama3-8b", "preset: llama3-8b"),
        ("./llama3-8b", "huggingface: ./llama3-8b"),
        ("mine", "huggingface: ./mine"),
    ):
        seatrial("init", "--force", "--model", model, cwd=tmp_path)
        assert written in (tmp_path / "run.yaml").read_text()
    refused = seatrial("init", "--force", "--model", "gpt9", cwd=tmp_path, code=2)
    assert "There is no model 'gpt9' in the catalog." in refused.stderr


@pytest.mark.parametrize("arguments", [("catalog", "show", "models", "gpt9"), ("frobnicate",)])
def test_errors_are_json_too_where_json_is_asked_for(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    plain = seatrial(*arguments, cwd=tmp_path, code=2)
    answer = json.loads(seatrial(*arguments, "--json", cwd=tmp_path, code=2).stdout)
    assert answer["error"] in plain.stderr
    assert answer["findings"] == []


def test_findings_of_a_catalog_are_json_too(tmp_path: Path) -> None:
    (tmp_path / "node_types.toml").write_text('["p4d.24xlarge"]\ngpu = 8\n')
    done = seatrial("catalog", "check", "--json", cwd=tmp_path, code=1, SEATRIAL_CATALOG=".")
    answer = json.loads(done.stdout)
    assert "p4d.24xlarge.gpu" in answer["error"]
    assert "p4d.24xlarge.gpu" in [finding["where"]["field"] for finding in answer["findings"]]


def test_the_shipped_catalog_has_no_findings(tmp_path: Path) -> None:
    home = str(tmp_path)
    done = seatrial("catalog", "check", cwd=tmp_path, SEATRIAL_CATALOG="", XDG_CONFIG_HOME=home)
    assert " entries, no findings.\n" in done.stdout


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--tokens", "many"),
        ("--tokens", "1 # 2"),
        ("--tokenizer", "hf://x # y"),
        ("--tokenizer", ""),
        ("--name", "a: b"),
        ("--name", ""),
        ("--data", ""),
        ("--data", "a\nname: b"),
    ],
)
def test_init_refuses_a_bad_flag_by_its_name(tmp_path: Path, flag: str, value: str) -> None:
    done = seatrial("init", flag, value, cwd=tmp_path, code=1)
    assert done.stderr.split("\n")[0].split()[2:] == [flag]
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
    assert all(key.islower() and key.isidentifier() for row in rows for key in row)
    entry = json.loads(
        seatrial("catalog", "show", kind, rows[0]["name"], "--json", cwd=tmp_path).stdout
    )
    shown = seatrial("catalog", "show", kind, rows[0]["name"], cwd=tmp_path).stdout
    assert entry["title"] in shown
    assert entry["source"] in " ".join(shown.split())
    assert rows[0] == {"name": rows[0]["name"]} | entry


def test_numbers_of_the_catalog_are_numbers_in_json(tmp_path: Path) -> None:
    rows = json.loads(seatrial("catalog", "list", "accelerators", "--json", cwd=tmp_path).stdout)
    (h100,) = [row for row in rows if row["name"] == "h100-80gb"]
    assert h100["memory_gb"] == 80
    assert h100["peak_tflops"]["fp4"] is None


@pytest.mark.parametrize("name", ["gpt3-7.5b", "qwen3-30b-a3b", "mpt-7b"])
def test_the_dimensions_that_show_prints_go_into_a_spec(
    spec_file: Path, name: str, catalog: Catalog
) -> None:
    shown = seatrial("catalog", "show", "models", name, cwd=spec_file.parent, COLUMNS="80").stdout
    dimensions = shown[shown.index("  dimensions:\n") :]
    spec = loads(SPEC.replace("model: {preset: gpt3-7.5b}", f"model:\n{dimensions}"), "f").spec
    assert spec.model.dimensions == catalog.model(name).architecture


def test_a_fabrics_variables_fit_80_columns(tmp_path: Path) -> None:
    shown = seatrial("catalog", "show", "fabrics", "efa", cwd=tmp_path, COLUMNS="80").stdout
    assert "\n    FI_PROVIDER = efa\n      Refuses libfabric's TCP provider" in shown
    assert "  rdma: true\n" in shown
    too_wide = [line for line in shown.splitlines() if len(line) > 80]
    # An address is one word, and stays whole.
    assert [line for line in too_wide if "https://" not in line] == []


def test_the_schema_is_json(tmp_path: Path) -> None:
    schema = json.loads(seatrial("schema", cwd=tmp_path).stdout)
    assert schema["properties"]["training"]["description"] == "How the model is trained."
    seatrial("schema", "-o", "schema.json", cwd=tmp_path)
    assert json.loads((tmp_path / "schema.json").read_text()) == schema
    again = seatrial("schema", "-o", "schema.json", cwd=tmp_path, code=2)
    assert "schema.json exists." in again.stderr


def test_help_names_every_command_with_its_own_summary(tmp_path: Path) -> None:
    whole = " ".join(seatrial("--help", cwd=tmp_path).stdout.split())
    assert whole.endswith("Examples: seatrial init seatrial plan run.yaml seatrial run run.yaml")
    for command in ("init", "validate", "plan", "schema", "catalog", "recipes"):
        assert command in whole
        own = seatrial(command, "--help", cwd=tmp_path).stdout
        assert own.startswith(f"Usage: seatrial {command}")


@pytest.mark.parametrize(("shell", "sign"), [("zsh", "#compdef seatrial"), ("fish", "complete ")])
def test_the_completion_of_a_named_shell_is_shown(tmp_path: Path, shell: str, sign: str) -> None:
    done = seatrial("--show-completion", shell, cwd=tmp_path, SHELL="/bin/bash")
    assert done.stdout.startswith(sign)


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
        "import seatrial.reports.terminal, sys\n"
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
    file = Path(done.stderr.split("Please report it and attach ")[1].split(",")[0])
    assert "RuntimeError: boom" in file.read_text()
    file.unlink()


@pytest.mark.parametrize("command", ["report", "status", "logs"])
def test_a_name_that_no_disk_can_have_is_no_defect(command: str, tmp_path: Path) -> None:
    done = seatrial(command, "a1B2" * 2_000, cwd=tmp_path, code=2)
    assert "File name too long" in done.stderr
    assert len(done.stderr) < 1_000


def test_an_interrupt_says_what_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended, on_interrupt("Finished tasks are kept."):
        raise KeyboardInterrupt
    assert ended.value.exit_code == 130
    assert capsys.readouterr().err == "\nStopped. Finished tasks are kept.\n"
