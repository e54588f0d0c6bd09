# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial checkpoints export` and `import`: convert weights to and from Hugging Face."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from seatrial.checkpoints.by_engine import engine_of, exchange_of, setup_of
from seatrial.checkpoints.exchange.export_plan import exported_before
from seatrial.checkpoints.inventory import Checkpoint
from seatrial.checkpoints.record import Record
from seatrial.checkpoints.verdict import other_model
from seatrial.cli.checkpoints_text import shown
from seatrial.cli.interrupts import on_interrupt
from seatrial.cli.options import Context, Json, Kubeconfig, Overrides, Step, Where
from seatrial.cli.remote import On, RemotePlace, Volume
from seatrial.engine_process.process import worker_python
from seatrial.engine_process.weights import export_weights as export_by_worker
from seatrial.engine_process.weights import import_weights as import_by_worker
from seatrial.engine_process.weights import prove_export, refuse_other_logits
from seatrial.engines.registry import ENGINES
from seatrial.errors import FindingsError, UsageError
from seatrial.planning.plan import Plan
from seatrial.rendering.reader_pod import VolumeReading
from seatrial.rendering.spec_config import DIRECTORY, FILE
from seatrial.reports.terminal import counted, say, say_error, say_following, say_json
from seatrial.sdk.checkpoints import checkpoint_at, is_spec, place_of
from seatrial.sdk.data import refuse_secret
from seatrial.sdk.plan import plan
from seatrial.storage.location import Location, place_at
from seatrial.units import format_bytes

Compare = Annotated[
    bool,
    typer.Option(
        "--compare",
        help="Compare logits with the engine's own model on one CPU; "
        "needs 8 bytes of memory per parameter.",
    ),
]


def export(
    where: Where,
    to: Annotated[
        Path,
        typer.Option(metavar="DIR", help="The output directory, which must not exist."),
    ],
    overrides: Overrides = None,
    step: Step = None,
    compare: Compare = False,
    on: On = RemotePlace.HERE,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    as_json: Json = False,
) -> None:
    """Export a checkpoint's weights for Hugging Face transformers (safetensors, config.json).

    Verifies the checkpoint first, and keeps one layer in memory at a time. Supports the llama, gpt
    and mpt families and Mixtral; refuses other models with the reason. Needs the engine that saved
    the checkpoint: the worker extra, or LLM Foundry's environment. With --on kubernetes, the run's
    image has the engine, and DIR is a path on the run's volume.
    """
    if on is RemotePlace.KUBERNETES:
        Volume(where, overrides, kubeconfig, context).run(
            lambda plan: [*("checkpoints", "export"), *_on_volume(plan, to, compare=compare)],
            {"--step": step, "--compare": compare, "--json": as_json},
            VolumeReading.COMPARES if compare else VolumeReading.EXPORTS,
            following=f"seatrial report {where}",
        )
    planned = _compared_plan(where, overrides or ()) if compare else None
    # Planning may run a search, so plan only once.
    at = place_at(planned.checkpoint_location) if planned else place_of(where, overrides or ())
    one = checkpoint_at(at, step)
    if one.record is None:
        raise FindingsError(one.findings)
    if planned is not None:
        _refuse_other_model(planned, one.record, where)
    before = exported_before(to, one.record.identity)
    exported = before or _exported(at, one, one.record, to, quiet=as_json)
    if planned is not None and "logits" not in exported:
        if not as_json:
            say_error("  comparing logits with the engine's own model")
        exported = prove_export(Path(at.address, one.directory), to, planned)
    refuse_other_logits(exported, to)
    if as_json:
        say_json(exported)
    else:
        _say_export(exported, to, is_old=before is not None)


def _compared_plan(where: str, overrides: Sequence[str]) -> Plan:
    """Return the plan from which the engine builds the model of a checkpoint."""
    if not is_spec(where):
        raise UsageError(
            "--compare needs the run's spec to build the engine's model. "
            f"Pass the run.yaml instead of {where}."
        )
    planned = plan(Path(where), overrides)
    _refuse_without_model(planned)
    return planned


