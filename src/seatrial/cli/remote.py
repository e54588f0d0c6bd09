# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Commands with `--on kubernetes`, which run in pods that mount the run's volume."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from seatrial.catalog.catalog import default_catalog
from seatrial.cli.options import NO_NEXT
from seatrial.errors import UsageError
from seatrial.planning.plan import Plan
from seatrial.rendering.reader_pod import VolumeCommand, VolumeReading
from seatrial.reports.terminal import (
    say,
    say_error,
    say_following,
    say_json,
    say_text,
)
from seatrial.runs.data.prepare import JobProgress, prepare_on_cluster
from seatrial.runs.data.reader_pod import read_inside
from seatrial.runs.launch import connect
from seatrial.sdk.checkpoints import is_spec
from seatrial.sdk.plan import load_plan


class RemotePlace(StrEnum):
    """Where a command runs."""

    HERE = "here"
    KUBERNETES = "kubernetes"


On = Annotated[
    RemotePlace, typer.Option(help="Run here, or in a pod that mounts the run's volume.")
]


def prepare_in_pods(
    file: Path, overrides: Sequence[str], kubeconfig: str, context: str, *, as_json: bool
) -> None:
    """Prepare data in pods, and print the result."""
    catalog = default_catalog()
    loaded, plan = load_plan(file, overrides, catalog, tell=say_error)
    namespace = plan.spec.cluster.namespace
    site = connect.connect(namespace, kubeconfig=kubeconfig, context=context, tell=say_error)
    last = ""

    def tell(progress: JobProgress) -> None:
        nonlocal last
        text = f"{progress.step}: {progress.done:,} of {progress.tasks:,} done"
        if text != last and not as_json:
            say_error(text)
        last = text

    made = prepare_on_cluster(site, plan, catalog, loaded.where, tell)
    if as_json:
        say_json(made)
        return
    where = made.get("address") or plan.data_location
    tokens = f", {made['tokens']:,} tokens" if isinstance(made.get("tokens"), int) else ""
    say_text(f"Prepared {plan.spec.name} in {namespace}: {where}{tokens}.", rest="  ")
    say_following(f"seatrial launch {file}")


@dataclass(frozen=True, slots=True)
class Volume:
    """The volume of a run in a cluster."""

    where: str
    """The run's spec."""
    overrides: Sequence[str] | None
    kubeconfig: str
    context: str

    def run(
        self,
        line: Callable[[Plan], Sequence[str]],
        options: Mapping[str, object],
        reading: VolumeReading = VolumeReading.LOOKS,
        following: str = "",
    ) -> NoReturn:
        """Run a Seatrial command in a pod with the volume, and exit with its exit code.

        The pod does not print the next step, which would contain the pod's paths: `following` does.
        """
        if not is_spec(self.where):
            raise UsageError(
                "--on kubernetes needs the run's spec, which names the cluster. Pass the run.yaml."
            )
        catalog = default_catalog()
        _, plan = load_plan(self.where, self.overrides or (), catalog, tell=say_error)
        command = VolumeCommand((NO_NEXT, *line(plan), *_arguments(options)), reading)
        namespace = plan.spec.cluster.namespace
        site = connect.connect(
            namespace, kubeconfig=self.kubeconfig, context=self.context, tell=say_error
        )
        code = read_inside(site, plan, catalog, command, say)
        if following and code == 0 and not options.get("--json"):
            say_following(following)
        raise typer.Exit(code)


def _arguments(options: Mapping[str, object]) -> list[str]:
    """Turn options into arguments, without those that are not given."""
    given = {n: v for n, v in options.items() if v is not None and v is not False}
    return [name if value is True else f"{name}={value}" for name, value in given.items()]
