# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Runs in a cluster or on this host: launch, status, logs, wait, stop, delete, list, forward."""

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
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
from seatrial.rendering.names import COMPONENT_LABEL, RUN_LABEL, Component
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
    """Ignore messages."""


@dataclass(frozen=True)
class FoundRun:
    """A run in a cluster or on this host."""

    name: str
    here: LocalRun | None
    """The run, if it is on this host."""
    namespace: str
    """The namespace. Empty for the context's."""
    kubeconfig: str
    context: str
    tell: Tell = _nobody
    """Receives progress messages."""
    only_name: bool = False
    """True if only a name was given, without a spec and without cluster options."""

    @cached_property
    def site(self) -> Site:
        """Connect to the run's namespace. Raises for a run on this host."""
        self._refuse_here()
        with self._named_here():
            return connect.connect(
                self.namespace, kubeconfig=self.kubeconfig, context=self.context, tell=self.tell
            )

    @cached_property
    def looked_at(self) -> Site:
        """Connect for a read-only call, which gives up quickly if the server is down."""
        self._refuse_here()
        with self._named_here():
            return connect_to_look(self.namespace, self.kubeconfig, self.context, self.tell)

    @contextmanager
    def _named_here(self) -> Iterator[None]:
        """Without a kubeconfig, a name that was not found here is no run, not a cluster's."""
        try:
            yield
        except ClusterError as error:
            if not self.only_name or error.code != ClusterCode.CONFIG:
                raise
            raise UsageError(
                f"no run {self.name} was launched from this directory, and no cluster was searched:"
                f" {error.findings[0].rule} To list the runs of this directory: seatrial list"
            ) from None

    def _refuse_here(self) -> None:
        if self.here is not None:
            raise UsageError(f"{self.name} runs on this host, not in a cluster.")

    @property
    def flags(self) -> str:
        """The options that the next command needs to find the run by name. Empty on this host."""
        if self.here is not None:
            return ""
        return flags_to(self.name, self.site.namespace, self.kubeconfig, self.context)

    def status(self) -> Status:
        """Return the state of the run, and the reasons if it is not running."""
        if self.here is not None:
            return status_here(self.here)
        return status_on_cluster(self.looked_at, self.name)

    def logs(self, asked: Asked) -> Iterator[RankLine]:
        """Yield the output of the newest attempt."""
        if self.here is not None:
            return lines_here(self.here, asked)
        return read_logs(self.site if asked.follow else self.looked_at, self.name, asked)

    def wait(self, limit: float | None, saw: Callable[[Status], None]) -> Status:
        """Wait until the run finishes or `limit` seconds have passed. Return the last status."""
        if self.here is not None:
            here = self.here
            return wait_for(lambda: status_here(here), limit, saw, tell=self.tell)
        site = self.site
        return wait_for(lambda: status_on_cluster(site, self.name), limit, saw, tell=self.tell)

    def stop(self) -> Stopped:
        """Stop the processes, which save a checkpoint first."""
        if self.here is None:
            return cluster_stop.stop(self.site, self.name)
        was_running, ledger = stop_here(self.here), self.here.read()
        newest = ledger.newest
        outcome = newest.outcome if newest and not was_running else None
        return Stopped(newest.number if newest else 0, was_running, outcome, ledger.damage)

    def forward_tensorboard(self, local_port: int) -> "Forward":
        """Forward a local port to the run's TensorBoard. Call `serve` to handle connections."""
        pod = _tensorboard_pod(self.site, self.name)
        made = connect.forward_to(self.site, pod, TENSORBOARD_PORT, local_port)
        made.probe()
        return made

    def removal(self, *, volumes: bool) -> Removal:
        """List the objects that deleting the run would remove."""
        if self.here is not None:
            kept = ("the run's data and checkpoints",)
            return Removal((f"directory {self.here.directory}",), kept)
        return cluster_stop.removal(self.site, self.name, volumes=volumes)

    def delete(self, *, volumes: bool) -> Removal:
        """Delete the job, then the other objects of the run."""
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
    """Find a run by name or by spec.

    The cluster options decide where to look, otherwise the profile of the spec. A name without
    cluster options is looked up on this host first.
    """
    on_cluster = bool(namespace or kubeconfig or context)
    if run.endswith((".yaml", ".yml")) or Path(run).is_file():
        return _run_of_spec(run, namespace, kubeconfig, context, tell)
    if not is_dns_label(run):
        raise UsageError(f"{run!r} is neither a run's name nor a spec. To list runs: seatrial list")
    known = {} if on_cluster else local_runs(Path())
    here = known.get(run) or (None if on_cluster else supervised_here(Path(), run))
    if here is None and not on_cluster and find_spec("kubernetes") is None:
        there = f" Found: {', '.join(sorted(known))}." if known else ""
        raise UsageError(
            f"no run {run} was launched from this directory.{there} To also search a cluster, "
            "run this in a Seatrial checkout: pip install '.[cluster]'"
        )
    return FoundRun(run, here, namespace, kubeconfig, context, tell, only_name=not on_cluster)


