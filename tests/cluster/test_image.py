# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The images for processors and for data, really built: what is in them, and that they work.

Needs root, Debian's packages and PyPI; a first build takes minutes and some GB of disk.
"""

import json
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import zstandard

from scripts.build_image import Built, Store, Variant, build, default_cache
from seatrial.engines.megatron.command_line import command_line
from seatrial.rendering.environment import SITE
from seatrial.version import VERSION
from tests.engine.toy import DENSE

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(3600)]

DATA = Path(__file__).parents[1] / "data"
SPEC = """apiVersion: seatrial.dev/v1alpha1
name: tiny
model: {preset: gpt3-7.5b}
data:
  sources:
    - from: /home/worker/input/corpus.jsonl
  tokenizer: /home/worker/input/tokenizer.json
training: {tokens: 1B}
cluster: {profile: local, processes_per_node: 1, storage: {mount: /home/worker}}
"""
LARGEST = 2.5e9
"""Bytes: with CUDA's libraries it would be 5 GB."""


@pytest.fixture(scope="module")
def built() -> Built:
    """The image, built unless it is in the cache."""
    made = build(Variant.CPU, default_cache())
    # The figures that the documentation gives.
    print(f"\n{made.reference}: {made.archive.stat().st_size / 1e6:,.0f} MB, {made.seconds:.0f} s")  # noqa: T201
    return made


@pytest.fixture(scope="module")
def configuration(built: Built) -> dict[str, Any]:
    """What the image says of itself."""
    with tarfile.open(built.archive) as archive:
        entry = _json(archive, "manifest.json")[0]
        assert entry["RepoTags"] == [built.reference]
        found: dict[str, Any] = _json(archive, entry["Config"])
        return found


def _json(archive: tarfile.TarFile, name: str) -> Any:
    stream = archive.extractfile(name)
    assert stream is not None
    return json.loads(stream.read())


@contextmanager
def container(built: Built) -> Iterator[tuple[Store, str]]:
    """A container of the image, which is gone afterwards."""
    store = Store.at(default_cache() / "store")
    name = store.ask("from", "--pull-never", built.reference)
    try:
        yield store, name
    finally:
        store.run("rm", name)


def run(store: Store, name: str, words: list[str], **variables: str) -> str:
    """What a command prints inside, as the image's own user."""
    settings = [f"--env={key}={value}" for key, value in variables.items()]
    words = store.words("run", "--isolation=chroot", *settings, name, "--", *words)
    done = subprocess.run(
        words, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:]
    return done.stdout


def test_it_says_what_it_is(configuration: dict[str, Any]) -> None:
    settings = configuration["config"]
    assert settings["User"] == "1000:1000"
    assert f"PYTHONPATH={SITE}" in settings["Env"]
    labels = settings["Labels"]
    assert labels["org.opencontainers.image.version"] == VERSION
    assert re.fullmatch("[0-9a-f]{40}", labels["org.opencontainers.image.revision"])


def test_it_is_small(built: Built) -> None:
    assert built.archive.stat().st_size < LARGEST


def test_nothing_of_the_machine_is_in_it(built: Built, configuration: dict[str, Any]) -> None:
    assert not [name for name in configuration["config"]["Env"] if name.startswith("PIP_")]
    text = json.dumps(configuration)
    assert "pip.conf" not in json.dumps(configuration["config"])
    assert str(Path.home()) not in text
    with container(built) as (store, name):
        root = Path(store.ask("mount", name))
        try:
            left = [*root.glob("run/secrets/*"), *root.glob("root/.*"), *root.glob("home/*/.cache")]
            assert not [path for path in left if path.name not in (".bashrc", ".profile")]
            assert not (root / "etc/pip.conf").exists()
            # Debian's certificates and none of this machine's own.
            assert not any((root / "usr/local/share/ca-certificates").glob("*"))
            assert not (root / SITE.lstrip("/") / "pip").exists()
        finally:
            store.run("unmount", name)


def test_torch_loads_without_cuda_and_trains_on_two_processes(built: Built) -> None:
    arguments = DENSE | {
        "train-iters": 2,
        "tensor-model-parallel-size": 2,
        "save": "/home/worker/checkpoints",
        "save-interval": 2,
    }
    words = ["python3", "-m", "torch.distributed.run", "--nproc-per-node=2", "--tee=3"]
    words += ["--master-addr=127.0.0.1", "--master-port=29513"]
    words += ["--module", "seatrial.worker.megatron.pod", *command_line(arguments)]
    with container(built) as (store, name):
        script = (
            "import os, torch; print(os.getuid(), torch.__version__, torch.cuda.is_available())"
        )
        assert run(store, name, ["python3", "-c", script]).startswith("1000 2.")
        log = run(
            store, name, words,
            GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1", CUDA_DEVICE_MAX_CONNECTIONS="1",
            SEATRIAL_EVENTS="/home/worker/events.jsonl",
        )  # fmt: skip
        assert re.search(r"iteration +2/ +2 \|", log), log[-4000:]
        saved = run(
            store, name, ["cat", "/home/worker/checkpoints/latest_checkpointed_iteration.txt"]
        )
        assert saved.strip() == "2"
        events = run(store, name, ["cat", "/home/worker/events.jsonl"])
        assert '"step"' in events


def test_a_call_of_cuda_says_why_it_cannot(built: Built) -> None:
    script = f"import ctypes; ctypes.CDLL('{SITE}/torch/lib/libnccl.so.2').ncclGetVersion()"
    with container(built) as (store, name):
        words = ["sh", "-c", f'python3 -c "{script}"; test $? -ge 128']
        assert "this image is for processors" in run(store, name, words)


def test_the_image_for_data_prepares_a_corpus(tmp_path: Path) -> None:
    made = build(Variant.DATA, default_cache())
    shutil.copy(DATA / "corpus.jsonl", tmp_path)
    packed = (DATA / "gpt2-tokenizer.json.zst").read_bytes()
    with zstandard.ZstdDecompressor().stream_reader(packed) as reader:
        (tmp_path / "tokenizer.json").write_bytes(reader.read())
    (tmp_path / "run.yaml").write_text(SPEC, encoding="utf-8")
    with container(made) as (store, name):
        store.run("copy", "--quiet", "--chown=1000:1000", name, str(tmp_path), "/home/worker/input")
        run(store, name, ["seatrial", "data", "prepare", "/home/worker/input/run.yaml"])
        assert ".idx" in run(store, name, ["find", "/home/worker", "-name", "*.idx"])
        # Ends with an error when a file is not what its record says.
        run(store, name, ["seatrial", "data", "verify", "/home/worker/input/run.yaml"])
        # From a login shell, as KubeRay starts it.
        assert "ray" in run(store, name, ["bash", "-lc", "ray --version"])
        # What KubeRay asks of a head: its dashboard takes jobs, its agent says that it lives.
        run(
            store, name, ["python3", "-c", "import aiohttp, ray.dashboard.head, ray.job_submission"]
        )
