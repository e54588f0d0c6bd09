# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Commands with `--on kubernetes`, which run in pods that mount the run's volume."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from seatrial.planning.plan import Plan
from seatrial.rendering.reader_pod import VolumeReading
from seatrial.reports.terminal import say_error, say_following, say_json, say_text
from seatrial.runs.data.prepare import JobProgress
from seatrial.sdk.remote import PodAnswer, ask_on_volume, prepare_data_on_cluster


class RemotePlace(StrEnum):
    """Where a command runs."""

    HERE = "here"
    KUBERNETES = "kubernetes"


On = Annotated[
    RemotePlace, typer.Option(help="Run here, or in a pod that mounts the run's volume.")
]

ON_KUBERNETES = " --on kubernetes"
"""The option in the next command, after one that ran in a pod."""


def prepare_in_pods(
    file: Path, overrides: Sequence[str], kubeconfig: str, context: str, *, as_json: bool
) -> None:
    """Prepare data in pods, and print the result."""
    last = ""

    def tell(progress: JobProgress) -> None:
        nonlocal last
        text = f"{progress.step}: {progress.done:,} of {progress.tasks:,} done"
        if text != last and not as_json:
            say_error(text)
        last = text

    prepared = prepare_data_on_cluster(
        file, overrides, kubeconfig=kubeconfig, context=context, progress=tell, tell=say_error
    )
    plan, made = prepared.plan, prepared.answer
    if as_json:
        say_json(made)
        return
    where = made.get("address") or plan.data_location
    tokens = f", {made['tokens']:,} tokens" if isinstance(made.get("tokens"), int) else ""
    namespace = plan.spec.cluster.namespace
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

    def ask(
        self,
        words: Callable[[Plan], Sequence[str]],
        options: Mapping[str, object] | None = None,
        reading: VolumeReading = VolumeReading.LOOKS,
        *,
        as_json: bool,
    ) -> PodAnswer:
        """Run a Seatrial command in a pod with the volume, and return its answer.

        With `as_json`, print the answer and exit with the exit code of the command.
        """
        answer = ask_on_volume(
            self.where,
            self.overrides or (),
            words,
            options or {},
            reading,
            kubeconfig=self.kubeconfig,
            context=self.context,
            tell=say_error,
        )
        if as_json and answer.data is not None:
            say_json(answer.data)
            raise typer.Exit(answer.exit_code)
        return answer
