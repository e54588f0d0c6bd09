# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Start the worker's programs for weights: export, import, comparison of logits, generation."""

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
from seatrial.engine_process.process import worker_python
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
"""The same relative to the largest logit. It applies to logits above 10, because rounding grows
with them. A choice with a margin, not a measured limit; no tested export needed it."""

Tell = Callable[[str, int, int], None]
"""Progress callback: the current activity, the bytes done and the total bytes."""


class WeightsError(SeatrialError):
    """The worker ended without a result. The message is its last output."""


@dataclass(frozen=True, slots=True)
class Logits:
    """The difference between two models on the same tokens."""

    largest: float
    """The largest difference of a logit; infinite if they cannot be compared."""
    tokens: int
    """Number of tokens compared."""
    vocabulary: int
    """Logits per token."""
    same_choice: int
    """Tokens for which both models rank the same entry first."""
    largest_logit: float = 0.0
    """The engine's largest absolute logit."""

    @property
    def bar(self) -> float:
        """The largest difference that counts as rounding."""
        return max(LOGITS_BAR, RELATIVE_BAR * self.largest_logit)

    @property
    def equal(self) -> bool:
        """True if the difference counts as rounding."""
        return self.largest <= self.bar

    @property
    def says(self) -> str:
        """The result as a sentence."""
        if math.isnan(self.largest):
            return "its logits are NaN: the training has diverged."
        if math.isinf(self.largest):
            return "the model's vocabulary in transformers differs from the engine's."
        return (
            f"a logit in transformers is {self.largest:.0e} from the engine's, "
            f"and at most {self.bar:.0e} is rounding."
        )


def export_weights(
    source: str,
    directory: str,
    target: Path,
    tell: Tell | None = None,
    *,
    engine: Engine,
) -> dict[str, Any]:
    """Export a checkpoint's weights for Hugging Face; return the export's record.

    Args:
        source: The location of the run's checkpoints.
        directory: The checkpoint's directory there.
        target: An empty or new directory.
        tell: Progress callback.
        engine: The engine that saved it, whose environment reads it.
    """
    return _run(engine, "seatrial.worker.weights.export", [source, directory, str(target)], tell)


def import_weights(
    source: Path, target: Path, tell: Tell | None = None, *, engine: Engine
) -> dict[str, Any]:
    """Write Hugging Face weights as a checkpoint of step 0; return its description."""
    return _run(engine, engine.modules.import_weights, [str(source), str(target)], tell)


def compare_logits(
    checkpoint: Path,
    weights: Path,
    arguments: Arguments,
    seed: int = 1,
    *,
    engine: Engine,
) -> Logits:
    """Compare the engine's logits of a checkpoint with those of weights in transformers.

    Verifies the checkpoint first, because the engine's loader unpickles parts of it.

    Args:
        checkpoint: The checkpoint's directory.
        weights: A directory of Hugging Face weights.
        arguments: The engine's arguments of the run; adapted here to one rank and fp32.
        seed: Seed for the tokens.
        engine: The engine.
    """
    wrong = verify(LocalPlace(checkpoint.parent), checkpoint.name)
    if has_errors(wrong):
        raise FindingsError(wrong)
    with TemporaryDirectory(prefix="seatrial-logits-") as scratch:
        file = str(Path(scratch) / "logits.pt")
        words = engine.command_line(engine.one_rank_arguments(arguments))
        told = [str(checkpoint), file, str(seed), *words]
        _run(engine, engine.modules.logits, told)
        said = _run(engine, "seatrial.worker.weights.compare_logits", [str(weights), file])
    if said["largest"] is None:
        return Logits(math.inf, 0, 0, 0)
    return Logits(**{field.name: said[field.name] for field in fields(Logits)})


def generate_text(
    weights: Path, prompt: str, *, tokens: int, temperature: float, seed: int, engine: Engine
) -> dict[str, Any]:
    """Let exported weights continue a prompt; return the text, its length and the model's class."""
    words = [str(weights), prompt, str(tokens), str(temperature), str(seed)]
    return _run(engine, "seatrial.worker.weights.generate", words)


def prove_export(checkpoint: Path, weights: Path, plan: Plan) -> dict[str, Any]:
    """Compare the logits of an export; return its record, which then contains the result."""
    engine = ENGINES[plan.spec.engine.name]
    arguments = engine.pod_arguments(plan, on_cpu=True, scratch="")
    try:
        found = compare_logits(checkpoint, weights, arguments, engine=engine)
    except WeightsError as error:
        raise WeightsError(
            f"{error}. The weights in {weights} were not compared; a comparison needs 8 bytes of "
            "memory per parameter. Without --compare, they are exported unchecked."
        ) from None
    record = weights / EXPORT_RECORD
    told: dict[str, Any] = read_json(record)
    told["logits"] = {
        "equal": found.equal,
        # JSON has no infinity and no NaN.
        "largest_difference": found.largest if math.isfinite(found.largest) else None,
        "tokens": found.tokens,
        "says": found.says,
    }
    write_whole(record, json.dumps(told, indent=2, ensure_ascii=False) + "\n")
    return told


def refuse_other_logits(told: dict[str, Any], weights: Path) -> None:
    """Reject an export whose logits were compared and differ."""
    gate = told.get("logits")
    if gate is None or gate["equal"]:
        return
    fix = (
        f"Do not use this export of {told['checkpoint']}. Report it with the spec, unless the "
        f"losses of the run explain it. To export again, delete {weights} first."
    )
    raise refusal(ExchangeCode.OTHER_LOGITS, str(weights), gate["says"], fix)


def why_not_exported(engine: Engine, arguments: Arguments) -> str:
    """Return why a model with such arguments cannot be exported; empty if it can."""
    try:
        engine.checkpoints.exchange.refuse_plan(arguments)
    except FindingsError as error:
        return error.findings[0].rule
    return ""


def _run(engine: Engine, module: str, words: list[str], tell: Tell | None = None) -> dict[str, Any]:
    """Return the result of a worker program. Raises its findings, or its last output."""
    settings = os.environ | {"PYTHONPATH": python_path(), "PYTHONWARNINGS": "ignore"}
    command = [worker_python(engine), "-m", module, *words]
    said: dict[str, Any] = {}
    reason = "no output"
    with subprocess.Popen(  # noqa: S603  (our own command, no shell)
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
    raise WeightsError(f"{name} failed: {said.get('failed') or reason}")


def _json(line: str) -> dict[str, Any]:
    """Parse a line of JSON; empty if it is something else."""
    try:
        value = json.loads(line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _finding(values: dict[str, Any]) -> Finding:
    """Rebuild a finding that a worker has printed."""
    where = Where(**values["where"])
    rest = {name: values[name] for name in ("code", "rule", "value", "fix")}
    return Finding(severity=Severity(values["severity"]), where=where, **rest)
