# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Clusters for tests, one of each kind for a whole session; README.md says how to use them."""

import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster, Tier, attached, running


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster is on this machine, whatever the environment says of the rest of the world."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture(scope="session")
def control_plane() -> Iterator[Cluster]:
    """A cluster without nodes: API server, controllers, scheduler and operators on loopback."""
    with _session_cluster("SEATRIAL_TEST_CONTROL_PLANE", Tier.OPERATORS) as found:
        yield found


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A whole cluster of one node, in a network of its own; needs root."""
    with _session_cluster("SEATRIAL_TEST_CLUSTER", Tier.NODE) as found:
        yield found


@pytest.fixture(scope="session", autouse=True)
def _ends_orderly() -> Iterator[None]:
    """Asked to end, as by `make` or a limit of time, tests stop their clusters first."""

    def end(number: int, _: object) -> None:
        pytest.exit(f"ended by signal {number}")

    # In the background of a script, a process is started with interrupts ignored.
    asked = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
    before = {number: signal.signal(number, end) for number in asked}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@contextmanager
def _session_cluster(variable: str, tier: Tier) -> Iterator[Cluster]:
    """A new cluster, or the one that was started by hand and whose home the variable names."""
    if given := os.environ.get(variable):
        yield attached(Path(given))
        return
    with (
        tempfile.TemporaryDirectory(prefix="seatrial-") as folder,
        running(Path(folder) / "home", tier) as found,
    ):
        yield found
