# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A network of the cluster's own: a namespace, tied to this machine by one pair of interfaces.

Nothing of it is routed to the outside; tests reach the API server over the pair.
"""

import subprocess
from pathlib import Path

from tests.cluster.control_plane import SERVICE_RANGE
from tests.cluster.layout import Layout, Ports

PODS = "10.244.0.0/24"
PREFIX = "seatrial"
NAMESPACES = Path("/run/netns")
"""Where `ip` keeps them; the first one makes it a mount."""
_PORTS = Ports(
    api=6443,
    etcd=2379,
    etcd_peer=2380,
    training_operator=9443,
    training_operator_health=9081,
    jobset=9444,
    jobset_health=9082,
    trainer=9445,
    trainer_health=9083,
)


def own_layout(home: Path) -> Layout:
    """A cluster in a network of its own, on addresses that this machine does not use."""
    taken = ip("-o", "-4", "address")
    number = next(number for number in range(1, 255) if f" 10.98.{number}." not in taken)
    return Layout(home, f"10.98.{number}.1", _PORTS, f"{PREFIX}-{number}")


def make_network(layout: Layout) -> None:
    """Make the namespace and the interfaces in it."""
    name, near = layout.network, _near(layout)
    if not NAMESPACES.is_mount():
        (layout.home / "made-namespaces").touch()
    ip("netns", "add", name)
    ip("link", "add", near, "type", "veth", "peer", "name", "outside", "netns", name)
    ip("address", "add", f"{layout.address[:-1]}2/30", "dev", near)
    ip("link", "set", near, "up")
    ip("-n", name, "link", "set", "lo", "up")
    ip("-n", name, "address", "add", f"{layout.address}/30", "dev", "outside")
    ip("-n", name, "link", "set", "outside", "up")
    # Addresses of services exist only in iptables, but must be routed somewhere to get there.
    ip("-n", name, "link", "add", "services", "type", "bridge")
    ip("-n", name, "link", "set", "services", "up")
    ip("-n", name, "route", "add", SERVICE_RANGE, "dev", "services", "src", layout.address)
    forward = ["sysctl", "-qw", "net.ipv4.ip_forward=1"]
    subprocess.run(layout.inside(forward), check=True)


def remove_network(layout: Layout) -> None:
    """Remove the namespace, and with it everything in it."""
    subprocess.run(["ip", "netns", "delete", layout.network], check=False, capture_output=True)
    if (layout.home / "made-namespaces").exists() and not list(NAMESPACES.glob("*")):
        subprocess.run(["umount", str(NAMESPACES)], check=False, capture_output=True)
    # The pair goes with the namespace, but later; the next cluster may want its address.
    subprocess.run(["ip", "link", "delete", _near(layout)], check=False, capture_output=True)


def ip(*arguments: str) -> str:
    """What `ip` prints."""
    done = subprocess.run(
        ["ip", *arguments], capture_output=True, text=True, check=False, timeout=60
    )
    if done.returncode:
        raise RuntimeError(f"ip {' '.join(arguments)}: {done.stderr}")
    return done.stdout


def _near(layout: Layout) -> str:
    """The interface on this machine's side."""
    return layout.network
