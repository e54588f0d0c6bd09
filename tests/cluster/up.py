# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Start a cluster by hand, and stop it.

    python -m tests.cluster.up [--tier api|operators|node] [HOME]
    python -m tests.cluster.up --down [HOME]

It stays after this command ends. Tests use it when a variable names its home; see README.md.
"""

import argparse
import tempfile
import time
from pathlib import Path

from tests.cluster import network
from tests.cluster.cluster import Cluster, Tier, attached
from tests.cluster.layout import loopback_layout


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.up")
    parser.add_argument("home", nargs="?", type=Path, help="the cluster's directory")
    parser.add_argument("--tier", choices=[tier.name.lower() for tier in Tier], default="node")
    parser.add_argument("--down", action="store_true", help="stop it and remove every trace")
    given = parser.parse_args()
    home = (given.home or Path(tempfile.gettempdir(), "seatrial-cluster")).resolve()
    if given.down:
        attached(home).stop()
        return
    if home.exists():
        parser.error(f"{home} exists: stop that cluster with --down, or name another directory")
    tier = Tier[given.tier.upper()]
    began = time.monotonic()
    home.mkdir(parents=True)
    cluster = Cluster(
        network.own_layout(home) if tier is Tier.NODE else loopback_layout(home), tier
    )
    try:
        cluster.start()
    except BaseException:
        cluster.stop()
        raise
    variable = "CLUSTER" if tier is Tier.NODE else "CONTROL_PLANE"
    print(  # noqa: T201
        f"Ready after {time.monotonic() - began:.0f} s.\n"
        f"export KUBECONFIG={cluster.kubeconfig}\n"
        f"export SEATRIAL_TEST_{variable}={home}"
    )


if __name__ == "__main__":
    main()
