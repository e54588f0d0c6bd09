# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What the init container installs where the image lacks the worker: by the rendered command.

A namespace of mounts stands for the pod, and an interpreter that has torch and little else for
NVIDIA's image. Needs root, PyPI and the engine's environment.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from hashlib import file_digest
from importlib.metadata import Distribution, distributions
from pathlib import Path

import pytest

from scripts.build_image_packages import normalised
from scripts.write_chart_files import IN_BASE_IMAGE
from seatrial.engine_process.process import worker_python
from seatrial.engines.megatron.command_line import command_line
from seatrial.rendering.environment import SITE
from seatrial.rendering.manifest import Manifest
from seatrial.rendering.volumes import LOCK
from tests.conftest import MEGATRON
from tests.engine.toy import DENSE
from tests.unit.rendering.scenes import environment, pod

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(3600)]

ROOT = Path(__file__).parents[2]
OPT = Path(SITE).parent
IN_NAMESPACE = 'mount -t tmpfs none /opt && mkdir "$1" && mount --bind "$2" "$1" && shift 2 && "$@"'
PASSED_ON = ("PATH", "PIP_CERT", "PIP_INDEX_URL", "SSL_CERT_FILE")
"""What of this machine a package index needs."""


@pytest.fixture(scope="module")
def install() -> Manifest:
    """The init container, as rendered for a public image."""
    found: Manifest = pod("cluster.image=ngc-pytorch-26-02")["initContainers"][0]
    assert found["name"] == "install"
    return found


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter with pip, and of the engine's environment what NVIDIA's image brings."""
    directory = tmp_path_factory.mktemp("base")
    subprocess.run([worker_python(MEGATRON), "-m", "venv", directory / "venv"], check=True)
    site = next((directory / "venv/lib").glob("python3*")) / "site-packages"
    given = Path(worker_python(MEGATRON)).parents[1] / site.relative_to(directory / "venv")
    for distribution in distributions(path=[str(given)]):
        if IN_BASE_IMAGE.match(normalised(distribution.name)):
            for name in _top(distribution):
                if not (site / name).exists():
                    (site / name).symlink_to(given / name)
    return directory / "venv/bin"


def _top(distribution: Distribution) -> Iterator[str]:
    """What a package has directly in site-packages."""
    yield from {file.parts[0] for file in distribution.files or () if file.parts[0] != ".."}


@pytest.fixture(scope="module")
def volume(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pod's volumes below /opt/seatrial: the lock file with Seatrial's own line, and a site."""
    directory = tmp_path_factory.mktemp("opt")
    (directory / "lock").mkdir()
    (directory / "site").mkdir()
    words = ["--no-isolation", "--wheel", "--outdir", str(directory / "lock"), str(ROOT)]
    subprocess.run([sys.executable, "-m", "build", *words], check=True, capture_output=True)
    wheel = next((directory / "lock").glob("*.whl"))
    with wheel.open("rb") as stream:
        digest = file_digest(stream, "sha256").hexdigest()
    own = f"seatrial @ file://{LOCK}/{wheel.name} --hash=sha256:{digest}"
    # As charts/seatrial/values.schema.json has it.
    assert re.fullmatch(r"seatrial[^\n]* --hash=sha256:[0-9a-f]{64}", own)
    lock = (ROOT / "charts/seatrial/files/worker.txt").read_text(encoding="utf-8")
    (directory / "lock/worker.txt").write_text(f"{lock}{own}\n", encoding="utf-8")
    return directory


def in_pod(
    volume: Path, base: Path, words: list[str], variables: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a command where the volume is mounted as in the pod; nothing of it stays."""
    kept = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    kept["PATH"] = f"{base}{os.pathsep}{kept['PATH']}"
    start = ["unshare", "--mount", "--propagation=private", "bash", "-c", IN_NAMESPACE, "pod"]
    return subprocess.run(
        [*start, str(OPT), str(volume), *words],
        env=kept | variables,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )


@pytest.fixture(scope="module")
def installed(install: Manifest, base: Path, volume: Path) -> Path:
    """The volume after the init container has run, in an image that pins what it brings."""
    constraints = volume / "lock/constraint.txt"
    constraints.write_text("protobuf==4.24.4\ntransformers==4.40.0\n", encoding="utf-8")
    variables = {"PIP_CONSTRAINT": str(constraints)} | environment(install)
    variables["HOME"] = str(volume)
    done = in_pod(volume, base, install["command"], variables)
    assert done.returncode == 0, done.stdout[-4000:]
    return volume


def test_the_worker_is_there_and_torch_is_the_images(installed: Path, base: Path) -> None:
    names = {path.name for path in (installed / "site").iterdir()}
    assert {"seatrial", "megatron", "transformers", "tensorboard"} <= names
    assert not names & {"torch", "triton", "numpy", "nvidia"}
    script = "import torch, seatrial.worker.megatron.pod, megatron.core as m; "
    script += "print(torch.__file__, m.__file__)"
    done = in_pod(installed, base, ["python3", "-c", script], {"PYTHONPATH": SITE})
    assert done.returncode == 0, done.stdout[-4000:]
    torch, engine = done.stdout.split()[-2:]
    assert torch.startswith(str(base.parent))
    assert engine.startswith(SITE)


def test_it_trains(installed: Path, base: Path) -> None:
    words = ["python3", "-m", "torch.distributed.run", "--nproc-per-node=1", "--tee=3"]
    words += ["--module", "seatrial.worker.megatron.pod", *command_line(DENSE | {"train-iters": 1})]
    variables = {
        "PYTHONPATH": SITE,
        "SEATRIAL_DEVICE": "cpu",
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
        "TORCHDYNAMO_DISABLE": "1",
        "CUDA_DEVICE_MAX_CONNECTIONS": "1",
        "HOME": str(installed),
    }
    done = in_pod(installed, base, words, variables)
    assert done.returncode == 0, done.stdout[-4000:]
    assert re.search(r"iteration +1/ +1 \|", done.stdout), done.stdout[-4000:]


def test_another_wheel_is_refused(install: Manifest, base: Path, volume: Path) -> None:
    lock = volume / "lock/worker.txt"
    text = lock.read_text(encoding="utf-8")
    own = text.splitlines()[-1]
    lock.write_text(f"{own[:-64]}{'0' * 64}\n", encoding="utf-8")
    try:
        done = in_pod(
            volume, base, install["command"], environment(install) | {"HOME": str(volume)}
        )
    finally:
        lock.write_text(text, encoding="utf-8")
    assert done.returncode != 0
    assert "DO NOT MATCH THE HASHES" in done.stdout
