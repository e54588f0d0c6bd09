# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A port of this host's loopback that leads to a port of a pod, through the API server."""

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
"""What is forwarded asks for no password, so nobody but this host may reach it."""
PROTOCOL = "v4.channel.k8s.io"
_PIECE = 1 << 16


class Forward:
    """Listens on the loopback; every connection gets a way of its own to the pod."""

    def __init__(
        self,
        transport: Transport,
        namespace: str,
        pod: str,
        port: int,
        local: int,
        tell: Tell,
    ) -> None:
        """Begin to listen; 0 takes any port that is free."""
        if not isinstance(transport, ClientTransport):
            raise UsageError("ports are forwarded through a connection that connect() has made.")
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
                f"the port cannot be listened on: {error.strerror}.",
                "Choose another by --port.",
            ) from None

    @property
    def local_port(self) -> int:
        """The port on this host."""
        return int(self._listener.getsockname()[1])

    def probe(self) -> None:
        """See whether the pod can be reached; raises a ClusterError when not."""
        self._open().close()

    def serve(self) -> None:
        """Pass on connections until the process ends."""
        while True:
            connection, _ = self._listener.accept()
            threading.Thread(target=self._pass_on, args=(connection,), daemon=True).start()

    def close(self) -> None:
        """Stop listening."""
        self._listener.close()

    def _open(self) -> socket.socket:
        """A connection to the pod's port."""
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
                f"its port {self._port} cannot be forwarded: {str(error.reason).splitlines()[0]}.",
                "See whether the pod runs, and whether the account may forward ports "
                "(the role seatrial-launcher has it).",
            ) from None
        found: socket.socket = forward.socket(self._port)
        return found

    def _pass_on(self, connection: socket.socket) -> None:
        """One connection, from its beginning to its end."""
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
    """Pass bytes both ways until one side ends."""
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
