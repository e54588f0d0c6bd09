# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A node whose containers print a line every fifth of a second, and do nothing else.

The API server asks a kubelet for logs and passes them on. This one answers as a kubelet does, so
that logs are read through a real API server where no pod can run.
"""

import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from seatrial.rendering.manifest import Manifest
from tests.cluster.cluster import Cluster

NODE = "prints"
"""The node's name."""
PERIOD = 0.2
"""Seconds from one line to the next."""
HEARTBEAT_SECONDS = 10.0


def text_of(number: int) -> str:
    """A line, as torchrun passes on what a process prints."""
    return f"[default0]:line {number}"


class StubKubelet:
    """The logs of a node, and the node itself."""

    def __init__(self, cluster: Cluster) -> None:
        """Listen on the cluster's loopback, with the kubelet's own certificate."""
        self._cluster = cluster
        self._ended = threading.Event()
        self.began = time.time()
        stub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                stub.print_lines(self)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer((cluster.layout.address, 0), Handler)
        self._server.daemon_threads = True
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        keys = cluster.home / "keys"
        tls.load_cert_chain(keys / "kubelet.crt", keys / "kubelet.key")
        self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)

    @contextmanager
    def serving(self) -> Iterator["StubKubelet"]:
        """The node, as long as it is wanted."""
        api = self._cluster.api()
        # Nothing may be placed there; pods are bound by hand.
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}}
        answer = api.create({**node, "spec": {"unschedulable": True}})
        assert answer.accepted, answer.message
        self._beat()
        for work in (self._server.serve_forever, self._keep_alive):
            threading.Thread(target=work, daemon=True).start()
        try:
            yield self
        finally:
            self._ended.set()
            self._server.shutdown()
            self._server.server_close()
            self._cluster.api().ask("DELETE", f"/api/v1/nodes/{NODE}")

    def run_pod(self, pod: Manifest) -> None:
        """Let a pod that waits run on this node, as far as the API server knows."""
        api, head = self._cluster.api(), pod["metadata"]
        place = f"/api/v1/namespaces/{head['namespace']}/pods/{head['name']}"
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": head["name"]},
            "target": {"apiVersion": "v1", "kind": "Node", "name": NODE},
        }
        answer = api.ask("POST", f"{place}/binding", binding)
        assert answer.accepted, answer.message
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        states = [
            {
                "name": each["name"],
                "image": each["image"],
                "imageID": "",
                "ready": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": now}},
            }
            for each in pod["spec"]["containers"]
        ]
        status = {"status": {"phase": "Running", "containerStatuses": states}}
        kind = "application/merge-patch+json"
        answer = api.ask("PATCH", f"{place}/status", status, content_type=kind)
        assert answer.accepted, answer.message

    def print_lines(self, call: BaseHTTPRequestHandler) -> None:
        """Answer for `/containerLogs/NAMESPACE/POD/CONTAINER` as a kubelet does."""
        asked = {key: values[0] for key, values in parse_qs(urlsplit(call.path).query).items()}
        since = asked.get("sinceTime")
        first = 0 if since is None else datetime.fromisoformat(since).timestamp() - self.began
        number = max(0, int(first / PERIOD))
        call.send_response(200)
        call.send_header("Content-Type", "text/plain")
        call.end_headers()
        # The one who reads may go away at any time.
        with suppress(OSError):
            while not self._ended.is_set():
                due = self.began + number * PERIOD
                if due > time.time():
                    if asked.get("follow") != "true":
                        return
                    time.sleep(due - time.time())
                stamp = datetime.fromtimestamp(due, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")
                call.wfile.write(f"{stamp}000Z {text_of(number)}\n".encode())
                call.wfile.flush()
                number += 1

    def seconds_of(self, number: int) -> float:
        """The time of day at which a line was printed."""
        return self.began + number * PERIOD

    def _keep_alive(self) -> None:
        while not self._ended.wait(HEARTBEAT_SECONDS):
            # The server may be away; the next beat tells it.
            with suppress(OSError, AssertionError):
                self._beat()

    def _beat(self) -> None:
        """Say that the node lives, or its pods are taken away after some minutes."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "StubReady",
            "message": "",
            "lastHeartbeatTime": now,
        }
        port = self._server.server_address[1]
        status = {
            "status": {
                "addresses": [{"type": "InternalIP", "address": self._cluster.layout.address}],
                "conditions": [ready],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
            }
        }
        place = f"/api/v1/nodes/{NODE}/status"
        kind = "application/strategic-merge-patch+json"
        answer = self._cluster.api().ask("PATCH", place, status, content_type=kind)
        assert answer.accepted, answer.message
