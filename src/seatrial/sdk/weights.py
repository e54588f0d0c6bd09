# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Convert a checkpoint's weights to and from Hugging Face, and try them."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from seatrial.checkpoints.by_engine import engine_of, setup_of
from seatrial.checkpoints.exchange.export_plan import exported_before
from seatrial.checkpoints.inventory import Checkpoint, look
from seatrial.checkpoints.naming import RECORD, step_of
from seatrial.checkpoints.record import Record
from seatrial.checkpoints.verdict import other_model
from seatrial.engine_process.process import worker_python
from seatrial.engine_process.weights import export_weights as export_by_worker
from seatrial.engine_process.weights import generate_text as generate_by_worker
from seatrial.engine_process.weights import import_weights as import_by_worker
from seatrial.engine_process.weights import prove_export, refuse_other_logits
from seatrial.engines.engine import Engine
from seatrial.engines.registry import ENGINES
from seatrial.errors import FindingsError, MissingExtraError, UsageError
from seatrial.planning.plan import Plan
from seatrial.sdk.checkpoints import (
    WatchCheckpoint,
    checkpoint_at,
    is_spec,
    place_of,
    unwatched,
)
from seatrial.sdk.data import refuse_secret
from seatrial.sdk.plan import Overrides, PathOrText, plan
from seatrial.spec.engine import DEFAULT_ENGINE
from seatrial.storage.location import Location, place_at

TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "tokenizer_config.json", "vocab.json")
"""Files of which a saved tokenizer has at least one."""


