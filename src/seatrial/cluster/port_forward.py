# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Forward a local port to a pod's port through the API server."""

import selectors
import socket
import threading
from contextlib import suppress

from kubernetes.client.exceptions import ApiException
from kubernetes.stream.ws_client import portforward_call

from seatrial.cluster.api import Tell
from seatrial.cluster.connection import ClientTransport, authorization
from seatrial.cluster.errors import ClusterError
from seatrial.cluster.kinds import POD
from seatrial.cluster.transport import Transport
from seatrial.codes.cluster import ClusterCode
from seatrial.errors import UsageError

LOOPBACK = "127.0.0.1"
"""Only this host may connect, because the forwarded service has no authentication."""
PROTOCOL = "v4.channel.k8s.io"
_PIECE = 1 << 16


class Forward:
    """Listens on the loopback interface. Each connection gets its own stream to the pod."""

    def __init__(
        self,
        transport: Transport,
        namespace: str,
        pod: str,
        port: int,
        local: int,
        tell: Tell,
    ) -> None:
        """Start to listen. Port 0 means any free port."""
        if not isinstance(transport, ClientTransport):
            raise UsageError("port forwarding needs a connection from connect().")
        self._transport = transport
        self._path = POD.path(namespace, pod, "portforward")
        self._about = POD.about(namespace, pod)
        self._port = port
        self._tell = tell
        try:
            self._listener = socket.create_server((LOOPBACK, local))
        except OSError as error:
            raise ClusterError(
                ClusterCode.CONFLICT,
                f"{LOOPBACK}:{local}",
                f"cannot listen on this port: {error.strerror}.",
                "Choose a different port with --port.",
            ) from None

    @property
    def local_port(self) -> int:
        return int(self._listener.getsockname()[1])

    def probe(self) -> None:
        """Check that the pod is reachable. Raises ClusterError if not."""
        self._open().close()

    def serve(self) -> None:
        """Forward connections until the process exits."""
        while True:
            connection, _ = self._listener.accept()
            threading.Thread(target=self._pass_on, args=(connection,), daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _open(self) -> socket.socket:
        """Open a connection to the pod's port."""
        configuration = self._transport.configuration
        token = authorization(configuration).get("Authorization")
        headers = {"sec-websocket-protocol": PROTOCOL}
        headers |= {"authorization": token} if token else {}
        try:
            forward = portforward_call(
                configuration,
                "GET",
                f"{self._transport.server}{self._path}",
                headers=headers,
                query_params=[("ports", str(self._port))],
            )
        except ApiException as error:
            raise ClusterError(
                ClusterCode.DENIED if "403" in str(error.reason) else ClusterCode.UNREACHABLE,
                self._about,
                f"cannot forward port {self._port}: {str(error.reason).splitlines()[0]}.",
                "Check that the pod is running, and that the account may forward ports "
                "(the role seatrial-launcher includes this permission).",
            ) from None
        found: socket.socket = forward.socket(self._port)
        return found

    def _pass_on(self, connection: socket.socket) -> None:
        """Serve one connection."""
        with connection:
            try:
                there = self._open()
            except ClusterError as error:
                self._tell(str(error))
                return
            with suppress(OSError):
                _pump(connection, there)
            with suppress(OSError):
                there.close()


def _pump(one: socket.socket, other: socket.socket) -> None:
    """Copy bytes in both directions until one side closes."""
    with selectors.DefaultSelector() as ready:
        ready.register(one, selectors.EVENT_READ, other)
        ready.register(other, selectors.EVENT_READ, one)
        while True:
            for key, _ in ready.select():
                target = key.data
                piece = (other if target is one else one).recv(_PIECE)
                if not piece:
                    return
                target.sendall(piece)