def _run_of_spec(run: str, namespace: str, kubeconfig: str, context: str, tell: Tell) -> FoundRun:
    """Find the run of a spec, even if the spec has errors."""
    place, directory = run_place(Path(run)), Path(run).parent
    name = place.name
    if not is_run_name(name):
        raise UsageError(
            f"{run}: name: cannot read the run's name from this file. Fix it, or pass the "
            "name instead of the file. To list runs: seatrial list"
        )
    here, on_host = None, _is_for_this_host(place)
    if not (namespace or kubeconfig or context) and on_host is not False:
        here = local_runs(directory).get(name) or supervised_here(directory, name)
        if here is None and on_host:
            raise UsageError(
                f"{name} was never launched on this host. To launch it: seatrial launch {run}"
            )
    namespace = namespace or place.namespace
    if here is None and not names_namespace(namespace):
        raise UsageError(
            f"{run}: cluster.namespace: cannot read the run's namespace from this file. "
            "Fix it, or pass --namespace NAME."
        )
    if place.is_doubtful:
        where = "on this host" if here is not None else f"in namespace {namespace}"
        tell(f"{run} is not a complete spec. Assuming run {name}, {where}.")
    return FoundRun(name, here, namespace, kubeconfig, context, tell)


def _is_for_this_host(place: RunPlace) -> bool | None:
    """True if the profile of a spec runs torchrun on this host.

    None if the operator or the profile is unknown.
    """
    if place.operator != Operator.AUTO:
        return place.operator == Operator.TORCHRUN if place.operator in set(Operator) else None
    try:
        return Operator.TORCHRUN in default_catalog().profile(place.profile).operators
    except NotInCatalogError:
        return None


def _tensorboard_pod(site: Site, run: str) -> str:
    """Return the name of the running TensorBoard pod. Raises with the reason if there is none."""
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
        "Wait until the pod is running. TensorBoard is on unless monitoring.tensorboard is false."
        if pods
        else "Launch the run with monitoring.tensorboard: true, which is the default.",
    )


def connect_to_look(
    namespace: str, kubeconfig: str, context: str, tell: Tell | None = None
) -> Site:
    """Connect to a namespace for a read-only call, which does not wait long."""
    return connect.connect(
        namespace, kubeconfig=kubeconfig, context=context, tell=tell, patience=connect.LOOKING
    )


