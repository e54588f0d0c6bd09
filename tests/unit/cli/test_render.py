# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial render`: on the screen, in a directory, as a chart, as JSON."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner

from seatrial.cli.render import app
from seatrial.errors import FindingsError, UsageError
from seatrial.sdk.output_files import RECORD


def ran(*words: object) -> Any:
    """What the command did; what a user can mend is raised, for the root command prints it."""
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


def documents(text: str) -> list[Any]:
    return list(YAML(typ="safe", pure=True).load_all(text))


def test_manifests_are_printed_and_warnings_beside_them(spec_file: Path) -> None:
    result = ran(spec_file)
    assert result.exit_code == 0
    made = documents(result.stdout)
    assert made[-1]["kind"] == "PyTorchJob"
    assert made[-1]["metadata"]["annotations"]["seatrial.dev/code-digest"].startswith("sha256:")
    assert "ST-RENDER-011" in result.stderr


def test_an_override_reaches_the_manifests(spec_file: Path) -> None:
    made = documents(ran(spec_file, "cluster.operator=trainjob").stdout)
    assert [manifest["kind"] for manifest in made[-2:]] == ["TrainingRuntime", "TrainJob"]


@pytest.mark.parametrize(
    ("part", "kind"), [("data", "Job"), ("data-ray", "RayJob"), ("admin", "ClusterRole")]
)
def test_another_part_is_printed_on_demand(spec_file: Path, part: str, kind: str) -> None:
    assert documents(ran(spec_file, "--part", part).stdout)[-1]["kind"] == kind


def test_a_directory_gets_all_parts_ready_for_kustomize(spec_file: Path, tmp_path: Path) -> None:
    result = ran(spec_file, "-o", tmp_path / "out")
    assert f"kubectl apply --server-side -k {tmp_path / 'out'}/run" in result.stdout.replace(
        "\n", ""
    )
    for part in ("run", "admin"):
        (listed,) = documents((tmp_path / "out" / part / "kustomization.yaml").read_text())
        there = {path.name for path in (tmp_path / "out" / part).iterdir()}
        assert there == {*listed["resources"], "kustomization.yaml"}
    assert not (tmp_path / "out" / "data").exists()


def test_a_second_render_replaces_what_the_first_wrote(spec_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    ran(spec_file, "-o", out)
    with pytest.raises(UsageError, match="--force"):
        ran(spec_file, "-o", out)
    ran(spec_file, "monitoring.tensorboard=false", "-o", out, "--force")
    assert not list(out.rglob("*tensorboard*"))
    assert list(out.rglob("*pytorchjob*"))


def test_a_full_disk_leaves_no_directory(
    spec_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UsageError, match="No space left on device"):
        ran(spec_file, "-o", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_names_that_were_never_put_in_are_warned_of(spec_file: Path) -> None:
    result = ran(spec_file, "cluster.image=YOUR-REGISTRY/worker:1")
    assert "warning ST-SPEC-010" in result.stderr
    assert "which launch rejects" in result.stderr


def test_a_file_of_somebody_elses_is_never_touched(spec_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "notes.md").write_text("mine")
    with pytest.raises(UsageError, match=r"notes\.md"):
        ran(spec_file, "-o", out, "--force")
    assert [path.name for path in out.iterdir()] == ["notes.md"]
    with pytest.raises(UsageError, match="is a file"):
        ran(spec_file, "-o", out / "notes.md")


@pytest.mark.parametrize(
    "name", ["kustomization.yaml", "values.yaml", "overlay/Chart.yaml", "01-job-mine.yaml"]
)
def test_a_name_like_ours_does_not_make_a_file_ours(
    spec_file: Path, tmp_path: Path, name: str
) -> None:
    out = tmp_path / "out"
    ran(spec_file, "-o", out)
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    mine = out / name
    mine.parent.mkdir(exist_ok=True)
    mine.write_text("mine")
    with pytest.raises(UsageError, match=name):
        ran(spec_file, "training.seed=5", "-o", out, "--force")
    assert mine.read_text() == "mine"
    assert {path: path.read_bytes() for path in before} == before


def test_a_file_that_was_edited_since_is_kept_and_named(spec_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    ran(spec_file, "-o", out)
    edited = out / "run" / "kustomization.yaml"
    edited.write_text(edited.read_text() + "namePrefix: my-\n")
    with pytest.raises(UsageError, match=r"run/kustomization\.yaml"):
        ran(spec_file, "-o", out, "--force")
    assert edited.read_text().endswith("namePrefix: my-\n")
    edited.unlink()
    ran(spec_file, "-o", out, "--force")
    assert "namePrefix" not in edited.read_text()


def test_a_directory_behind_a_link_is_not_written_to(spec_file: Path, tmp_path: Path) -> None:
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    out.mkdir()
    elsewhere.mkdir()
    (out / "run").symlink_to(elsewhere)
    with pytest.raises(UsageError, match="run"):
        ran(spec_file, "-o", out, "--force")
    assert not list(elsewhere.iterdir())


def test_a_chart_is_written_whole(spec_file: Path, tmp_path: Path) -> None:
    result = ran(spec_file, "--helm", "-o", tmp_path / "chart")
    names = {path.name for path in (tmp_path / "chart").iterdir()}
    assert names == {"Chart.yaml", "values.yaml", "values.schema.json", "templates", RECORD}
    assert "helm install slim-7b" in result.stdout
    with pytest.raises(UsageError, match="--output"):
        ran(spec_file, "--helm")
    with pytest.raises(UsageError, match="charts/seatrial"):
        ran(spec_file, "--part", "admin", "--helm", "-o", tmp_path / "admin")
    assert not (tmp_path / "admin").exists()


def test_json_holds_the_manifests_and_the_findings(spec_file: Path) -> None:
    data = json.loads(ran(spec_file, "--json").stdout)
    assert data["manifests"]["run"][-1]["kind"] == "PyTorchJob"
    codes = [finding["code"] for finding in data["findings"]]
    # The last: no cluster was queried for `gang: auto`.
    assert codes == ["ST-RENDER-013", "ST-RENDER-011", "ST-RENDER-015"]


def test_a_directory_gets_a_rayjob_only_where_it_is_asked_for(
    spec_file: Path, tmp_path: Path
) -> None:
    said = ran(spec_file, "--output", tmp_path / "usual").stdout
    assert {path.name for path in (tmp_path / "usual").iterdir() if path.is_dir()} == {
        *("run", "admin")
    }
    assert "admin   once, by an administrator\n" in said
    ran(spec_file, "--part", "data", "--output", tmp_path / "asked")
    assert (tmp_path / "asked" / "data").is_dir()


def test_what_cannot_be_rendered_is_said_at_its_line(spec_file: Path) -> None:
    text = spec_file.read_text().replace("nodes: 2}", "nodes: 2, env: {NCCL_ALGO: Ring}}")
    spec_file.write_text(text)
    with pytest.raises(FindingsError) as caught:
        ran(spec_file)
    assert [f.where.line for f in caught.value.findings if f.code == "ST-RENDER-004"] == [18]
