# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial images build` with podman: the data image, and the GPU image on a stand-in base.

The bases of vendors cannot be pulled here. A Debian base from debootstrap takes their place; for
the GPU image it has Python, rdma-core and the metadata of the packages that the vendor's base
would bring. Not executed: the targets `efa` and `hyperpod`, whose installer comes from AWS, and
LLM Foundry's image, whose packages are built for the vendor's Python and torch.

Needs root, Debian's podman and access to package mirrors. `make local-container`.
"""

import os
import resource
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.build_image import MIRROR, ROOT, SUITE, Store, base_image, default_cache
from seatrial.sdk.images import build_image
from tests.debian import install

pytestmark = [pytest.mark.containers, pytest.mark.timeout(3600)]

BASE = f"localhost/seatrial-base:{SUITE}"
GPU_BASE = "localhost/seatrial-gpu-base:stand-in"
STAND_IN = f"""FROM {BASE}
RUN apt-get update \\
    && apt-get install --yes --no-install-recommends \\
        python3 python3-pip libibverbs1 ibverbs-providers
RUN for name in torch-2.11.0 transformer_engine-2.14.0; do \\
        place=/usr/lib/python3/dist-packages/$name.dist-info; mkdir -p $place; \\
        printf 'Metadata-Version: 2.1\\nName: %s\\nVersion: %s\\n' \\
            "${{name%-*}}" "${{name#*-}}" > $place/METADATA; \\
    done
"""
SETTINGS = """[containers]
cgroupns = "host"
[engine]
cgroup_manager = "cgroupfs"
runtime = "runc"
"""


@pytest.fixture(scope="module")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Podman with a store of its own, in which the base is."""
    install({name: name for name in ("podman", "runc", "debootstrap", "buildah")})
    place = tmp_path_factory.mktemp("podman")
    (place / "containers.conf").write_text(SETTINGS)
    (place / "storage.conf").write_text(
        f'[storage]\ndriver = "overlay"\ngraphroot = "{place}/layers"\nrunroot = "{place}/state"\n'
    )
    store = Store.at(default_cache() / "store")
    archive = place / "base.tar"
    base = base_image(store, SUITE, MIRROR)
    store.run("push", "--quiet", base, f"docker-archive:{archive}:{BASE}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONTAINERS_CONF", str(place / "containers.conf"))
        patch.setenv("CONTAINERS_STORAGE_CONF", str(place / "storage.conf"))
        patch.setenv("BUILDAH_ISOLATION", "chroot")
        subprocess.run(["podman", "load", "--quiet", "--input", str(archive)], check=True)
        yield place
        subprocess.run(["podman", "image", "rm", "--all", "--force"], check=False)
    shutil.rmtree(place, ignore_errors=True)


def printed(image: str, *argv: str) -> str:
    """What a command prints in a container, which gets no more limits than this process has."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    limits = ["--ulimit=nproc=10000:10000", f"--ulimit=nofile={files}:{files}"]
    words = ["podman", "run", "--rm", "--network=none", *limits, image, *argv]
    return subprocess.run(words, text=True, capture_output=True, check=True).stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_the_data_image_is_built_and_runs(podman: Path) -> None:
    built = build_image(
        "worker-data", tag="localhost/worker-data:test", base=BASE, context=ROOT, tool="podman"
    )
    assert printed(built, "seatrial", "--version").strip()
    assert printed(built, "id", "-u").strip() == "1000"
    assert "prepare" in printed(built, "seatrial", "data", "--help")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_every_step_of_the_gpu_image_but_its_base(podman: Path) -> None:
    words = ["podman", "build", "--tag", GPU_BASE, "--file", "-", str(podman)]
    subprocess.run(words, input=STAND_IN, text=True, check=True)
    built = build_image(
        "worker-megatron", tag="localhost/gpu:test", base=GPU_BASE, context=ROOT, tool="podman"
    )
    assert printed(built, "python3", "-m", "seatrial", "--version").strip()
    look = "import importlib.metadata as m; print(m.version('megatron-core'))"
    assert printed(built, "python3", "-c", look).strip() == "0.19.2"
