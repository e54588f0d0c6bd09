# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Where a cluster lives: its directory, its network and its ports, kept in a file."""

import json
import socket
from base64 import b64encode
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from seatrial.rendering.manifest import Manifest
from tests.cluster.certificates import Pair

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports of a cluster's programs."""

    api: int
    """The API server."""
    etcd: int
    """etcd, for the API server."""
    etcd_peer: int
    """etcd, for other etcds; there are none."""
    training_operator: int
    """The webhook of the Training Operator."""
    training_operator_health: int
    """Where it says whether it is ready."""
    jobset: int
    """The webhook of JobSet."""
    jobset_health: int
    """Where it says whether it is ready."""
    trainer: int
    """The webhook of Trainer."""
    trainer_health: int
    """Where it says whether it is ready."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where a cluster lives."""

    home: Path
    """The directory with all that it keeps."""
    address: str
    """Where the API server listens."""
    ports: Ports
    """The ports."""
    network: str = ""
    """The network namespace; empty on the loopback of this machine."""

    @property
    def kubeconfig(self) -> Path:
        """The administrator's access."""
        return self.kubeconfig_of("admin")

    def kubeconfig_of(self, user: str) -> Path:
        """Somebody's access."""
        return self.home / "access" / f"{user}.json"

    @property
    def server(self) -> str:
        """The address of the API server."""
        return f"https://{self.address}:{self.ports.api}"

    def inside(self, argv: list[str]) -> list[str]:
        """A command in the cluster's network."""
        if not self.network:
            return argv
        # Not `ip netns exec`: that mounts /sys anew, and the kubelet finds no cgroups there.
        return ["nsenter", f"--net=/var/run/netns/{self.network}", "--", *argv]

    def save(self) -> None:
        """Write it down, for a later process."""
        told = {**asdict(self), "home": str(self.home)}
        (self.home / "layout.json").write_text(json.dumps(told))


def load_layout(home: Path) -> Layout:
    """The layout of a cluster that somebody started."""
    told = json.loads((home / "layout.json").read_text())
    ports = Ports(**told["ports"])
    return Layout(home, told["address"], ports, told["network"])


def loopback_layout(home: Path) -> Layout:
    """A cluster on free ports of this machine's loopback."""
    names = Ports.__slots__
    with ExitStack() as probes:
        sockets = [probes.enter_context(socket.socket()) for _ in names]
        for each in sockets:
            each.bind((LOOPBACK, 0))
        ports = [each.getsockname()[1] for each in sockets]
    return Layout(home, LOOPBACK, Ports(*ports))


def kubeconfig(server: str, authority: bytes, user: Manifest, namespace: str) -> str:
    """The access of a user, with keys inside, so that it works wherever it is copied to."""
    told = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "test",
                "cluster": {
                    "server": server,
                    "certificate-authority-data": b64encode(authority).decode(),
                },
            }
        ],
        "users": [{"name": "user", "user": user}],
        "contexts": [
            {
                "name": "test",
                "context": {"cluster": "test", "user": "user", "namespace": namespace},
            }
        ],
        "current-context": "test",
    }
    return json.dumps(told, indent=1)


def certificate_user(pair: Pair) -> Manifest:
    """A user who is known by a certificate."""
    return {
        "client-certificate-data": b64encode(pair.certificate).decode(),
        "client-key-data": b64encode(pair.key).decode(),
    }
