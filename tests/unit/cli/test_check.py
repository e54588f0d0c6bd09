# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial check` and `seatrial explain` as a user calls them."""

import difflib
import json
import re
from codecs import BOM_UTF8
from pathlib import Path

import pytest
from typer.testing import CliRunner

from seatrial.catalog.catalog import default_catalog
from seatrial.cli.check import app
from seatrial.errors import MissingExtraError
from seatrial.sdk.check import check
from tests.unit.checkpoints.made import make_checkpoint
from tests.unit.checks.examples import BASE
from tests.unit.cli.test_commands import seatrial

CLEAN = BASE.replace("        - {prepared: /data/prepared/web_text_document}\n", "").replace(
    "  sources:\n  tokenizer: hf://gpt2\n", "  mock: true\n"
)
AS_INSTALLED = CLEAN
"""With the profile's image, and a volume of which nobody has said anything."""
CLEAN = CLEAN.replace(
    "profile: aks,",
    "profile: aks, image: example.com/worker:1, storage: {parameters: {zone: '2'}},",
)


OWN_IMAGE = """\
[worker-of-ours]
title = "Worker of a team"
source = "made up for tests"
reference = "example.com/worker:1"
engine = "megatron"
engine_included = true
brings_seatrial = true
fabrics = ["infiniband"]
"""


@pytest.fixture(autouse=True)
def _known_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the user's own catalog say what is in the image, as the finding about it advises."""
    directory = tmp_path / "catalog"
    directory.mkdir()
    (directory / "images.toml").write_text(OWN_IMAGE)
    monkeypatch.setenv("SEATRIAL_CATALOG", str(directory))
    default_catalog.cache_clear()


def spec(directory: Path, text: str = CLEAN) -> Path:
    file = directory / "run.yaml"
    file.write_text(text)
    return file


def test_a_run_that_nothing_speaks_against(tmp_path: Path) -> None:
    spec(tmp_path)
    done = seatrial("check", "run.yaml", cwd=tmp_path)
    assert done.stdout.startswith("No problems found: ")
    for reason in (
        "data not checked: --data",
        "no checkpoint on this host",
        "--cluster",
        "--engine",
    ):
        assert reason in " ".join(done.stdout.split())
    assert done.stdout.endswith("next  seatrial rehearse run.yaml\n")


def test_an_image_that_no_catalog_has_is_a_warning(tmp_path: Path) -> None:
    spec(tmp_path)
    other = "cluster.image=example.com/other:1"
    said = " ".join(seatrial("check", "run.yaml", other, cwd=tmp_path).stdout.split())
    assert "warning ST-RENDER-014" in said
    assert "example.com/other:1 is not in the catalog" in said
    assert "-c 'import seatrial, torch, megatron'" in said


def test_what_an_administrator_makes_is_told_before_the_cluster_is_asked(tmp_path: Path) -> None:
    spec(tmp_path, AS_INSTALLED)
    said = " ".join(seatrial("check", "run.yaml", cwd=tmp_path).stdout.split())
    assert "note ST-RENDER-013 run.yaml:16:1 cluster.image" in said
    assert "the ConfigMap seatrial-worker-lock in namespace default" in said
    assert "note ST-RENDER-006 run.yaml:16:1 cluster.storage.parameters" in said
    assert "a new storage class needs zone." in said
    assert "2 notes: " in said


def test_an_image_for_data_that_nobody_can_pull_is_told(tmp_path: Path) -> None:
    spec(tmp_path)
    raw = ("data.mock=null", "data.sources=[{from: s3://corpus/raw}]", "data.tokenizer=hf://gpt2")
    said = " ".join(seatrial("check", "run.yaml", *raw, cwd=tmp_path).stdout.split())
    assert "cluster.preparation.image the data image" in said
    assert "docker/worker-data.Dockerfile" in said
    assert "RayJob" not in said


def test_an_error_with_its_change(tmp_path: Path) -> None:
    spec(tmp_path)
    done = seatrial("check", "run.yaml", "training.global_batch_size=130", cwd=tmp_path, code=1)
    assert "error   ST-BATCH-002     override training.global_batch_size" in done.stdout
    assert "change: training.global_batch_size=128" in done.stdout
    assert "1 error: " in done.stdout


def test_a_warning_alone_ends_well(tmp_path: Path) -> None:
    spec(tmp_path)
    done = seatrial("check", "run.yaml", "cluster.image=example.com/a/b:main", cwd=tmp_path)
    assert "warning ST-IMAGE-001" in done.stdout
    assert "background: seatrial explain ST-IMAGE-001" in done.stdout


