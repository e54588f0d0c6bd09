# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The command that starts a run's container on a host."""

from pathlib import Path

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.rendering.attempt import Attempt
from seatrial.rendering.context import Scene, scene_of
from seatrial.rendering.expansion import Command
from seatrial.rendering.host_container import (
    Bind,
    ContainerHost,
    container_argv,
    container_environment,
    install_argv,
    run_binds,
)
from tests.conftest import loaded, plan_spec

HERE = ContainerHost(
    *(Path("/usr/lib/seatrial"), Path("/home/me/.cache"), None, 1000, 100),
    *(("memlock=8:8",), ("HF_TOKEN",)),
)
ROOT = ContainerHost(Path("/usr/lib/seatrial"), Path("/var/cache/root"), None, 0, 0)
SUPERVISOR = Command(module="seatrial.worker.supervisor")


def scene(runtime: str, *overrides: str) -> Scene:
    catalog = Catalog()
    cluster = f"{{profile: local, processes_per_node: 2, container: {runtime}}}"
    wanted = (f"cluster={cluster}", "parallelism={tp_size: 1, pp_size: 1}", *overrides)
    plan = plan_spec(loaded("model={preset: gpt2-large}", *wanted), catalog)
    return scene_of(plan, catalog, Attempt())


def words(runtime: str, *overrides: str, host: ContainerHost = HERE) -> tuple[str, ...]:
    return container_argv(scene(runtime, *overrides), SUPERVISOR, {"A": "b"}, host)


GPUS = "cluster.accelerator=h100-80gb"


@pytest.mark.parametrize(
    ("runtime", "flag"),
    [
        ("docker", "--gpus=all"),
        ("podman", "--device=nvidia.com/gpu=all"),
        ("apptainer", "--nv"),
    ],
)
def test_gpus_are_passed_only_if_the_run_uses_them(runtime: str, flag: str) -> None:
    assert flag in words(runtime, GPUS)
    assert flag not in words(runtime)


@pytest.mark.parametrize("runtime", ["docker", "podman", "apptainer"])
def test_the_catalogs_image_runs_the_supervisor(runtime: str) -> None:
    argv = words(runtime)
    image = next(i for i, word in enumerate(argv) if "nvcr.io/nvidia/pytorch" in word)
    assert argv[image + 1 :] == ("python3", "-m", "seatrial.worker.supervisor")
    assert "/usr/lib/seatrial:/opt/seatrial/own/seatrial:ro" in " ".join(argv)


@pytest.mark.parametrize("runtime", ["docker", "podman"])
def test_shared_memory_has_the_size_of_the_spec(runtime: str) -> None:
    assert f"--shm-size={32 << 30}b" in words(runtime, "cluster.shm=32Gi")
    assert any(word.endswith("g") for word in words(runtime) if word.startswith("--shm-size="))


def test_files_belong_to_the_user_who_launches() -> None:
    assert "--user=1000:100" in words("docker")
    assert {"--userns=keep-id", "--ulimit=memlock=8:8"} <= set(words("podman"))
    as_root = words("podman", host=ROOT)
    assert "--user=0:0" in as_root
    assert not any(word.startswith("--userns") for word in as_root)
    assert "--ulimit=memlock=-1:-1" in words("docker")


def test_a_secret_is_passed_by_name_only() -> None:
    argv = words("docker")
    assert "--env=HF_TOKEN" in argv
    assert "--env=A=b" in argv


def test_the_container_has_no_capabilities() -> None:
    assert {"--cap-drop=ALL", "--security-opt=no-new-privileges"} <= set(words("docker"))


def test_paths_outside_the_volume_are_mounted_where_they_are(tmp_path: Path) -> None:
    prepared = tmp_path / "corpus"
    plan = scene("docker", f"data={{sources: [{{prepared: {prepared}}}]}}").plan
    assert Bind("/data", "/data", is_writable=True) in run_binds(plan)
    assert Bind(str(tmp_path), str(tmp_path)) in run_binds(plan)


def test_an_image_without_the_engine_gets_it_from_a_lock_file(tmp_path: Path) -> None:
    host = ContainerHost(tmp_path, tmp_path, tmp_path / "site", 1000, 100)
    argv = install_argv(scene("docker"), tmp_path / "lock.txt", host)
    assert "--require-hashes" in argv
    assert f"--volume={tmp_path}/site:/opt/seatrial/site:rw" in argv
    assert container_environment()["PYTHONPATH"] == "/opt/seatrial/own:/opt/seatrial/site"