def flags_to(run: str, namespace: str, kubeconfig: str, context: str) -> str:
    """Return the options that another command needs to find a run in a cluster."""
    own = connect.connect("", kubeconfig=kubeconfig, context=context).namespace
    # A name without options is looked up on this host first.
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
    """Launch a run in its cluster. Launching it again with the same spec has no effect.

    With the profile `local`, the run starts on this host in the background, without Kubernetes.

    Args:
        path: The spec.
        overrides: Fields to override.
        kubeconfig: The kubeconfig. Default: KUBECONFIG, else ~/.kube/config.
        context: The kubeconfig context. Default: the current one.
        confirm: Receives the differences of a changed spec, and returns True to replace the
            running one. If None, a changed spec raises FindingsError.
        tell: Receives progress messages.
        readmit: Repaired nodes that earlier attempts excluded.
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


def status(run: str, namespace: str = "", *, kubeconfig: str = "", context: str = "") -> Status:
    """Return the state of a run in a cluster or on this host, and the reasons for it.

    Args:
        run: The run's name or spec. A name without cluster options is looked up on this host
            first, as in all functions below.
        namespace: The namespace. Default: the one in the spec, else the context's.
        kubeconfig: The kubeconfig. Default: KUBECONFIG, else ~/.kube/config.
        context: The kubeconfig context. Default: the current one.
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
    """Yield the output of a run's newest attempt, with all ranks merged by time.

    Args:
        run: The run's name or spec.
        namespace: The namespace. Default: the one in the spec, else the context's.
        rank: Only this rank.
        follow: True to continue until the run finishes.
        tail: Start with this many lines of each pod.
        container: An init container instead: `preflight` or `install`.
        kubeconfig: The kubeconfig. Default: KUBECONFIG, else ~/.kube/config.
        context: The kubeconfig context. Default: the current one.
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
    """Wait until a run finishes or the timeout expires. Survives outages of the API server.

    Args:
        run: The run's name or spec.
        namespace: The namespace. Default: the one in the spec, else the context's.
        timeout: Seconds to wait. Default: no limit.
        saw: Receives every status.
        kubeconfig: The kubeconfig. Default: KUBECONFIG, else ~/.kube/config.
        context: The kubeconfig context. Default: the current one.
    """
    found = find_run(run, namespace, kubeconfig=kubeconfig, context=context)
    return found.wait(timeout, saw or (lambda _: None))


def stop(run: str, namespace: str = "", *, kubeconfig: str = "", context: str = "") -> Stopped:
    """Stop a run. Its processes save a checkpoint and exit; volumes and the ledger are kept."""
    return find_run(run, namespace, kubeconfig=kubeconfig, context=context).stop()


def delete(
    run: str,
    namespace: str = "",
    *,
    volumes: bool = False,
    kubeconfig: str = "",
    context: str = "",
) -> Removal:
    """Delete a run: its job, its other objects and its ledger. Does not ask for confirmation.

    Args:
        run: The run's name or spec.
        namespace: The namespace. Default: the one in the spec, else the context's.
        volumes: True to also delete the run's PVC with all checkpoints.
        kubeconfig: The kubeconfig. Default: KUBECONFIG, else ~/.kube/config.
        context: The kubeconfig context. Default: the current one.
    """
    found = find_run(run, namespace, kubeconfig=kubeconfig, context=context)
    return found.delete(volumes=volumes)


def forward(
    run: str,
    namespace: str = "",
    *,
    port: int = TENSORBOARD_PORT,
    kubeconfig: str = "",
    context: str = "",
    tell: Tell | None = None,
) -> "Forward":
    """Forward a local port to a run's TensorBoard. Call `serve` on the result to start.

    Listens on loopback only, because TensorBoard has no password. `local_port` of the result is
    the port.

    Args:
        run: The run's name or spec.
        namespace: The namespace. Default: the one of the spec, else of the context.
        port: The local port. 0 picks a free one.
        kubeconfig: The kubeconfig. Default: KUBECONFIG, else ~/.kube/config.
        context: The kubeconfig context. Default: the current one.
        tell: Receives messages.
    """
    found = find_run(run, namespace, kubeconfig=kubeconfig, context=context, tell=tell or _nobody)
    return found.forward_tensorboard(port)


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs in a namespace and on this host."""

    lines: tuple[RunLine, ...]
    """One per run, newest first."""
    namespace: str
    """The namespace that was listed. Empty if the cluster was not reachable."""
    trouble: SeatrialError | None = None
    """The error, if the cluster did not answer. `lines` then has the runs on this host."""


def list_runs(
    namespace: str = "", *, kubeconfig: str = "", context: str = "", tell: Tell | None = None
) -> Runs:
    """List the runs in a namespace and, unless a cluster is set, in this directory.

    Raises the cluster's error only if this host has no runs either.
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
    """True if no cluster is configured. A configured one that does not answer is an error."""
    is_unknown = isinstance(error, ClusterError) and error.code is ClusterCode.CONFIG
    return is_unknown or isinstance(error, MissingExtraError)
