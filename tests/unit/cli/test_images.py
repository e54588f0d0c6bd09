# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial images`: which images there are, and the commands that handle them."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from seatrial.catalog.catalog import Catalog, Kind
from seatrial.cli.images import app
from seatrial.errors import SeatrialError, UsageError
from seatrial.rendering.image_commands import (
    ImageTool,
    archive_name,
    build_command,
    full_reference,
    mirrored,
    push_commands,
    save_commands,
)
from seatrial.sdk.images import build_image, list_images, push_images, save_images

ROOT = Path(__file__).parents[3]
IMAGE = "nvcr.io/nvidia/pytorch:26.02-py3"


def ran(*words: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with stand-ins for skopeo, podman and docker, which note their arguments."""
    place = tmp_path / "bin"
    place.mkdir()
    log = tmp_path / "calls"
    script = f"""#!/bin/sh
printf '%s\\n' "$0 $*" >> {log}
for word in "$@"; do
  case "$word" in
    docker-archive:*) path=${{word#docker-archive:}}; echo saved > "${{path%%:*}}";;
    *.partial) echo saved > "$word";;
    *broken*) exit 3;;
  esac
done
"""
    for name in ("skopeo", "podman", "docker"):
        (place / name).write_text(script)
        (place / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}:{os.environ['PATH']}")
    return log


def calls(log: Path) -> list[str]:
    return [line.rpartition("/bin/")[2] for line in log.read_text().splitlines()]


def test_a_run_lists_the_images_of_its_pods_and_of_its_cluster(spec_file: Path) -> None:
    lines = ran("list", spec_file).stdout.splitlines()
    assert "docker.io/tensorflow/tensorflow:2.19.0" in lines  # TensorBoard
    assert "ghcr.io/seatrial/worker-data:0.1.0" in lines  # data preparation
    assert "registry.k8s.io/kueue/kueue:v0.15.0" in lines
    assert len(lines) == len(set(lines))
    assert all(" " not in line for line in lines)


def test_what_the_list_lacks_is_said_beside_it(spec_file: Path) -> None:
    done = ran("list", spec_file)
    assert "Not published" in done.stderr
    assert "kube-prometheus-stack" in done.stderr


def test_json_says_who_uses_an_image() -> None:
    found = json.loads(ran("list", "eks", "--json").stdout)
    by = {each["reference"]: each for each in found["images"]}
    assert by["docker.io/tensorflow/tensorflow:2.19.0"]["used_by"] == "profile eks, tensorboard"
    assert by["ghcr.io/seatrial/worker-data:0.1.0"]["published"] is False
    assert found["not_listed"] == ["kube-prometheus-stack"]


def test_what_trainer_installs_is_listed_with_it() -> None:
    names = [each.reference for each in list_images("eks", ["cluster.operator=trainjob"]).images]
    assert "ghcr.io/kubeflow/trainer/trainer-controller-manager:v2.2.0" in names
    assert "registry.k8s.io/jobset/jobset:v0.11.0" in names


def test_a_digest_in_the_catalog_pins_the_reference(tmp_path: Path) -> None:
    digest = f"sha256:{'a' * 64}"
    (tmp_path / "images.toml").write_text(f'[tensorflow-2-19-0]\ndigest = "{digest}"\n')
    names = [e.reference for e in list_images("eks", catalog=Catalog([tmp_path])).images]
    assert f"docker.io/tensorflow/tensorflow@{digest}" in names


@pytest.mark.parametrize(
    ("reference", "full"),
    [
        ("ubuntu", "docker.io/library/ubuntu"),
        ("tensorflow/tensorflow:2", "docker.io/tensorflow/tensorflow:2"),
        ("localhost/a:1", "localhost/a:1"),
        ("registry:5000/a:1", "registry:5000/a:1"),
        (IMAGE, IMAGE),
    ],
)
def test_docker_hub_is_named(reference: str, full: str) -> None:
    assert full_reference(reference) == full


def test_a_mirror_keeps_the_path() -> None:
    assert mirrored(IMAGE, "r.example.com/m/") == "r.example.com/m/nvidia/pytorch:26.02-py3"
    assert mirrored("ubuntu", "r.example.com") == "r.example.com/library/ubuntu"
    pinned = f"gke.gcr.io/pause:3.8@sha256:{'a' * 64}"
    assert mirrored(pinned, "r.example.com") == "r.example.com/pause:3.8"
    assert mirrored(f"a.io/b@sha256:{'c' * 64}", "r.io") == f"r.io/b:{'c' * 12}"


def test_skopeo_takes_a_tag_or_a_digest_not_both() -> None:
    ((*_, source, target),) = save_commands(
        ImageTool.SKOPEO, f"gke.gcr.io/pause:3.8@sha256:{'a' * 64}", Path("a.tar")
    )
    assert source == f"docker://gke.gcr.io/pause@sha256:{'a' * 64}"
    assert target == "docker-archive:a.tar:gke.gcr.io/pause:3.8"


def test_commands_of_each_tool() -> None:
    assert save_commands(ImageTool.PODMAN, IMAGE, Path("a.tar")) == [
        ["podman", "pull", IMAGE],
        ["podman", "save", "--output", "a.tar", IMAGE],
    ]
    assert push_commands(ImageTool.DOCKER, IMAGE, "r/p:1", Path("a.tar")) == [
        ["docker", "load", "--input", "a.tar"],
        ["docker", "tag", IMAGE, "r/p:1"],
        ["docker", "push", "r/p:1"],
    ]
    assert push_commands(ImageTool.SKOPEO, IMAGE, "r/p:1") == [
        ["skopeo", "copy", f"docker://{IMAGE}", "docker://r/p:1"]
    ]


def test_images_are_saved_once_and_pushed_from_their_archives(tools: Path, tmp_path: Path) -> None:
    place = tmp_path / "images"
    save_images([IMAGE, "ubuntu:24.04"], place)
    assert (place / archive_name(IMAGE)).read_text() == "saved\n"
    assert len(calls(tools)) == 2
    save_images([IMAGE, "ubuntu:24.04"], place)
    assert len(calls(tools)) == 2
    pushed = push_images([str(place)], "r.example.com/m")
    assert pushed == [
        "r.example.com/m/nvidia/pytorch:26.02-py3",
        "r.example.com/m/library/ubuntu:24.04",
    ]
    assert calls(tools)[-1].startswith("skopeo copy docker-archive:")


def test_a_changed_archive_is_not_pushed(tools: Path, tmp_path: Path) -> None:
    place = tmp_path / "images"
    (archive,) = save_images([IMAGE], place)
    archive.write_text("something else")
    with pytest.raises(UsageError, match="does not match its digest"):
        push_images([str(place)], "r.example.com")
    with pytest.raises(UsageError, match=r"images\.txt"):
        push_images([str(tmp_path)], "r.example.com")


def test_save_leaves_out_what_nobody_can_pull(tools: Path, tmp_path: Path) -> None:
    done = ran("save", "eks", "-o", tmp_path / "out")
    assert done.exit_code == 0
    assert not any("ghcr.io/seatrial" in line for line in calls(tools))
    assert "Not published" in done.stderr


def test_a_tool_that_fails_is_named(tools: Path, tmp_path: Path) -> None:
    with pytest.raises(SeatrialError, match="skopeo copy failed with exit code 3"):
        save_images(["example.com/broken:1"], tmp_path / "out")
    assert not list((tmp_path / "out").glob("*.tar"))


def test_a_missing_tool_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="images save needs one of skopeo, podman, docker"):
        save_images([IMAGE], tmp_path / "out")
    with pytest.raises(UsageError, match="images push needs skopeo on the PATH"):
        push_images([IMAGE], "r.example.com", tool="skopeo")
    with pytest.raises(UsageError, match="images build cannot use 'skopeo'"):
        build_image("worker-data", context=ROOT, tool="skopeo")


def test_each_image_of_ours_has_its_dockerfile() -> None:
    catalog = Catalog()
    for name in catalog.names(Kind.IMAGES):
        image = catalog.image(name)
        assert bool(image.dockerfile) is image.brings_seatrial
        if image.dockerfile:
            assert f"definition: {image.dockerfile}" in image.source
            text = (ROOT / image.dockerfile).read_text(encoding="utf-8")
            assert not image.target or f" AS {image.target}\n" in text
            assert (ROOT / f"{image.dockerfile}.dockerignore").is_file()


def test_the_command_that_builds(tools: Path) -> None:
    argv = build_command(
        ImageTool.BUILDAH,
        Catalog().image("worker-megatron"),
        Path("/src"),
        "t:1",
        {"BASE": "b"},
        ["id=x"],
    )
    assert argv == [
        *("buildah", "build", "--file", "/src/docker/worker.Dockerfile", "--tag", "t:1"),
        *("--ignorefile", "/src/docker/worker.Dockerfile.dockerignore"),
        *("--format", "docker", "--layers"),
        *("--target", "infiniband", "--build-arg", "BASE=b", "--secret", "id=x", "/src"),
    ]
    done = ran("build", "worker-data", "--context", ROOT, "--base", "localhost/base:1")
    assert done.stdout.startswith("Built ghcr.io/seatrial/worker-data:0.1.0.")
    (call,) = calls(tools)
    assert call.startswith("docker build --file ")
    assert "--build-arg BASE=localhost/base:1" in call
    assert "id=pip,src=" in call


def test_an_image_that_there_is_not_and_a_directory_without_dockerfiles(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Use one of: worker-megatron"):
        build_image("worker-tpu")
    with pytest.raises(UsageError, match="checkout of Seatrial"):
        build_image("worker-data", context=tmp_path)