def export_weights(
    checkpoint: PathOrText,
    to: PathOrText,
    overrides: Overrides = (),
    *,
    step: int | None = None,
    compare: bool = False,
    watch: WatchCheckpoint | None = None,
    tell: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Export a checkpoint's weights for Hugging Face transformers. Return the export's record.

    Verifies the checkpoint first. `is_new` in the result is False if `to` already contains the
    export of this checkpoint.

    Args:
        checkpoint: The directory of one checkpoint, such as `saved/iter_0000200`, a run's spec, or
            the location of its checkpoints.
        to: The output directory. It must be empty or missing.
        overrides: Fields to override.
        step: The step of the checkpoint. Default: the newest committed one.
        compare: True to compare logits with those of the engine's own model; needs the spec and
            8 bytes of memory per parameter.
        watch: Receives the progress: once the size of the checkpoint for its verification, and
            once for the weights.
        tell: Receives messages.
    """
    where, target = str(checkpoint), Path(to)
    planned = _compared_plan(where, overrides) if compare else None
    if planned is not None:
        # A plan may need a search, so it is made once.
        at = place_at(planned.checkpoint_location)
        one = checkpoint_at(at, step)
    else:
        at, one = _selected(where, overrides, step)
    if one.record is None:
        raise FindingsError(one.findings)
    if planned is not None:
        _refuse_other_model(planned, one.record, where)
    before = exported_before(target, one.record.identity)
    exported = before or _exported(at, one, one.record, target, watch or unwatched)
    if planned is not None and "logits" not in exported:
        if tell is not None:
            tell("comparing logits with those of the engine's own model")
        exported = prove_export(Path(at.address, one.directory), target, planned)
    refuse_other_logits(exported, target)
    return exported | {"is_new": before is None}


def _selected(where: str, overrides: Overrides, step: int | None) -> tuple[Location, Checkpoint]:
    """Return the checkpoint of a spec, of a location, or in its own directory."""
    above, _, directory = where.rstrip("/").rpartition("/")
    is_one = step_of(directory) is not None or Path(where, RECORD).is_file()
    if step is None and is_one:
        at = place_of(above or ".", overrides)
        return at, look(at, directory)
    at = place_of(where, overrides)
    return at, checkpoint_at(at, step)


def _compared_plan(where: str, overrides: Overrides) -> Plan:
    """Return the plan from which the engine builds the model of a checkpoint."""
    if not is_spec(where):
        raise UsageError(
            "--compare needs the run's spec to build the engine's model. "
            f"Pass the run.yaml instead of {where}."
        )
    planned = plan(Path(where), overrides)
    refuse_without_model(planned)
    return planned


def refuse_without_model(planned: Plan) -> None:
    """Refuse a comparison if the engine cannot build the model on a CPU."""
    reason = ENGINES[planned.spec.engine.name].no_rehearsal(planned)
    if reason:
        raise UsageError(f"--compare builds the engine's model on a CPU. {reason}")
    if "://" in planned.checkpoint_location:
        raise UsageError(
            f"--compare reads a checkpoint from a file system, and {planned.checkpoint_location} "
            "is in an object store. Copy it first and pass checkpoints.location=DIR."
        )


def _refuse_other_model(planned: Plan, record: Record, where: str) -> None:
    """Refuse a spec of another model: correct weights would look wrong."""
    others = other_model(record.setup, setup_of(planned))
    if others:
        differences = "; ".join(
            f"{one.what} {one.wanted}, saved with {one.saved}" for one in others
        )
        raise UsageError(
            f"{where} describes a different model than the checkpoint at step {record.step:,}: "
            f"{differences}. Pass the spec that the checkpoint was trained with, or omit --compare."
        )


def _exported(
    place: Location, one: Checkpoint, record: Record, to: Path, watch: WatchCheckpoint
) -> dict[str, Any]:
    """Let the worker write the weights, and return the record of the export."""
    engine = ENGINES[engine_of(record.setup)]
    worker_python(engine)
    size = record.shards.size
    with watch(one) as tell:

        def follow(doing: str, done: int, total: int) -> None:
            # The worker verifies all files first, then writes the weights.
            share = done / max(1, total)
            tell(0, round((share if doing == "verifying" else 1 + share) * size))

        return export_by_worker(place.address, one.directory, to, follow, engine=engine)


def generate_text(
    weights: PathOrText,
    prompt: str,
    *,
    tokens: int = 60,
    temperature: float = 0.7,
    seed: int = 1,
) -> dict[str, Any]:
    """Let exported weights continue a prompt on this host's CPU, with transformers.

    Args:
        weights: The directory of an export, or of other Hugging Face weights with a tokenizer.
        prompt: The beginning of the text.
        tokens: How many tokens to add at most.
        temperature: How freely to choose; 0 always takes the likeliest token.
        seed: The seed for the choice.
    """
    directory = Path(weights)
    _refuse_no_export(directory)
    return generate_by_worker(
        directory,
        prompt,
        tokens=tokens,
        temperature=temperature,
        seed=seed,
        engine=_installed_engine(),
    )


def _refuse_no_export(directory: Path) -> None:
    """Refuse a directory that transformers cannot load without its own guesses or a download."""
    export = "Export a checkpoint first: seatrial checkpoints export RUN.YAML --to DIR."
    if not (directory / "config.json").is_file():
        raise UsageError(f"{directory} has no config.json, so it is not an export. {export}")
    if not any(directory.glob("*.safetensors")):
        raise UsageError(f"{directory} has no weights in safetensors files. {export}")
    if not any((directory / name).is_file() for name in TOKENIZER_FILES):
        raise UsageError(
            f"{directory} has no tokenizer, so it cannot read a prompt. The tokenizer is exported "
            "with the weights unless the run used mock data. Copy its files into the directory."
        )


def _installed_engine() -> Engine:
    """Return an engine that is installed here: every one brings transformers."""
    for engine in ENGINES.values():
        with suppress(MissingExtraError):
            worker_python(engine)
            return engine
    # The error says how to install the usual one.
    worker_python(ENGINES[DEFAULT_ENGINE])
    return ENGINES[DEFAULT_ENGINE]


def import_weights(
    source: PathOrText,
    to: PathOrText,
    *,
    tell: Callable[[str, int, int], None] | None = None,
) -> dict[str, Any]:
    """Import Hugging Face weights as a checkpoint of step 0. Its `spec` starts a run from them.

    Args:
        source: A directory with config.json and safetensors weights.
        to: The output directory. It must be empty or missing.
        tell: Receives the progress: the current activity, the bytes done and the total bytes.
    """
    refuse_secret(source)
    engine = ENGINES[DEFAULT_ENGINE]
    worker_python(engine)
    if "://" in str(source):
        raise UsageError(
            f"{source} is not a local directory. "
            "Download the weights first: hf download OWNER/NAME --local-dir DIR."
        )
    return import_by_worker(Path(source), Path(to).absolute(), tell, engine=engine)
