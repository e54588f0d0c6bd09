# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Starting the worker's programs for weights: export, import, and the gate of an export."""

import json
import math
import os
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from seatrial.checkpoints.exchange.export_plan import EXPORT_RECORD
from seatrial.checkpoints.verification import verify
from seatrial.codes.exchange import ExchangeCode, refusal
from seatrial.engine_process.package_path import python_path
from seatrial.engine_process.process import DEFAULT, worker_python
from seatrial.engines.engine import Arguments, Engine
from seatrial.engines.registry import ENGINES
from seatrial.errors import FindingsError, SeatrialError
from seatrial.findings import Finding, Severity, Where, has_errors
from seatrial.planning.plan import Plan
from seatrial.storage.location import LocalPlace
from seatrial.storage.state_files import read_json, write_whole

LOGITS_BAR = 1e-4
"""Largest difference of a logit between the engine and an export, both in fp32."""
RELATIVE_BAR = 1e-5
"""The same as a share of the largest logit, which counts where logits are above 10: rounding grows
with them. A choice with room to spare, not a measured limit; no export that was tried needed it."""

Tell = Callable[[str, int, int], None]
"""Told what is being done, and how many bytes of how many are done."""


class WeightsError(SeatrialError):
    """The worker ended without an answer; the text is its last word."""


@dataclass(frozen=True, slots=True)
class Logits:
    """How far two models are apart on the same tokens."""

    largest: float
    """The largest difference of a logit; infinite where they cannot be compared."""
    tokens: int
    """Tokens that both were given."""
    vocabulary: int
    """Logits of each token."""
    same_choice: int
    """Tokens for which both rank the same entry first."""
    largest_logit: float = 0.0
    """The engine's logit that is farthest from 0."""

    @property
    def bar(self) -> float:
        """The difference that is still rounding."""
        return max(LOGITS_BAR, RELATIVE_BAR * self.largest_logit)

    @property
    def equal(self) -> bool:
        """Whether they are within the bar."""
        return self.largest <= self.bar

    @property
    def says(self) -> str:
        """What it means, in a sentence."""
        if math.isnan(self.largest):
            return "its logits are no numbers: the training has diverged."
        if math.isinf(self.largest):
            return "transformers builds a model of another vocabulary from it than the engine."
        return (
            f"a logit in transformers is {self.largest:.0e} from the engine's, "
            f"and at most {self.bar:.0e} is rounding."
        )


def export_weights(
    source: str,
    directory: str,
    target: Path,
    tell: Tell | None = None,
    engine: Engine = DEFAULT,
) -> dict[str, Any]:
    """Write a checkpoint's weights as Hugging Face's; what the export's record says.

    Args:
        source: Where the run's checkpoints are.
        directory: The checkpoint's directory there.
        target: A directory that is empty or not there.
        tell: Told of the progress.
        engine: The engine that saved it, in whose environment it is read.
    """
    return _run("seatrial.worker.weights.export", [source, directory, str(target)], tell, engine)


def import_weights(source: Path, target: Path, tell: Tell | None = None) -> dict[str, Any]:
    """Write Hugging Face weights as a checkpoint of step 0; what was written."""
    return _run(DEFAULT.modules.import_weights, [str(source), str(target)], tell)


def compare_logits(
    checkpoint: Path,
    weights: Path,
    arguments: Arguments,
    seed: int = 1,
    engine: Engine = DEFAULT,
) -> Logits:
    """The gate: the engine's logits of a checkpoint against those of weights in transformers.

    The checkpoint is verified first: the engine's loader unpickles some of it.

    Args:
        checkpoint: The checkpoint's directory.
        weights: A directory of Hugging Face weights.
        arguments: The engine's, of the run that saved it; made ready for one rank and fp32 here.
        seed: From which the tokens are drawn.
        engine: The engine.
    """
    wrong = verify(LocalPlace(checkpoint.parent), checkpoint.name)
    if has_errors(wrong):
        raise FindingsError(wrong)
    with TemporaryDirectory(prefix="seatrial-logits-") as scratch:
        file = str(Path(scratch) / "logits.pt")
        words = engine.command_line(engine.one_rank_arguments(arguments))
        told = [str(checkpoint), file, str(seed), *words]
        _run(engine.modules.logits, told, engine=engine)
        said = _run("seatrial.worker.weights.compare_logits", [str(weights), file], engine=engine)
    if said["largest"] is None:
        return Logits(math.inf, 0, 0, 0)
    return Logits(**{field.name: said[field.name] for field in fields(Logits)})


