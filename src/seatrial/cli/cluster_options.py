# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Options of the commands that ask a cluster, and which run they mean."""

import shlex
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from seatrial.catalog.catalog import default_catalog
from seatrial.cli.output import say_error
from seatrial.client import connect, load_spec
from seatrial.errors import NotInCatalogError, UsageError
from seatrial.naming import is_dns_label
from seatrial.runs.local_ledger import LocalRun, local_runs
from seatrial.runs.site import Site
from seatrial.spec.cluster import Operator
from seatrial.spec.run import RunSpec

Kubeconfig = Annotated[
    str, typer.Option(metavar="FILE", help="The kubeconfig; KUBECONFIG or ~/.kube/config else.")
]
"""The kubeconfig."""

Context = Annotated[
    str, typer.Option(metavar="NAME", help="The context in it; the current one when absent.")
]
"""The context in the kubeconfig."""

Namespace = Annotated[
    str,
    typer.Option(
        "--namespace", "-n", metavar="NAME", help="The namespace; the spec's or context's else."
    ),
]
"""The namespace of the run."""

Run = Annotated[str, typer.Argument(metavar="RUN|RUN.YAML", help="The name of a run, or its spec.")]
"""The name of a run, or its spec."""

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
"""Do not ask."""


@dataclass(frozen=True, slots=True)
class Meant:
    """The run that a command is about: on a cluster, or on this host."""

    name: str
    """Its name."""
    here: LocalRun | None
    """The run, when it is on this host."""
    namespace: str
    """Its namespace, as far as it is given."""
    kubeconfig: str
    """The kubeconfig, as far as it is given."""
    context: str
    """The context, as far as it is given."""

    @property
    def site(self) -> Site:
        """The namespace of the cluster where it is; refuses a run on this host."""
        self._refuse_here()
        return connect(
            self.namespace, kubeconfig=self.kubeconfig, context=self.context, tell=say_error
        )

    @property
    def looked_at(self) -> Site:
        """The same for a look, which does not wait long for a server that is away."""
        self._refuse_here()
        return connect_to_look(self.namespace, self.kubeconfig, self.context)

    def _refuse_here(self) -> None:
        if self.here is not None:
            raise UsageError(f"{self.name} runs on this host, and not on a cluster.")

    @property
    def flags(self) -> str:
        """What the next command needs to find it by its name; nothing on this host."""
        if self.here is not None:
            return ""
        return flags_to(self.name, self.site.namespace, self.kubeconfig, self.context)


def connect_to_look(namespace: str, kubeconfig: str, context: str) -> Site:
    """A namespace of a cluster for a command that only looks, and does not wait long."""
    # Loaded here, for a run on this host needs none of it.
    from seatrial.runs import clusters  # noqa: PLC0415

    return clusters.connect(
        namespace,
        kubeconfig=kubeconfig,
        context=context,
        tell=say_error,
        patience=clusters.LOOKING,
    )


def flags_to(run: str, namespace: str, kubeconfig: str, context: str) -> str:
    """What another command needs to find a run on a cluster: what was given, and its namespace."""
    own = connect("", kubeconfig=kubeconfig, context=context).namespace
    # By its name alone, a run on this host is found first.
    is_named = namespace != own or run in local_runs(Path())
    given = {
        "-n": namespace if is_named else "",
        "--kubeconfig": kubeconfig,
        "--context": context,
    }
    return "".join(f" {flag} {shlex.quote(value)}" for flag, value in given.items() if value)


def meant(run: str, namespace: str, kubeconfig: str, context: str) -> Meant:
    """The run of that name, or of that spec, and where it is.

    A word of a cluster decides, else the profile of the spec; a name without any word of a cluster
    is looked for on this host first.
    """
    on_cluster = bool(namespace or kubeconfig or context)
    if run.endswith((".yaml", ".yml")) or Path(run).is_file():
        spec, directory = load_spec(run), Path(run).parent
        here, on_host = None, _is_for_this_host(spec)
        if not on_cluster and on_host is not False:
            here = local_runs(directory).get(spec.name)
            if here is None and on_host:
                raise UsageError(
                    f"{spec.name} was never launched on this host. Launch it: seatrial launch {run}"
                )
        namespace = namespace or spec.cluster.namespace
        return Meant(spec.name, here, namespace, kubeconfig, context)
    if not is_dns_label(run):
        raise UsageError(f"{run!r} is neither a run's name nor a spec. All runs: seatrial list.")
    known = {} if on_cluster else local_runs(Path())
    here = known.get(run)
    if here is None and not on_cluster and find_spec("kubernetes") is None:
        there = f" There are: {', '.join(sorted(known))}." if known else ""
        raise UsageError(
            f"no run {run} was launched from this directory.{there} To look in a cluster too: "
            "pip install '.[cluster]' in a checkout of Seatrial."
        )
    return Meant(run, here, namespace, kubeconfig, context)


def _is_for_this_host(spec: RunSpec) -> bool | None:
    """Whether the profile of a spec, shipped or the user's own, starts torchrun on this host.

    None where nobody knows the profile any more: what is there decides then.
    """
    chosen = spec.cluster.operator
    if chosen is not Operator.AUTO:
        return chosen is Operator.TORCHRUN
    try:
        return Operator.TORCHRUN in default_catalog().profile(spec.cluster.profile).operators
    except NotInCatalogError:
        return None
