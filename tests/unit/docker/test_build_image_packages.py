# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Parts of lock files for images."""

import re
from pathlib import Path

import pytest

from scripts.build_image_packages import closure, main, packages, requirements, without

ROOT = Path(__file__).parents[3]
LOCK = """\
# made by a tool
app==1.0 \\
    --hash=sha256:aa \\
    --hash=sha256:bb
    # via seatrial (pyproject.toml)
both-ways==2.0 ; sys_platform == 'linux' \\
    --hash=sha256:cc
    # via
    #   -c requirements/core.txt
    #   app
    #   other
deep[extra]==3.0 \\
    --hash=sha256:dd
    # via both-ways
other==4.0 \\
    --hash=sha256:ee
    # via seatrial (pyproject.toml)
"""


def pins(text: str) -> dict[str, str]:
    return dict(re.findall(r"^([a-z0-9-]+)(?:\[\w+\])?==(\S+)", text, flags=re.MULTILINE))


def test_a_package_comes_with_what_it_brings() -> None:
    part = closure(packages(LOCK), ["App"])
    assert [package.name for package in part] == ["app", "both-ways", "deep"]
    assert part[0].lines == (
        "app==1.0 \\",
        "    --hash=sha256:aa \\",
        "    --hash=sha256:bb",
    )


def test_what_is_not_wanted_is_left_out_but_for_some() -> None:
    part = without(packages(LOCK), ["*o*", "app"], but=["other"])
    assert [package.name for package in part] == ["deep", "other"]


def test_a_package_that_is_not_locked_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lock = tmp_path / "lock.txt"
    lock.write_text(LOCK)
    assert main([str(lock), "--of", "app", "absent"]) == 2
    assert capsys.readouterr().err == f"{lock}: absent is not in it.\n"


def test_the_image_for_processors_has_the_engine_and_no_gpu_library(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lock = ROOT / "requirements/worker.txt"
    words = ["--without", "triton", "cuda-*", "nvidia-*", "--but", "nvidia-cuda-runtime"]
    assert f"{words[1]} '{words[2]}' '{words[3]}'" in (
        ROOT / "docker/worker-cpu.Dockerfile"
    ).read_text(encoding="utf-8")
    assert main([str(lock), *words]) == 0
    whole, part = pins(lock.read_text(encoding="utf-8")), pins(capsys.readouterr().out)
    left_out = set(whole) - set(part)
    assert {"torch", "megatron-core", "transformers", "nvidia-cuda-runtime"} <= set(part)
    assert {"triton", "nvidia-nccl-cu13", "cuda-bindings"} <= left_out
    assert all(name.startswith(("triton", "nvidia-", "cuda-")) for name in left_out)
    assert part == {name: whole[name] for name in part}


def test_every_requirement_of_the_data_image_is_locked() -> None:
    wanted = requirements(ROOT / "pyproject.toml", ["data", "ray"])
    part = closure(packages((ROOT / "requirements/dev.txt").read_text(encoding="utf-8")), wanted)
    names = {package.name for package in part}
    assert {"ray", "pyarrow", "pydantic", "aiohttp"} <= names
    assert not names & {"pytest", "mypy", "ruff", "torch"}
    for package in part:
        assert any("--hash=sha256:" in line for line in package.lines), package.name