def prove_export(checkpoint: Path, weights: Path, plan: Plan) -> dict[str, Any]:
    """Send an export of a run through the gate; its record, which tells of it from now on."""
    engine = ENGINES[plan.spec.engine.name]
    arguments = engine.pod_arguments(plan, on_cpu=True, scratch="")
    try:
        found = compare_logits(checkpoint, weights, arguments, engine=engine)
    except WeightsError as error:
        raise WeightsError(
            f"{error}. The weights are in {weights}, and were not compared; a comparison takes "
            "8 bytes of memory for each parameter. Without --compare they are taken as they are."
        ) from None
    record = weights / EXPORT_RECORD
    told: dict[str, Any] = read_json(record)
    told["logits"] = {
        "equal": found.equal,
        # JSON has no other numbers.
        "largest_difference": found.largest if math.isfinite(found.largest) else None,
        "tokens": found.tokens,
        "says": found.says,
    }
    write_whole(record, json.dumps(told, indent=2, ensure_ascii=False) + "\n")
    return told


def refuse_other_logits(told: dict[str, Any], weights: Path) -> None:
    """Refuse an export that was sent through the gate and did not pass."""
    gate = told.get("logits")
    if gate is None or gate["equal"]:
        return
    fix = (
        f"Do not use this export of {told['checkpoint']}, and report it with the spec unless the "
        f"losses of the run say why. To export anew, remove {weights} first."
    )
    raise refusal(ExchangeCode.OTHER_LOGITS, str(weights), gate["says"], fix)


def why_not_exported(engine: Engine, arguments: Arguments) -> str:
    """Why a model with such arguments of an engine cannot be exported; empty where it can."""
    try:
        engine.checkpoints.exchange.refuse_plan(arguments)
    except FindingsError as error:
        return error.findings[0].rule
    return ""


def _run(
    module: str, words: list[str], tell: Tell | None = None, engine: Engine = DEFAULT
) -> dict[str, Any]:
    """What a program of the worker's answers; its findings, or its last word, are raised."""
    settings = os.environ | {"PYTHONPATH": python_path(), "PYTHONWARNINGS": "ignore"}
    command = [worker_python(engine), "-m", module, *words]
    said: dict[str, Any] = {}
    reason = "nothing was said"
    with subprocess.Popen(  # noqa: S603  (our own words, no shell)
        command,
        env=settings,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        try:
            for line in process.stdout or ():
                told = _json(line)
                said = told or said
                reason = reason if told or not line.strip() else line.strip()
                if tell is not None and "doing" in told:
                    tell(told["doing"], told["done"], told["total"])
        except BaseException:
            process.terminate()
            raise
    if "result" in said:
        result: dict[str, Any] = said["result"]
        return result
    if "findings" in said:
        raise FindingsError([_finding(values) for values in said["findings"]])
    if process.returncode == -signal.SIGKILL:
        reason = "it was killed, most likely because the host has too little memory"
    name = module.rpartition(".")[2]
    raise WeightsError(f"{name} did not come to its end: {said.get('failed') or reason}")


def _json(line: str) -> dict[str, Any]:
    """What a line says; nothing where it is somebody else's."""
    try:
        value = json.loads(line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _finding(values: dict[str, Any]) -> Finding:
    """A finding that a worker has printed."""
    where = Where(**values["where"])
    rest = {name: values[name] for name in ("code", "rule", "value", "fix")}
    return Finding(severity=Severity(values["severity"]), where=where, **rest)
