# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The stores under test: the real client libraries against servers on loopback."""

import asyncio
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from azure.storage.blob import BlobServiceClient
from moto.server import ThreadedMotoServer

from seatrial.storage.providers import KINDS
from seatrial.storage.retries import RetryPolicy
from tests.stores.faults import Faults, spoilt
from tests.stores.servers import ask, azurite, azurite_connection, fake_gcs

BUCKET = "corpus"
QUICK = RetryPolicy(tries=3, first_wait=0.05, longest_wait=0.2)


@dataclass(frozen=True)
class Running:
    """A server, with a proxy in front of it that can spoil what goes through."""

    scheme: str
    direct: str
    through: str
    faults: Faults

    @property
    def root(self) -> str:
        return f"{self.scheme}://{BUCKET}"

    def is_data(self, method: str, path: str) -> bool:
        """Whether a request reads the content of an object."""
        if self.scheme == "gs":
            return method == "GET" and "alt=media" in path
        return method == "GET" and "/data/" in path and "list" not in path and "comp=" not in path

    def is_upload(self, method: str, path: str) -> bool:
        """Whether a request writes an object, or a part of one."""
        if self.scheme == "gs":
            return method in ("POST", "PUT") and "/upload/" in path
        return method == "PUT" and "/data/" in path


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loopback is reached directly, whatever the environment says of the rest."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def noise(seed: int, size: int) -> bytes:
    """Bytes that no compression or mistake in an offset leaves as they are."""
    return hashlib.shake_128(b"%d" % seed).digest(size)


@pytest.fixture(scope="session")
def s3() -> Iterator[Running]:
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    direct = f"http://{host}:{port}"
    ask(direct, "PUT", f"/{BUCKET}")
    faults = Faults()
    try:
        with spoilt(direct, faults) as through:
            yield Running("s3", direct, through, faults)
    finally:
        server.stop()


@pytest.fixture(scope="session")
def azure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    faults = Faults()
    with azurite(tmp_path_factory.mktemp("azurite")) as direct, spoilt(direct, faults) as through:
        with BlobServiceClient.from_connection_string(azurite_connection(direct)) as service:
            service.create_container(BUCKET)
        yield Running("abfs", direct, through, faults)


@pytest.fixture(scope="session")
def google() -> Iterator[Running]:
    faults = Faults()
    with fake_gcs() as direct, spoilt(direct, faults) as through:
        ask(direct, "POST", "/storage/v1/b?project=test", json.dumps({"name": BUCKET}))
        yield Running("gs", direct, through, faults)


@pytest.fixture(params=["s3", "azure", "google"])
def server(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Running]:
    """Each kind of store in turn, through its proxy, with credentials in the environment."""
    running: Running = request.getfixturevalue(request.param)
    running.faults.plan(when=lambda method, path: True)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", running.through)
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "2")
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", azurite_connection(running.through))
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", running.through)
    _hurry(monkeypatch)
    # Other tests leave file systems of servers that have ended.
    _forget_all()
    yield running
    running.faults.clear()
    _forget_all()


def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the client libraries wait a hundredth of what they would before they try again."""
    sleep = asyncio.sleep

    async def shorter(delay: float, result: Any = None) -> Any:
        return await sleep(delay / 100, result)

    monkeypatch.setattr(asyncio, "sleep", shorter)


def _forget_all() -> None:
    """Drop the file systems that fsspec keeps, and with them the address of a proxy."""
    for kind in {id(kind): kind for kind in KINDS.values()}.values():
        module = __import__(kind.package, fromlist=[kind.file_system])
        getattr(module, kind.file_system).clear_instance_cache()
