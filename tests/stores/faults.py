# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A proxy on loopback that passes requests on, except for those that it is told to spoil."""

import http.client
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Fault:
    """What becomes of a request instead of its answer."""

    status: int = 0
    """Answer with this status, or pass the request on when 0."""
    retry_after: int | None = None
    """Seconds of the Retry-After header."""
    cut_after: int | None = None
    """Pass the request on, and break the connection after this many bytes of the answer's body."""
    lose_answer: bool = False
    """Pass the request on, and break the connection before the answer."""


@dataclass
class Faults:
    """What a proxy spoils, and what it saw."""

    wanted: Callable[[str, str], bool] = lambda method, path: True
    """Which requests count, by method and path."""
    queue: list[Fault] = field(default_factory=list)
    """Faults of the next requests that count; the last one stays when `forever`."""
    forever: bool = False
    """Whether the last fault goes on."""
    seen: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    """Method, path and headers of each request that counted."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def plan(self, *faults: Fault, when: Callable[[str, str], bool], forever: bool = False) -> None:
        """Spoil the next requests that count."""
        with self.lock:
            self.wanted, self.queue, self.forever, self.seen = when, list(faults), forever, []

    def clear(self) -> None:
        """Spoil nothing more."""
        with self.lock:
            self.queue, self.forever = [], False

    def next(self, method: str, path: str, headers: dict[str, str]) -> Fault | None:
        """The fault of a request, if any."""
        with self.lock:
            if not self.wanted(method, path):
                return None
            self.seen.append((method, path, headers))
            if not self.queue:
                return None
            return self.queue[0] if self.forever and len(self.queue) == 1 else self.queue.pop(0)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    faults: Faults
    upstream: tuple[str, int]

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _serve(self) -> None:
        body = self._body()
        headers = {name.lower(): value for name, value in self.headers.items()}
        fault = self.faults.next(self.command, self.path, headers)
        if fault and fault.status:
            self._refuse(fault)
            return
        connection = http.client.HTTPConnection(*self.upstream, timeout=60)
        try:
            self._forward(connection, body, fault or Fault())
        except (BrokenPipeError, ConnectionResetError):
            # The client has hung up, as it may.
            self.close_connection = True
        finally:
            connection.close()

    def _body(self) -> bytes:
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            pieces = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                pieces.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(pieces)
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _refuse(self, fault: Fault) -> None:
        text = b"spoilt"
        self.send_response(fault.status)
        if fault.retry_after is not None:
            self.send_header("Retry-After", str(fault.retry_after))
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)

    def _forward(self, connection: http.client.HTTPConnection, body: bytes, fault: Fault) -> None:
        connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in ("transfer-encoding", "content-length", "connection", "expect"):
                connection.putheader(name, value)
        connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        answer = connection.getresponse()
        data = answer.read()
        if fault.lose_answer:
            self._break()
            return
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                self.send_header(name, value)
        length = answer.getheader("Content-Length") if self.command == "HEAD" else None
        self.send_header("Content-Length", length or str(len(data)))
        self.end_headers()
        if fault.cut_after is not None:
            self.wfile.write(data[: fault.cut_after])
            self._break()
        else:
            self.wfile.write(data)

    def _break(self) -> None:
        self.close_connection = True
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = do_PATCH = _serve  # noqa: N815


@contextmanager
def spoilt(upstream: str, faults: Faults) -> Iterator[str]:
    """The address of a proxy in front of a server."""
    with serving(_handler(upstream, faults)) as address:
        yield address


def _handler(upstream: str, faults_: Faults) -> type[_Handler]:
    parts = urlsplit(upstream)

    class Handler(_Handler):
        faults = faults_
        upstream = (parts.hostname or "", parts.port or 80)

    return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        # A client may hang up; anything else is a mistake in a test.
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """The address of a server that answers in threads of its own."""
    server = _Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
