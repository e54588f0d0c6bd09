# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A Kubernetes cluster on this machine: started, spoilt, asked and stopped by tests."""

import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from itertools import count
from pathlib import Path

from seatrial.rendering.manifest import Manifest
from tests.cluster import access, control_plane, network, node, operators, traces
from tests.cluster.daemon import Daemon, NotReadyError, wait_until
from tests.cluster.definitions import NEWEST, ReleaseSet
from tests.cluster.http_api import Api
from tests.cluster.kubectl import CommandError, helm, kubectl
from tests.cluster.layout import Layout, load_layout, loopback_layout


class Tier(IntEnum):
    """How much of a cluster there is; each has what the ones before it have."""

    API = 1
    """etcd and an API server that serves all custom objects."""
    OPERATORS = 2
    """Controllers, scheduler and operators too: jobs become pods, which wait for a node."""
    NODE = 3
    """A node in a network of its own: pods run."""


class Cluster:
    """A cluster, and what tests do with it."""

    def __init__(self, layout: Layout, tier: Tier) -> None:
        """A cluster that runs, or is about to be started."""
        self.layout = layout
        self.tier = tier
        self._etcd = control_plane.etcd(layout)
        self._api_server = control_plane.api_server(layout)
        self._others: list[Daemon] = []
        self._operators: list[Daemon] = []
        self._numbers = count(1)
        if tier >= Tier.OPERATORS:
            self._others = [
                control_plane.controller_manager(layout),
                control_plane.scheduler(layout),
            ]

    @property
    def home(self) -> Path:
        """The directory with logs, keys and volumes."""
        return self.layout.home

    @property
    def kubeconfig(self) -> Path:
        """The administrator's access."""
        return self.layout.kubeconfig

    def api(self, kubeconfig: Path | None = None) -> Api:
        """A connection of one's own, as the administrator or with the given access."""
        return Api(kubeconfig or self.kubeconfig)

    def kubectl(self, *arguments: str, given: str | None = None) -> str:
        """What kubectl prints for the administrator; CommandError when it fails."""
        return kubectl(*arguments, kubeconfig=self.kubeconfig, given=given)

    def helm(self, *arguments: str) -> str:
        """What helm prints for the administrator; CommandError when it fails."""
        return helm(*arguments, kubeconfig=self.kubeconfig)

    def get(self, kind: str, name: str, namespace: str = "default") -> Manifest:
        """An object as the server has it."""
        found: Manifest = json.loads(self.kubectl("get", kind, name, "-n", namespace, "-o", "json"))
        return found

    # ------------------------------------------------------------------ namespaces and access

    def new_namespace(self, prefix: str = "test") -> str:
        """A namespace that nobody else uses."""
        name = f"{prefix}-{next(self._numbers)}-{time.time_ns() % 10**6:06d}"
        access.make_namespace(self.api(), name, wait=self.tier >= Tier.OPERATORS)
        return name

    def delete_namespace(self, name: str) -> None:
        """Delete a namespace with all that is in it; its pods get no time to end."""
        if self.tier >= Tier.NODE:
            force = ("--force", "--grace-period=0", "--ignore-not-found")
            self.kubectl("delete", "pods", "--all", "-n", name, *force)
        self.kubectl("delete", "namespace", name, "--wait=false")

    def restricted_kubeconfig(
        self, namespace: str, operator: str = "pytorchjob", *, observer: bool = False
    ) -> Path:
        """The access of an account with the rendered launcher's Role, and nothing else."""
        path = self.home / "access" / f"launcher-{namespace}-{operator}-{observer}.json"
        access.restricted(self.api(), self.layout, path, namespace, operator, observer=observer)
        return path

    def denied(self, namespace: str) -> list[access.Denial]:
        """What accounts of a namespace asked for and were refused, from the server's audit log."""
        return access.denials(self.home / "log" / "audit.jsonl", namespace)

    def offer_volume(self, namespace: str, claim: str, storage_class: str, gib: int = 1024) -> Path:
        """A volume for a claim that is to come; returns its directory on this machine."""
        directory = self.home / "volumes" / namespace / claim
        node.offer_volume(self.api(), directory, namespace, claim, storage_class, gib)
        return directory

    # ------------------------------------------------------------------ faults

    def stop_api_server(self) -> None:
        """Kill the API server, as a crash does."""
        self._api_server.stop(grace=0)

    def start_api_server(self) -> None:
        """Start it again, and wait until it is ready.

        On a busy machine one of its own limits may be over before it is ready, and it ends. Where
        it is a pod, the kubelet starts it again, as is done here.
        """
        for left in (2, 1, 0):
            self._api_server.start()
            try:
                self._api_server.wait_until(self.api().ready, "the API server is ready")
            except NotReadyError:
                if not left or self._api_server.running():
                    raise
            else:
                return

    def stop_etcd(self) -> None:
        """Kill etcd; the API server stays and answers with errors."""
        self._etcd.stop(grace=0)

    def start_etcd(self) -> None:
        """Start it again, and wait until the API server is ready."""
        self._etcd.start()
        wait_until(self.api().ready, "the API server is ready after etcd")

    # ------------------------------------------------------------------ start and stop

    def start(self, releases: ReleaseSet | None = NEWEST) -> None:
        """Start everything; what is ready is really ready. None installs no definitions."""
        if self.tier >= Tier.NODE:
            node.ensure_packages()
        control_plane.prepare(self.layout)
        (self.home / "tier").write_text(str(int(self.tier)))
        self.layout.save()
        if self.tier >= Tier.NODE:
            network.make_network(self.layout)
        self._etcd.start()
        self.start_api_server()
        for daemon in self._others:
            daemon.start()
        if releases is not None:
            self._install_definitions(releases)
        if self.tier >= Tier.OPERATORS:
            operators.install(self.layout, self.api())
            self._operators = operators.daemons(self.layout)
            for daemon in self._operators:
                daemon.start()
        if self.tier >= Tier.NODE:
            node.start(self.layout, self.api())
        if self._operators:
            operators.wait_until_ready(self.layout, self._operators)

    def stop(self) -> None:
        """Stop everything and remove every trace of it."""
        if self.tier >= Tier.NODE:
            traces.stop(self.layout)
        for path in sorted((self.home / "run").glob("*")):
            # etcd last: an API server without it takes long to end, so neither gets time.
            Daemon(path.name, [], self.home).stop(grace=0)
        if self.tier >= Tier.NODE:
            network.remove_network(self.layout)
        shutil.rmtree(self.home)

    def _install_definitions(self, releases: ReleaseSet) -> None:
        folders = [("-f", str(release.files() / "definitions")) for release in releases.releases]
        files = [word for pair in folders for word in pair]
        apply = ("apply", "--server-side", "--validate=ignore", *files)
        for again in (True, True, True, True, False):
            try:
                self.kubectl(*apply)
            except CommandError:
                # A busy machine takes longer over a definition than the 34 s that the server gives
                # a request; those that are there already cost nothing.
                if not again:
                    raise
            else:
                break
        api = self.api()
        wait_until(lambda: _all_served(api), "every definition is served")


def _all_served(api: Api) -> bool:
    # kubectl wait fails on a definition that is too new to have conditions.
    found = api.ask("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions").body["items"]
    conditions = [each.get("status", {}).get("conditions") or [] for each in found]
    return all(
        any(one["type"] == "Established" and one["status"] == "True" for one in each)
        for each in conditions
    )


@contextmanager
def running(home: Path, tier: Tier, releases: ReleaseSet | None = NEWEST) -> Iterator[Cluster]:
    """A cluster for as long as it is wanted; `home` is made, and removed."""
    home.mkdir(parents=True)
    layout = network.own_layout(home) if tier >= Tier.NODE else loopback_layout(home)
    cluster = Cluster(layout, tier)
    try:
        cluster.start(releases)
        yield cluster
    finally:
        cluster.stop()


def attached(home: Path) -> Cluster:
    """A cluster that somebody started by hand."""
    return Cluster(load_layout(home), Tier(int((home / "tier").read_text())))
