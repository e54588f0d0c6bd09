# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Work in pods of the run's cluster: prepare data, and run commands on the run's volume."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn

from seatrial.catalog.catalog import default_catalog
from seatrial.errors import ExitCode, FindingsError, SeatrialError, UsageError
from seatrial.findings import Finding
from seatrial.planning.plan import Plan
from seatrial.rendering.reader_pod import VolumeCommand, VolumeReading
from seatrial.runs.data.prepare import JobProgress, prepare_on_cluster
from seatrial.runs.data.reader_pod import read_inside
from seatrial.runs.launch import connect
from seatrial.runs.namespace import Tell
from seatrial.sdk.checkpoints import is_spec
from seatrial.sdk.plan import Overrides, PathOrText, load_plan
from seatrial.storage.state_files import DamagedError, decode
from seatrial.version import VERSION


@dataclass(frozen=True, slots=True)
class PreparedOnCluster:
    """Data that was prepared in pods."""

    plan: Plan
    answer: dict[str, Any]
    """The description of the data that the last pod printed. Empty if its log is gone."""


def prepare_data_on_cluster(
    path: PathOrText,
    overrides: Overrides = (),
    *,
    kubeconfig: str = "",
    context: str = "",
    progress: Callable[[JobProgress], None] | None = None,
    tell: Tell | None = None,
) -> PreparedOnCluster:
    """Prepare the data of a spec in the run's cluster, with one pod per task. Resumable.

    Args:
        path: The spec.
        overrides: Fields to override.
        kubeconfig: The kubeconfig. Default: KUBECONFIG, else ~/.kube/config.
        context: The kubeconfig context. Default: the current one.
        progress: Receives the progress.
        tell: Receives messages.
    """
    catalog = default_catalog()
    loaded, plan = load_plan(path, overrides, catalog, tell=tell)
    namespace = plan.spec.cluster.namespace
    site = connect.connect(namespace, kubeconfig=kubeconfig, context=context, tell=tell)
    follow = progress or (lambda _: None)
    return PreparedOnCluster(plan, prepare_on_cluster(site, plan, catalog, loaded.where, follow))


class PodCommandError(SeatrialError):
    """A command in a pod failed, or its answer cannot be used."""

    def __init__(self, text: str, code: int = ExitCode.FINDINGS) -> None:
        """Keep the exit code of the command."""
        super().__init__(text)
        self.exit_code = code


@dataclass(frozen=True, slots=True)
class PodAnswer:
    """The answer of a command in a pod."""

    data: Any
    """What it printed with --json. None if it printed no JSON."""
    exit_code: int
    plan: Plan
    """The plan of the run whose volume the pod mounts."""
    image_field: str
    """The spec field with the image of the pod."""

    def read[T](self, read: Callable[[Any], T]) -> T:
        """Convert the answer. Raises the error that the command reported, if any."""
        if isinstance(self.data, dict) and "error" in self.data:
            self._raise(self.data)
        if self.data is None:
            raise PodCommandError(
                f"the command in the pod exited with code {self.exit_code} and printed no result. "
                f"Its output is above. {self._advice()}",
                self.exit_code or ExitCode.FINDINGS,
            )
        try:
            return read(self.data)
        except (DamagedError, LookupError, TypeError) as error:
            why = f"{error.args[0]} is missing" if isinstance(error, KeyError) else error
            raise PodCommandError(
                f"the command in the pod answered in an unexpected format: {why}. {self._advice()}"
            ) from None

    def _advice(self) -> str:
        return (
            f"The image may contain an older Seatrial: set {self.image_field} to an image with "
            f"version {VERSION}."
        )

    def _raise(self, data: dict[str, Any]) -> NoReturn:
        """Raise the error that the command printed with --json."""
        findings: list[Finding] = []
        with suppress(DamagedError, LookupError, TypeError):
            findings = [decode(Finding, each) for each in data["findings"]]
        if not findings:
            raise PodCommandError(str(data["error"]), self.exit_code)
        found = FindingsError(findings)
        found.exit_code = self.exit_code
        raise found


def ask_on_volume(
    where: str,
    overrides: Overrides,
    words: Callable[[Plan], Sequence[str]],
    options: Mapping[str, object],
    reading: VolumeReading = VolumeReading.LOOKS,
    *,
    kubeconfig: str = "",
    context: str = "",
    tell: Tell,
) -> PodAnswer:
    """Run a Seatrial command with --json in a pod with the run's volume.

    Args:
        where: The run's spec.
        overrides: Fields to override.
        words: Returns the command and its arguments. Their paths are those in the pod.
        options: The options of the command. None and False omit an option.
        reading: How the command accesses the volume.
        kubeconfig: The kubeconfig. Default: KUBECONFIG, else ~/.kube/config.
        context: The kubeconfig context. Default: the current one.
        tell: Receives progress messages, and each line of the pod that is not its answer.
    """
    if not is_spec(where):
        raise UsageError(
            "--on kubernetes needs the run's spec, which names the cluster. Pass the run.yaml."
        )
    catalog = default_catalog()
    _, plan = load_plan(where, overrides, catalog, tell=tell)
    given = {n: v for n, v in options.items() if v is not None and v is not False}
    flags = [name if value is True else f"{name}={value}" for name, value in given.items()]
    command = VolumeCommand((*words(plan), *flags, "--json"), reading)
    namespace = plan.spec.cluster.namespace
    site = connect.connect(namespace, kubeconfig=kubeconfig, context=context, tell=tell)
    output = _PodOutput(tell)
    code = read_inside(site, plan, catalog, command, output.add)
    field = "cluster.image" if reading.needs_engine else "cluster.preparation.image"
    return PodAnswer(output.answer(), code, plan, field)


class _PodOutput:
    """Separates the answer of a pod from its other lines: a log contains both streams."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._lines: list[str] = []

    def add(self, line: str) -> None:
        """Pass a line on, unless the answer has started: it starts with a bracket."""
        if self._lines or line.startswith(("{", "[")):
            self._lines.append(line)
        else:
            self._tell(line)

    def answer(self) -> Any:
        """Return the parsed answer, and pass on the lines around it. None if there is no JSON."""
        for start, line in enumerate(self._lines):
            if line.startswith(("{", "[")):
                text = "\n".join(self._lines[start:])
                with suppress(ValueError, RecursionError):
                    data, end = json.JSONDecoder().raw_decode(text)
                    # Lines such as "[1] Killed" only start like JSON.
                    if text[end : end + 1] in ("", "\n"):
                        for other in (*self._lines[:start], *text[end:].splitlines()):
                            if other.strip():
                                self._tell(other)
                        return data
        for line in self._lines:
            self._tell(line)
        return None
