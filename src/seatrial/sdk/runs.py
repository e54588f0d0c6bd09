# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Runs on a cluster or on this host: render, launch, look at, wait for, stop, delete, list."""

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from seatrial.catalog.catalog import default_catalog
from seatrial.cluster import objects
from seatrial.cluster.errors import ClusterError
from seatrial.cluster.kinds import POD
from seatrial.codes.cluster import ClusterCode
from seatrial.errors import MissingExtraError, NotInCatalogError, SeatrialError, UsageError
from seatrial.naming import is_dns_label, is_run_name, names_namespace
from seatrial.rendering.attempt import Attempt, own_digest
from seatrial.rendering.names import COMPONENT_LABEL, RUN_LABEL, Component
from seatrial.rendering.render import Part, Rendering
from seatrial.rendering.render import render as render_plan
from seatrial.rendering.tensorboard import PORT as TENSORBOARD_PORT
from seatrial.runs import stop as cluster_stop
from seatrial.runs.history.logs import Asked, RankLine, lines_here, read_logs
from seatrial.runs.launch import connect
from seatrial.runs.launch.host import HostBackend
from seatrial.runs.launch.kubernetes import ClusterBackend
from seatrial.runs.launch.launcher import Confirm, Launched, Wanted
from seatrial.runs.launch.launcher import launch as launch_by
from seatrial.runs.ledger.host import LocalRun, local_run, local_runs, supervised_here
from seatrial.runs.namespace import Site, Tell
from seatrial.runs.status.container_reasons import is_running, why_not_running
from seatrial.runs.status.listing import RunLine, list_here, newest_first
from seatrial.runs.status.listing import list_runs as list_on_cluster
from seatrial.runs.status.status import Status, status_here
from seatrial.runs.status.status import status as status_on_cluster
from seatrial.runs.status.wait import wait as wait_for
from seatrial.runs.stop import Removal, Stopped, forget_here, stop_here
from seatrial.sdk.plan import Overrides, PathOrText, load_plan
from seatrial.spec.cluster import Operator
from seatrial.spec.loader import RunPlace, run_place
from seatrial.spec.placeholders import refuse_placeholders

if TYPE_CHECKING:
    from seatrial.cluster.port_forward import Forward


def _nobody(_: str) -> None:
    """Tell nobody."""


@dataclass(frozen=True)
class FoundRun:
    """The run that a call is about: on a cluster, or on this host."""

    name: str
    here: LocalRun | None
    """The run, when it is on this host."""
    namespace: str
    """Its namespace, as far as it is given."""
    kubeconfig: str
    context: str
    tell: Tell = _nobody
    """Told what takes long."""

    @cached_property
    def site(self) -> Site:
        """The namespace of the cluster where it is; refuses a run on this host."""
        self._refuse_here()
        return connect.connect(
            self.namespace, kubeconfig=self.kubeconfig, context=self.context, tell=self.tell
        )

    @cached_property
    def looked_at(self) -> Site:
        """The same for a look, which does not wait long for a server that is away."""
        self._refuse_here()
        return connect_to_look(self.namespace, self.kubeconfig, self.context, self.tell)

    def _refuse_here(self) -> None:
        if self.here is not None:
            raise UsageError(f"{self.name} runs on this host, and not on a cluster.")

    @property
    def flags(self) -> str:
        """What the next command needs to find it by its name; nothing on this host."""
        if self.here is not None:
            return ""
        return flags_to(self.name, self.site.namespace, self.kubeconfig, self.context)

    def status(self) -> Status:
        """How it is, with the reasons when it does not run."""
        if self.here is not None:
            return status_here(self.here)
        return status_on_cluster(self.looked_at, self.name)

    def logs(self, asked: Asked) -> Iterator[RankLine]:
        """What the processes of its newest attempt print."""
        if self.here is not None:
            return lines_here(self.here, asked)
        return read_logs(self.site if asked.follow else self.looked_at, self.name, asked)

    def wait(self, limit: float | None, saw: Callable[[Status], None]) -> Status:
        """Look at it until it is over or time is up; the last status."""
        if self.here is not None:
            here = self.here
            return wait_for(lambda: status_here(here), limit, saw, tell=self.tell)
        site = self.site
        return wait_for(lambda: status_on_cluster(site, self.name), limit, saw, tell=self.tell)

    def stop(self) -> Stopped:
        """End its processes: they save first."""
        if self.here is None:
            return cluster_stop.stop(self.site, self.name)
        was_running, ledger = stop_here(self.here), self.here.read()
        newest = ledger.newest
        outcome = newest.outcome if newest and not was_running else None
        return Stopped(newest.number if newest else 0, was_running, outcome, ledger.damage)

    def forward_tensorboard(self, local_port: int) -> "Forward":
        """A port of this host's loopback that leads to its TensorBoard; `serve` passes on."""
        pod = _tensorboard_pod(self.site, self.name)
        return connect.forward_to(self.site, pod, TENSORBOARD_PORT, local_port)

    def removal(self, *, volumes: bool) -> Removal:
        """What deleting it would remove."""
        if self.here is not None:
            return Removal((f"directory {self.here.directory}",), ("the run's own files",))
        return cluster_stop.removal(self.site, self.name, volumes=volumes)

    def delete(self, *, volumes: bool) -> Removal:
        """Delete it: its job first, then what was made for it."""
        if self.here is None:
            return cluster_stop.delete(self.site, self.name, volumes=volumes)
        gone = self.removal(volumes=volumes)
        forget_here(self.here)
        return gone