def test_fix_writes_the_changes_and_keeps_comments(tmp_path: Path) -> None:
    text = CLEAN.replace("global_batch_size: 128", "global_batch_sise: 128  # odd")
    file = spec(tmp_path, text)
    done = seatrial("check", "run.yaml", "--fix", cwd=tmp_path)
    fixed = CLEAN.replace("size: 128", "size: 128  # odd")
    assert file.read_text() == fixed
    old, new, name = text.splitlines(), fixed.splitlines(), "run.yaml"
    diff = difflib.unified_diff(old, new, name, name, n=1, lineterm="")
    assert done.stdout.startswith("\n".join(diff))
    assert "fixed   ST-SPEC-001      training.global_batch_sise=null" in done.stdout
    assert "Wrote run.yaml: 1 change; the run stays the same." in done.stdout


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", [b"", BOM_UTF8])
def test_fix_keeps_the_byte_order_mark_and_the_line_ends(
    tmp_path: Path, mark: bytes, end: str
) -> None:
    file, text = tmp_path / "run.yaml", CLEAN.replace("\n", end)
    file.write_bytes(mark + text.replace("tp_size: 4", "tp: 4").encode())
    done = seatrial("check", "run.yaml", "--fix", cwd=tmp_path)
    assert file.read_bytes() == mark + text.encode()
    assert len(re.findall(r"^[+-](?![+-])", done.stdout, re.MULTILINE)) == 2


def test_fix_takes_token_for_tokens_and_not_for_a_secret(tmp_path: Path) -> None:
    text = re.sub(r"steps: \d+\n", "tokens: 150B\n", CLEAN, count=1)
    file = spec(tmp_path, text.replace("tokens:", "token:"))
    done = seatrial("check", "run.yaml", "--fix", cwd=tmp_path)
    assert "revoke" not in done.stdout
    assert file.read_text() == text


def test_fix_says_so_where_it_changes_nothing(tmp_path: Path) -> None:
    text = CLEAN.replace("size: 128", "size: 130")
    file = spec(tmp_path, text)
    for again in range(2):
        done = seatrial("check", "run.yaml", "--fix", cwd=tmp_path, code=1)
        assert done.stdout.startswith("run.yaml is unchanged"), again
        assert "Wrote" not in done.stdout
        assert file.read_text() == text
    assert "This changes the global batch size" in done.stdout
    clean = spec(tmp_path)
    assert "run.yaml is unchanged" in seatrial("check", "run.yaml", "--fix", cwd=tmp_path).stdout
    assert clean.read_text() == CLEAN


@pytest.mark.parametrize("profile", ["gke", "aks", "eks"])
def test_fix_keeps_the_weights_that_a_run_continues_from(tmp_path: Path, profile: str) -> None:
    start, end = CLEAN.index("cluster:"), CLEAN.index("checkpoints:")
    text = CLEAN[:start] + f"cluster: {{profile: {profile}, nodes: 2}}\n" + CLEAN[end:]
    text = text.replace("gpt3-7.5b", "llama2-7b")
    file = spec(tmp_path, f"{text}initial_weights:\n  from: hf://meta-llama/Llama-2-7b-hf\n")
    shown = seatrial("check", "run.yaml", cwd=tmp_path, code=1).stdout
    assert "Did you mean initial_weights.huggingface?" in shown
    assert shown.count("error ") == 1
    seatrial("check", "run.yaml", "--fix", cwd=tmp_path)
    after = file.read_text()
    assert after == f"{text}initial_weights:\n  huggingface: hf://meta-llama/Llama-2-7b-hf\n"


def test_what_the_preview_shows_is_what_is_written(tmp_path: Path) -> None:
    text = CLEAN.replace("tp_size: 4", "tp: 4").replace("pp_size: 1", "pp_size: '1'")
    file = spec(tmp_path, text)
    preview = json.loads(seatrial("check", "run.yaml", "--json", cwd=tmp_path, code=1).stdout)
    written = json.loads(seatrial("check", "run.yaml", "--fix", "--json", cwd=tmp_path).stdout)
    assert preview["changes"] == []
    assert preview["diff"] == written["diff"] != ""
    offered = [each["overrides"] for each in preview["findings"] if each["repair"] == "same-run"]
    assert offered == [change["overrides"] for change in written["changes"]]
    assert file.read_text() == CLEAN


def test_a_diff_shows_no_secret(tmp_path: Path) -> None:
    secret = "hf_" + "a" * 34
    text = CLEAN.replace("tp_size: 4", "tp: 4").replace(
        "cluster: {", f"cluster: {{env: {{HF_TOKEN: {secret}}}, "
    )
    spec(tmp_path, text.replace("recompute: full}", f"recompute: full}} # {secret}"))
    done = seatrial("check", "run.yaml", "--fix", cwd=tmp_path, code=1)
    assert "+  {tp_size: 4" in done.stdout
    assert secret not in done.stdout + done.stderr