def _refuse_without_model(planned: Plan) -> None:
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
    """Refuse a spec with a different model: correct weights would look wrong."""
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
    place: Location, one: Checkpoint, record: Record, to: Path, *, quiet: bool
) -> dict[str, Any]:
    """Let the worker write the weights, and return the record of the export."""
    engine = ENGINES[engine_of(record.setup)]
    worker_python(engine)
    exchange_of(record.setup).refuse_shape(record.setup.model, f"{place.address}/{one.directory}")
    size = record.shards.size
    with (
        on_interrupt(f"The checkpoint is unchanged. {to} is incomplete: delete it, then rerun."),
        shown(f"step {one.step:,}", 2 * size, quiet=quiet) as tell,
    ):

        def follow(doing: str, done: int, total: int) -> None:
            # The worker verifies all files first, then writes the weights.
            share = done / max(1, total)
            tell(0, round((share if doing == "verifying" else 1 + share) * size))

        return export_by_worker(place.address, one.directory, to, follow, engine)


def _on_volume(plan: Plan, to: Path, *, compare: bool) -> list[str]:
    """Return the arguments of the export in a pod. The target must be on the volume."""
    if compare:
        _refuse_without_model(plan)
    mount = Path(plan.spec.cluster.storage.mount)
    if not to.is_relative_to(mount):
        raise UsageError(
            f"--to {to} is not on the run's volume, and files elsewhere are lost when the pod "
            f"exits. Use --to {mount / plan.spec.name / 'weights'}."
        )
    # A comparison needs the spec; an export only needs the checkpoint.
    return [f"{DIRECTORY}/{FILE}" if compare else plan.checkpoint_location, f"--to={to}"]


def _say_export(exported: dict[str, Any], to: Path, *, is_old: bool) -> None:
    """Print what was exported, now or earlier, and how to load it."""
    if is_old:
        say(f"step {exported['step']:,} is already in {to}, exported from this checkpoint.")
    else:
        _say_weights(exported, to)
    if "logits" in exported:
        gate = exported["logits"]
        say(
            f"logits      {gate['tokens']:,} tokens in transformers: largest difference from the "
            f"engine {gate['largest_difference']:.0e}"
        )
    say_following(f'AutoModelForCausalLM.from_pretrained("{to}")')


def _say_weights(told: dict[str, Any], to: Path) -> None:
    cut = told["padding_left_out"]
    say(
        f"step {told['step']:,} is in {to}: {told['class']}, {told['dtype']}, "
        f"{counted(told['tensors'], 'tensor')}, {format_bytes(told['bytes'])}, verified."
    )
    if cut:
        rows = f"{told['vocabulary']:,} rows, {cut:,} padding rows removed"
        say(f"vocabulary  {rows}")
    name = told["tokenizer"].partition(" ")[2] or "none: the run used mock data"
    shown_name = "saved with the weights" if told["tokenizer_saved"] else name
    say(f"tokenizer   {shown_name}")


def import_weights(
    source: Annotated[
        str,
        typer.Argument(
            metavar="HF_DIR", help="A directory with config.json and safetensors weights."
        ),
    ],
    to: Annotated[
        Path,
        typer.Option(metavar="DIR", help="The output directory, which must not exist."),
    ],
    as_json: Json = False,
) -> None:
    """Convert Hugging Face weights to a checkpoint that a run can start from.

    The checkpoint has no optimizer state: a run that names the checkpoint in initial_weights starts
    at step 0. Prints the spec fields to set. Needs the worker extra.
    """
    refuse_secret(source)
    worker_python()
    if "://" in source:
        raise UsageError(
            f"{source} is not a local directory. "
            "Download the weights first: hf download OWNER/NAME --local-dir DIR."
        )
    there = sum(path.stat().st_size for path in Path(source).glob("*.safetensors"))
    with (
        on_interrupt(f"The source is unchanged. {to} is incomplete: delete it, then rerun."),
        shown(source, there, quiet=as_json) as tell,
    ):
        told = import_by_worker(Path(source), to.absolute(), lambda _, done, total: tell(0, done))
    if as_json:
        say_json(told)
        return
    count, size = counted(told["tensors"], "tensor"), format_bytes(told["bytes"])
    say(f"{told['class']} is in {to}: {told['dtype']}, {count}, {size}, committed as step 0.")
    say("To start a run from this checkpoint, add these fields to its spec:")
    for line in _yaml(told["spec"]):
        say(f"  {line}")
    say("next  seatrial validate RUN.YAML")


def _yaml(values: dict[str, Any], ahead: str = "") -> list[str]:
    """Format nested keys as YAML lines."""
    lines: list[str] = []
    for key, value in values.items():
        if isinstance(value, dict):
            lines += [f"{ahead}{key}:", *_yaml(value, f"{ahead}  ")]
        else:
            shown_value = str(value).lower() if isinstance(value, bool) else value
            lines.append(f"{ahead}{key}: {shown_value}")
    return lines