def find_run(
    run: str,
    namespace: str = "",
    *,
    kubeconfig: str = "",
    context: str = "",
    tell: Tell = _nobody,
) -> FoundRun:
    """The run of that name, or of that spec, and where it is.

    A word of a cluster decides, else the profile of the spec; a name without any word of a cluster
    is looked for on this host first.
    """
    on_cluster = bool(namespace or kubeconfig or context)
    if run.endswith((".yaml", ".yml")) or Path(run).is_file():
        return _run_of_spec(run, namespace, kubeconfig, context, tell)
    if not is_dns_label(run):
        raise UsageError(f"{run!r} is neither a run's name nor a spec. All runs: seatrial list.")
    known = {} if on_cluster else local_runs(Path())
    here = known.get(run) or (None if on_cluster else supervised_here(Path(), run))
    if here is None and not on_cluster and find_spec("kubernetes") is None:
        there = f" There are: {', '.join(sorted(known))}." if known else ""
        raise UsageError(
            f"no run {run} was launched from this directory.{there} To look in a cluster too: "
            "pip install '.[cluster]' in a checkout of Seatrial."
        )
    return FoundRun(run, here, namespace, kubeconfig, context, tell)


def _run_of_spec(run: str, namespace: str, kubeconfig: str, context: str, tell: Tell) -> FoundRun:
    """The run of a spec, whatever errors the spec has."""
    place, directory = run_place(Path(run)), Path(run).parent
    name = place.name
    if not is_run_name(name):
        raise UsageError(
            f"{run}: name: the name of the run cannot be read from this file. Fix it, or give "
            "the name instead of the file. All runs: seatrial list."
        )
    here, on_host = None, _is_for_this_host(place)
    if not (namespace or kubeconfig or context) and on_host is not False:
        here = local_runs(directory).get(name) or supervised_here(directory, name)
        if here is None and on_host:
            raise UsageError(
                f"{name} was never launched on this host. Launch it: seatrial launch {run}"
            )
    namespace = namespace or place.namespace
    if here is None and not names_namespace(namespace):
        raise UsageError(
            f"{run}: cluster.namespace: the namespace of the run cannot be read from this "
            "file. Fix it, or give it: --namespace NAME."
        )
    if place.is_doubtful:
        where = "on this host" if here is not None else f"in namespace {namespace}"
        tell(f"{run} is not a whole spec. Assumed from what it has: run {name}, {where}.")
    return FoundRun(name, here, namespace, kubeconfig, context, tell)


def _is_for_this_host(place: RunPlace) -> bool | None:
    """Whether the profile of a spec, shipped or the user's own, starts torchrun on this host.

    None if the operator or the profile is unknown: what is there decides then.
    """
    if place.operator != Operator.AUTO:
        return place.operator == Operator.TORCHRUN if place.operator in set(Operator) else None
    try:
        return Operator.TORCHRUN in default_catalog().profile(place.profile).operators
    except NotInCatalogError:
        return None