def test_fix_and_overrides_exclude_each_other(tmp_path: Path) -> None:
    file = spec(tmp_path)
    done = seatrial("check", "run.yaml", "cluster.nodes=4", "--fix", cwd=tmp_path, code=2)
    assert "overrides apply to this call only" in done.stderr
    assert file.read_text() == CLEAN


def test_json_has_findings_and_their_changes(tmp_path: Path) -> None:
    spec(tmp_path)
    arguments = ("check", "run.yaml", "training.global_batch_size=130", "--json")
    found = json.loads(seatrial(*arguments, cwd=tmp_path, code=1).stdout)
    assert found["findings"][0]["code"] == "ST-BATCH-002"
    assert found["findings"][0]["overrides"] == ["training.global_batch_size=128"]
    assert found["rules_run"] > 50


def test_data_are_looked_at_when_asked_for(tmp_path: Path) -> None:
    prefix = tmp_path / "web_text_document"
    local = "cluster: {profile: local, node_type: local, nodes: 1, processes_per_node: 4}\n"
    text = BASE.replace("/data/prepared/web_text_document", str(prefix))
    start, end = text.index("cluster:"), text.index("checkpoints:")
    spec(tmp_path, text[:start] + local + text[end:])
    done = seatrial("check", "run.yaml", "--data", cwd=tmp_path, code=1)
    assert "ST-DATASET-010" in done.stdout
    assert f"{prefix}.bin and {prefix}.idx do not exist." in done.stdout.replace("\n        ", " ")


def test_paths_that_are_not_on_this_host_are_told_without_looking_at_data(tmp_path: Path) -> None:
    places = ("--data", "./corpus", "--tokenizer", "./tokenizer.json")
    made = seatrial("init", *places, cwd=tmp_path)
    assert made.stdout.count("does not exist yet") == 2
    found = json.loads(seatrial("check", "run.yaml", "--json", cwd=tmp_path).stdout)["findings"]
    told = [(each["severity"], each["code"]) for each in found]
    assert told == [("warning", "ST-DATA-011"), ("warning", "ST-TOKENIZER-004")]
    (tmp_path / "corpus").mkdir()
    (tmp_path / "tokenizer.json").write_text("{}")
    assert "does not exist yet" not in seatrial("init", "--force", *places, cwd=tmp_path).stdout
    assert "No problems found" in seatrial("check", "run.yaml", cwd=tmp_path).stdout


def test_a_cluster_that_cannot_be_asked_is_told_after_what_is_known_without_it(
    tmp_path: Path,
) -> None:
    spec(tmp_path)
    high = "training.learning_rate.peak=0.6"
    asked = ("check", "run.yaml", high, "--kubeconfig", "nowhere.json")
    done = seatrial(*asked, cwd=tmp_path, code=4)
    assert "ST-CLUSTER-001" in done.stderr
    assert "warning ST-SCHEDULE-004" in done.stdout
    assert "cluster not reachable" in done.stdout
    assert "\n1 error, 1 warning: " in done.stdout
    assert "next  seatrial rehearse" not in done.stdout
    quiet = seatrial("check", "run.yaml", "--kubeconfig", "nowhere.json", cwd=tmp_path, code=4)
    assert quiet.stdout.startswith("No problems found so far: ")
    found = json.loads(seatrial(*asked, "--json", cwd=tmp_path, code=4).stdout)
    codes = [each["code"] for each in found["findings"]]
    assert codes == ["ST-SCHEDULE-004", "ST-CLUSTER-001"]


def test_what_is_not_installed_is_told_after_what_is_known_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = spec(tmp_path)
    for module in ("seatrial.runs.launch.connect", "seatrial.sdk.data"):
        monkeypatch.setattr(f"{module}.find_spec", lambda _: None)
    for option, extra in (("--cluster", "cluster"), ("--data", "data")):
        call = CliRunner().invoke(app, [str(file), "training.learning_rate.peak=0.6", option])
        assert isinstance(call.exception, MissingExtraError)
        assert f"'.[{extra}]'" in str(call.exception)
        assert "warning ST-SCHEDULE-004" in call.stdout
        assert "not installed" in call.stdout
        assert "next " not in call.stdout
    call = CliRunner().invoke(app, [str(file), "--data", "--json"])
    assert call.exit_code == MissingExtraError.exit_code
    assert "'.[data]'" in json.loads(call.stdout)["error"]


