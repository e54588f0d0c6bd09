# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Servers that speak like the object stores, each on a port of loopback for as long as a test."""

import http.client
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from urllib.parse import urlsplit

ROOT = Path(__file__).parents[2]
# Azurite's account, which its documentation publishes: it opens nothing else.
AZURITE_ACCOUNT = "devstoreaccount1"
AZURITE_KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)


def installed() -> Path:
    """Where scripts/store_servers.sh has put Azurite and fake-gcs-server."""
    script = ROOT / "scripts/store_servers.sh"
    path = subprocess.run([script, "path"], check=True, capture_output=True, text=True).stdout
    servers = Path(path.strip())
    if not (servers / ".complete").exists():
        raise FileNotFoundError(f"{servers} is not there; run scripts/store_servers.sh create")
    return servers


def free_port() -> int:
    """A port of loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def started(argv: list[str], port: int) -> Iterator[str]:
    """The address of a server, from when it answers until it is ended."""
    with (
        TemporaryFile() as output,
        subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process,
    ):
        try:
            if not _answers(process, port):
                output.seek(0)
                raise RuntimeError(f"{argv[0]} does not answer: {output.read().decode()}")
            yield f"http://127.0.0.1:{port}"
        finally:
            # The server is its own process; what it may have started is in its group.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def _answers(process: subprocess.Popen[bytes], port: int) -> bool:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return True
    return False


@contextmanager
def azurite(location: Path) -> Iterator[str]:
    """Azurite's blob service."""
    port = free_port()
    program = installed() / "azurite/node_modules/.bin/azurite-blob"
    options = ["--silent", "--disableTelemetry", "--skipApiVersionCheck"]
    place = ["--location", str(location), "--blobHost", "127.0.0.1", "--blobPort", str(port)]
    with started([str(program), *options, *place], port) as address:
        yield address


@contextmanager
def fake_gcs(public: str | None = None) -> Iterator[str]:
    """fake-gcs-server; `public` is what it calls itself in addresses of uploads."""
    port = free_port()
    program = installed() / "bin/fake-gcs-server"
    options = ["-backend", "memory", "-scheme", "http", "-log-level", "error"]
    place = ["-host", "127.0.0.1", "-port", str(port)]
    place += ["-external-url", public or f"http://127.0.0.1:{port}"]
    with started([str(program), *options, *place], port) as address:
        yield address


def ask(address: str, method: str, path: str, body: str = "") -> None:
    """One request that must succeed, without a store's library."""
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)
    connection.request(method, path, body)
    answer = connection.getresponse()
    assert answer.status == 200, answer.read()
    connection.close()


def azurite_connection(address: str) -> str:
    """Azurite's connection string at an address."""
    return (
        f"DefaultEndpointsProtocol=http;AccountName={AZURITE_ACCOUNT};AccountKey={AZURITE_KEY};"
        f"BlobEndpoint={address}/{AZURITE_ACCOUNT};"
    )