def _tensorboard_pod(site: Site, run: str) -> str:
    """The name of the pod; raises when there is none that runs, with the reason."""
    selector = f"{RUN_LABEL}={run},{COMPONENT_LABEL}={Component.TENSORBOARD}"
    pods, _ = objects.list_all(site.api, POD, site.namespace, selector)
    for pod in pods:
        if is_running(pod):
            return str(pod["metadata"]["name"])
    why = [finding.one_line() for pod in pods for finding in why_not_running(pod, [])]
    raise ClusterError(
        ClusterCode.NOT_FOUND,
        f"{site.namespace}/{run}",
        f"no pod serves TensorBoard: {why[0]}" if why else "no pod serves TensorBoard.",
        "Wait until it runs; a run has one unless monitoring.tensorboard is false."
        if pods
        else "Launch the run with monitoring.tensorboard, which is the default.",
    )


def connect_to_look(
    namespace: str, kubeconfig: str, context: str, tell: Tell | None = None
) -> Site:
    """A namespace of a cluster for a call that only looks, and does not wait long."""
    return connect.connect(
        namespace, kubeconfig=kubeconfig, context=context, tell=tell, patience=connect.LOOKING
    )


def flags_to(run: str, namespace: str, kubeconfig: str, context: str) -> str:
    """What another command needs to find a run on a cluster: what was given, and its namespace."""
    own = connect.connect("", kubeconfig=kubeconfig, context=context).namespace
    # By its name alone, a run on this host is found first.
    is_named = namespace != own or run in local_runs(Path())
    given = {
        "-n": namespace if is_named else "",
        "--kubeconfig": kubeconfig,
        "--context": context,
    }
    return "".join(f" {flag} {shlex.quote(value)}" for flag, value in given.items() if value)


def launch(
    path: PathOrText,
    overrides: Overrides = (),
    *,
    kubeconfig: str = "",
    context: str = "",
    confirm: Confirm | None = None,
    tell: Tell | None = None,
    readmit: Sequence[str] = (),
) -> Launched:
    """Make sure that a run is on its cluster once, as its spec says; launching twice does nothing.

    With the profile `local` it runs on this host, in the background, without Kubernetes.

    Args:
        path: The spec.
        overrides: Fields to set differently.
        kubeconfig: The kubeconfig; KUBECONFIG, else ~/.kube/config, when empty.
        context: The context in it; the current one when empty.
        confirm: Asked with the differences whether a changed spec takes the place of the one
            before; without it, a changed spec raises FindingsError.
        tell: Told what takes long.
        readmit: Nodes that earlier attempts left out and that are mended.
    """
    catalog = default_catalog()
    loaded, resolved = load_plan(path, overrides, catalog, tell=tell)
    refuse_placeholders(loaded)
    agree = confirm or (lambda _: False)
    wanted = Wanted(resolved, catalog, loaded.where, tuple(readmit))
    if resolved.machines.operator is Operator.TORCHRUN:
        here = HostBackend(local_run(Path(path).parent, resolved.spec.name))
        return launch_by(here, wanted, agree)
    namespace = resolved.spec.cluster.namespace
    site = connect.connect(namespace, kubeconfig=kubeconfig, context=context, tell=tell)
    fit = connect.fitting(site, resolved, catalog, loaded.where)
    return launch_by(ClusterBackend(site), replace(wanted, plan=fit), agree)


def render(path: PathOrText, overrides: Overrides = (), part: Part | str = "run") -> Rendering:
    """The Kubernetes manifests of a run, as plain data; no cluster is asked.

    Args:
        path: The spec.
        overrides: Fields to set differently.
        part: `run`, `data` or `admin`.
    """
    catalog = default_catalog()
    loaded, plan = load_plan(path, overrides, catalog, keep=False)
    return render_plan(plan, catalog, Part(part), Attempt(code_digest=own_digest()), loaded.where)