def test_a_run_without_objects_has_no_cluster_to_look_at(tmp_path: Path) -> None:
    local = "cluster: {profile: local, node_type: local, nodes: 1, processes_per_node: 8}\n"
    start, end = CLEAN.index("cluster:"), CLEAN.index("checkpoints:")
    spec(tmp_path, CLEAN[:start] + local + CLEAN[end:])
    done = seatrial("check", "run.yaml", "--cluster", cwd=tmp_path, code=2)
    assert "has no Kubernetes objects" in done.stderr


def on_host(folder: Path, cluster: str) -> None:
    start, end = CLEAN.index("cluster:"), CLEAN.index("checkpoints:")
    spec(folder, f"{CLEAN[:start]}cluster: {cluster}\n{CLEAN[end:]}")


@pytest.mark.parametrize("command", ["check", "plan", "launch"])
def test_several_nodes_of_one_host_are_refused_by_every_command(
    tmp_path: Path, command: str
) -> None:
    on_host(tmp_path, "{profile: local, nodes: 2, processes_per_node: 4, accelerator: none}")
    done = seatrial(command, "run.yaml", cwd=tmp_path, code=1)
    said = done.stdout + done.stderr
    assert "ST-RENDER-002" in said
    assert "runs torchrun on this host only" in said


def test_gpus_that_this_host_does_not_have_are_an_error_of_the_check_and_not_of_the_plan(
    tmp_path: Path,
) -> None:
    on_host(tmp_path, "{profile: local, processes_per_node: 8, accelerator: h100-80gb}")
    nowhere = str(tmp_path)
    done = seatrial("check", "run.yaml", cwd=tmp_path, code=1, PATH=nowhere)
    assert "ST-RUN-031" in done.stdout
    assert "but no GPU was found on this host" in done.stdout
    data = json.loads(
        seatrial("check", "run.yaml", "--json", cwd=tmp_path, code=1, PATH=nowhere).stdout
    )
    assert data["findings"][0]["code"] == "ST-RUN-031"
    assert "ST-RUN" not in seatrial("plan", "run.yaml", cwd=tmp_path, PATH=nowhere).stdout


def test_a_checkpoint_that_the_run_would_go_on_from_is_judged(tmp_path: Path) -> None:
    make_checkpoint(tmp_path / "saves", 5)
    text = CLEAN.replace("storage: {", f"storage: {{tier: amlfs-125, mount: {tmp_path}, ")
    text = text.replace("every_steps: 1000}", f"every_steps: 1000, location: {tmp_path}/saves}}")
    file = spec(tmp_path, text)
    done = seatrial("check", "run.yaml", cwd=tmp_path, code=1)
    assert "error   ST-RESUME-001" in done.stdout
    assert "no checkpoint on this host" not in done.stdout
    # Looking at data too takes nothing away from it.
    with_data = seatrial("check", "run.yaml", "--data", cwd=tmp_path, code=1)
    assert "error   ST-RESUME-001" in with_data.stdout
    codes = {finding.code for finding in check(file).findings}
    own = check(file, {"checkpoints.location": f"{tmp_path}/own"})
    assert codes - {finding.code for finding in own.findings} == {"ST-RESUME-001"}


def test_fix_does_not_take_more_machines_by_itself(tmp_path: Path) -> None:
    file = spec(tmp_path, CLEAN.replace("pp_size: 1", "pp_size: 3"))
    done = seatrial("check", "run.yaml", "--fix", cwd=tmp_path, code=1)
    assert "ST-LAYOUT-001" in done.stdout
    assert "nodes: 2}" in file.read_text()


def test_an_option_of_numbers_that_has_none_is_no_crash(tmp_path: Path) -> None:
    spec(tmp_path, CLEAN)
    option = "engine.options={hierarchical-context-parallel-sizes: [a, b]}"
    assert "ST-ENGINE-003" in seatrial("check", "run.yaml", option, cwd=tmp_path, code=1).stdout


def test_a_code_is_explained_with_its_source(tmp_path: Path) -> None:
    done = seatrial("explain", "st-fabric-002", cwd=tmp_path)
    assert done.stdout.startswith("ST-FABRIC-002  No component reads a variable with this name.")
    assert "source  NVIDIA/nccl@" in done.stdout
    for short in ("render-011", "ST-RENDER-11", "render11"):
        said = seatrial("explain", short, cwd=tmp_path).stdout
        assert said.startswith("ST-RENDER-011  ")
        assert "\nfix     Build the image" in said
    found = json.loads(seatrial("explain", "ST-RUN-010", "--json", cwd=tmp_path).stdout)
    assert (found["part"], found["sources"]) == ("runs", [])
