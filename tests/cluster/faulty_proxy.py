# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A proxy on loopback before an API server that does what networks and servers do at bad times."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import urllib3
from kubernetes.client.rest import RESTClientObject

from seatrial.cluster.connection import Target, authorization, configuration_of

HOP = ("connection", "transfer-encoding", "content-length", "keep-alive", "host", "authorization")
"""Headers that belong to one connection."""


class Fault(StrEnum):
    """What happens to one call."""

    DROPPED_BEFORE = "dropped before"
    """The connection is cut before the server has heard of the call."""
    DROPPED_AFTER = "dropped after"
    """The server has done it, and the answer is lost."""
    CUT_ANSWER = "cut answer"
    """The answer ends in the middle."""
    CONFLICT = "409"
    """A conflict that is none; only for calls that change something."""
    GONE = "410"
    """The version is too old."""
    TOO_MANY = "429"
    """Too many requests, with a time to wait."""
    INTERNAL = "500"
    """An error of the server."""
    UNAVAILABLE = "503"
    """The server is overloaded."""
    EXPIRED = "expired token"
    """The token is not accepted any more; a new one is in the kubeconfig."""


class FaultyProxy:
    """Passes calls on, and spoils those that it is told to."""

    def __init__(self, kubeconfig: Path, home: Path) -> None:
        """Listen on loopback, before the server of a kubeconfig."""
        self._configuration = configuration_of(Target(str(kubeconfig)))
        self._rest = RESTClientObject(self._configuration)
        self._lock = threading.Lock()
        self._waiting: list[tuple[Fault, str]] = []
        self._streams: set[socket.socket] = set()
        self.happened: list[tuple[Fault, str]] = []
        self._token = "first"
        self._tokens = 1
        self.kubeconfig = home / "proxied.json"
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def __getattr__(self, name: str) -> Any:
                # Every method: do_GET, do_PATCH and so on.
                if name.startswith("do_"):
                    return lambda: proxy.handle(self)
                raise AttributeError(name)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._write_kubeconfig()

    def spoil(self, fault: Fault, path: str = "") -> None:
        """Spoil the next call that the fault fits and whose path has that part."""
        with self._lock:
            self._waiting.append((fault, path))

    def cut_logs(self) -> None:
        """Cut the logs that are followed now, in the middle of whatever they bring."""
        with self._lock:
            for stream in self._streams:
                with suppress(OSError):
                    stream.shutdown(socket.SHUT_RDWR)

    @property
    def pending(self) -> int:
        """Faults that have not happened yet."""
        with self._lock:
            return len(self._waiting)

    def forget(self) -> None:
        """Let no more faults happen."""
        with self._lock:
            self._waiting.clear()

    @contextmanager
    def serving(self) -> Iterator["FaultyProxy"]:
        """Serve as long as it is wanted."""
        thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()

    def handle(self, call: BaseHTTPRequestHandler) -> None:
        """Answer one call."""
        length = int(call.headers.get("Content-Length") or 0)
        body = call.rfile.read(length) if length else None
        if call.headers.get("Authorization") != f"Bearer {self._token}":
            self._say(call, 401, {"message": "Unauthorized", "reason": "Unauthorized"})
            return
        fault = self._fault(call)
        if fault is not None and self._instead(call, fault):
            return
        self._pass_on(call, body, fault)

    def _fault(self, call: BaseHTTPRequestHandler) -> Fault | None:
        """The first fault that fits this call."""
        with self._lock:
            for fault, part in self._waiting:
                # A stream that is followed has no end to wait for.
                if part not in call.path or (not part and _is_log(call)):
                    continue
                # A conflict is an answer to a change, an old version one to a watch or a page.
                if fault is Fault.CONFLICT and call.command != "PATCH":
                    continue
                if fault is Fault.GONE and "watch=true" not in call.path:
                    continue
                if fault is Fault.CUT_ANSWER and call.command != "GET":
                    continue
                self._waiting.remove((fault, part))
                self.happened.append((fault, f"{call.command} {call.path.partition('?')[0]}"))
                return fault
        return None

    def _instead(self, call: BaseHTTPRequestHandler, fault: Fault) -> bool:
        """Do the fault, where the server is not asked at all."""
        if fault is Fault.DROPPED_BEFORE:
            call.close_connection = True
            call.connection.close()
            return True
        if fault is Fault.EXPIRED:
            self._tokens += 1
            self._token = f"token-{self._tokens}"
            self._write_kubeconfig()
            self._say(call, 401, {"message": "Unauthorized", "reason": "Unauthorized"})
            return True
        reasons = {
            Fault.CONFLICT: (409, "Conflict"),
            Fault.GONE: (410, "Expired"),
            Fault.TOO_MANY: (429, "TooManyRequests"),
            Fault.INTERNAL: (500, "InternalError"),
            Fault.UNAVAILABLE: (503, "ServiceUnavailable"),
        }
        if fault not in reasons:
            return False
        status, reason = reasons[fault]
        self._say(call, status, {"message": f"put in by a test: {reason}", "reason": reason})
        return True

    def _pass_on(
        self, call: BaseHTTPRequestHandler, body: bytes | None, fault: Fault | None
    ) -> None:
        headers = {k: v for k, v in call.headers.items() if k.lower() not in HOP}
        headers |= authorization(self._configuration)
        try:
            answer = self._rest.pool_manager.request(
                call.command,
                f"{self._configuration.host}{call.path}",
                body=body,
                headers=headers,
                preload_content=False,
                retries=False,
                timeout=urllib3.Timeout(connect=5, read=300),
            )
            if fault is Fault.DROPPED_AFTER:
                answer.read()
                call.connection.close()
                call.close_connection = True
                return
            with self._followed(call):
                self._relay(call, answer, cut=fault is Fault.CUT_ANSWER)
        except (urllib3.exceptions.HTTPError, OSError):
            # The server is away: so is the proxy.
            call.close_connection = True
            call.connection.close()

    @contextmanager
    def _followed(self, call: BaseHTTPRequestHandler) -> Iterator[None]:
        """Keep the connection of a log, to be cut."""
        if not _is_log(call):
            yield
            return
        with self._lock:
            self._streams.add(call.connection)
        try:
            yield
        finally:
            with self._lock:
                self._streams.discard(call.connection)

    @staticmethod
    def _relay(call: BaseHTTPRequestHandler, answer: Any, *, cut: bool) -> None:
        """The answer, piece by piece as it comes; cut, it ends in its middle."""
        call.send_response(answer.status)
        for key, value in answer.headers.items():
            if key.lower() not in HOP:
                call.send_header(key, value)
        call.send_header("Transfer-Encoding", "chunked")
        call.end_headers()
        try:
            for piece in answer.stream(amt=None, decode_content=False):
                shown = piece[: len(piece) // 2] if cut else piece
                call.wfile.write(b"%x\r\n%s\r\n" % (len(shown), shown) if shown else b"")
                call.wfile.flush()
                if cut:
                    call.close_connection = True
                    call.connection.close()
                    return
            call.wfile.write(b"0\r\n\r\n")
        finally:
            answer.close()

    def _say(self, call: BaseHTTPRequestHandler, status: int, body: dict[str, Any]) -> None:
        data = json.dumps({"kind": "Status", "code": status, **body}).encode()
        call.send_response(status)
        call.send_header("Content-Type", "application/json")
        call.send_header("Content-Length", str(len(data)))
        if status == 429:
            call.send_header("Retry-After", "1")
        call.end_headers()
        call.wfile.write(data)

    def _write_kubeconfig(self) -> None:
        """What a client of the proxy reads; a token that was renewed is in it at once."""
        port = self._server.server_address[1]
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
            "users": [{"name": "u", "user": {"token": self._token}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "c",
        }
        beside = self.kubeconfig.with_suffix(f".{time.time_ns()}")
        beside.write_text(json.dumps(config))
        beside.replace(self.kubeconfig)


def _is_log(call: BaseHTTPRequestHandler) -> bool:
    return call.path.partition("?")[0].endswith("/log")