def status(run: str, namespace: str = "", *, kubeconfig: str = "", context: str = "") -> Status:
    """How a run is, on a cluster or on this host, with the reasons when it does not run.

    Args:
        run: The name of the run, or its spec. A name without any word of a cluster is looked for
            on this host first, as in all functions below.
        namespace: Its namespace; that of the spec, else of the context, when empty.
        kubeconfig: The kubeconfig; KUBECONFIG, else ~/.kube/config, when empty.
        context: The context in it; the current one when empty.
    """
    return find_run(run, namespace, kubeconfig=kubeconfig, context=context).status()


def logs(
    run: str,
    namespace: str = "",
    *,
    rank: int | None = None,
    follow: bool = False,
    tail: int | None = None,
    container: str = "",
    kubeconfig: str = "",
    context: str = "",
) -> Iterator[RankLine]:
    """What the processes of a run's newest attempt print, all ranks merged by time.

    Args:
        run: The name of the run, or its spec.
        namespace: Its namespace; that of the spec, else of the context, when empty.
        rank: Only of this rank.
        follow: Whether to go on until the run is over.
        tail: Only so many lines of each pod, to begin with.
        container: An init container instead: `preflight` or `install`.
        kubeconfig: The kubeconfig; KUBECONFIG, else ~/.kube/config, when empty.
        context: The context in it; the current one when empty.
    """
    found = find_run(run, namespace, kubeconfig=kubeconfig, context=context)
    return found.logs(Asked(rank, follow, tail, container))


def wait(
    run: str,
    namespace: str = "",
    *,
    timeout: float | None = None,
    saw: Callable[[Status], None] | None = None,
    kubeconfig: str = "",
    context: str = "",
) -> Status:
    """Wait until a run is over or time is up, whatever happens to the API server meanwhile.

    Args:
        run: The name of the run, or its spec.
        namespace: Its namespace; that of the spec, else of the context, when empty.
        timeout: Seconds to wait; for ever when absent.
        saw: Told every status on the way.
        kubeconfig: The kubeconfig; KUBECONFIG, else ~/.kube/config, when empty.
        context: The context in it; the current one when empty.
    """
    found = find_run(run, namespace, kubeconfig=kubeconfig, context=context)
    return found.wait(timeout, saw or (lambda _: None))


def stop(run: str, namespace: str = "", *, kubeconfig: str = "", context: str = "") -> Stopped:
    """Stop a run: its processes save and end; volumes and the ledger stay."""
    return find_run(run, namespace, kubeconfig=kubeconfig, context=context).stop()


def delete(
    run: str,
    namespace: str = "",
    *,
    volumes: bool = False,
    kubeconfig: str = "",
    context: str = "",
) -> Removal:
    """Delete a run: its job, all that was made for it, and its ledger; nobody is asked.

    Args:
        run: The name of the run, or its spec.
        namespace: Its namespace; that of the spec, else of the context, when empty.
        volumes: Whether its volume claim goes too, with all checkpoints.
        kubeconfig: The kubeconfig; KUBECONFIG, else ~/.kube/config, when empty.
        context: The context in it; the current one when empty.
    """
    found = find_run(run, namespace, kubeconfig=kubeconfig, context=context)
    return found.delete(volumes=volumes)


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs that were found."""

    lines: tuple[RunLine, ...]
    """One for each run, the newest first."""
    namespace: str
    """The namespace that was asked; empty if none could be."""
    trouble: SeatrialError | None = None
    """Why the cluster gave no answer, where there is one; the runs of this host are listed."""


def list_runs(
    namespace: str = "", *, kubeconfig: str = "", context: str = "", tell: Tell | None = None
) -> Runs:
    """The runs of a namespace and, unless a cluster is named, those of this directory on this host.

    Raises what went wrong with the cluster where this host has no run either.
    """
    here = [] if namespace or kubeconfig or context else list_here(Path())
    try:
        site = connect_to_look(namespace, kubeconfig, context, tell)
        return Runs(tuple(newest_first([*here, *list_on_cluster(site)])), site.namespace)
    except SeatrialError as error:
        if not here:
            raise
        trouble = None if _has_no_cluster(error) else error
        return Runs(tuple(newest_first(here)), "", trouble)


def _has_no_cluster(error: SeatrialError) -> bool:
    """Whether there is no way to a cluster at all; one that does not answer is trouble."""
    is_unknown = isinstance(error, ClusterError) and error.code is ClusterCode.CONFIG
    return is_unknown or isinstance(error, MissingExtraError)
