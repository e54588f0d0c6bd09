# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial checkpoints export` and `import`: weights to Hugging Face's format, and from it."""

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
        help="Compare logits with the engine's own model, on one CPU; "
        "takes 8 bytes of memory for each parameter.",
    ),
]


def export(
    where: Where,
    to: Annotated[
        Path,
        typer.Option(metavar="DIR", help="Where the weights go: a directory that is not there."),
    ],
    overrides: Overrides = None,
    step: Step = None,
    compare: Compare = False,
    on: On = RemotePlace.HERE,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    as_json: Json = False,
) -> None:
    """Write the weights of a checkpoint for Hugging Face's transformers: safetensors, config.json.

    Everything is verified before anything is read, and one layer is in memory at a time. Models of
    the llama, gpt and mpt families and Mixtral's experts; others are refused with the reason. Needs
    the engine that saved it: the worker extra, or LLM Foundry's environment; with --on kubernetes
    the run's image has it, and DIR is a path on the run's volume.
    """
    if on is RemotePlace.KUBERNETES:
        Volume(where, overrides, kubeconfig, context).run(
            lambda plan: [*("checkpoints", "export"), *_on_volume(plan, to, compare=compare)],
            {"--step": step, "--compare": compare, "--json": as_json},
            VolumeReading.COMPARES if compare else VolumeReading.EXPORTS,
            following=f"seatrial report {where}",
        )
    planned = _compared_plan(where, overrides or ()) if compare else None
    # A plan may take a search, which is not done twice.
    at = place_at(planned.checkpoint_location) if planned else place_of(where, overrides or ())
    one = checkpoint_at(at, step)
    if one.record is None:
        raise FindingsError(one.findings)
    if planned is not None:
        _refuse_other_model(planned, one.record, where)
    before = exported_before(to, one.record.identity)
    told = before or _exported(at, one, one.record, to, quiet=as_json)
    if planned is not None and "logits" not in told:
        if not as_json:
            say_error("  comparing with the engine's own model")
        told = prove_export(Path(at.address, one.directory), to, planned)
    refuse_other_logits(told, to)
    if as_json:
        say_json(told)
    else:
        _say_export(told, to, is_old=before is not None)


def _compared_plan(where: str, overrides: Sequence[str]) -> Plan:
    """The plan by which the engine builds the model of a checkpoint."""
    if not is_spec(where):
        raise UsageError(
            "--compare needs the spec of the run, by which the engine builds its model. "
            f"Give the run.yaml in the place of {where}."
        )
    planned = plan(Path(where), overrides)
    _refuse_without_model(planned)
    return planned


def _refuse_without_model(planned: Plan) -> None:
    """Refuse a comparison where the engine's own model cannot be had on a CPU."""
    reason = ENGINES[planned.spec.engine.name].no_rehearsal(planned)
    if reason:
        raise UsageError(f"--compare builds the engine's model on a CPU. {reason}")
    if "://" in planned.checkpoint_location:
        raise UsageError(
            f"--compare reads a checkpoint from a file system, and {planned.checkpoint_location} "
            "is in an object store. Copy it, and give checkpoints.location=DIR."
        )


def _refuse_other_model(planned: Plan, record: Record, where: str) -> None:
    """A spec of another model than the checkpoint's would make good weights look wrong."""
    others = other_model(record.setup, setup_of(planned))
    if others:
        said = "; ".join(f"{one.what} {one.wanted}, saved with {one.saved}" for one in others)
        raise UsageError(
            f"{where} describes another model than the checkpoint of step {record.step:,}: {said}. "
            "Give the spec that it was trained by, or leave out --compare."
        )


def _exported(
    place: Location, one: Checkpoint, record: Record, to: Path, *, quiet: bool
) -> dict[str, Any]:
    """Have the worker write the weights of a checkpoint; the record of the export."""
    engine = ENGINES[engine_of(record.setup)]
    worker_python(engine)
    exchange_of(record.setup).refuse_shape(record.setup.model, f"{place.address}/{one.directory}")
    size = record.shards.size
    with shown(f"step {one.step:,}", 2 * size, quiet=quiet) as tell:

        def follow(doing: str, done: int, total: int) -> None:
            # First all files are verified, then the weights are written.
            share = done / max(1, total)
            tell(0, round((share if doing == "verifying" else 1 + share) * size))

        return export_by_worker(place.address, one.directory, to, follow, engine)


def _on_volume(plan: Plan, to: Path, *, compare: bool) -> list[str]:
    """What a pod exports, and where to: onto the volume, for all else of a pod goes with it."""
    if compare:
        _refuse_without_model(plan)
    mount = Path(plan.spec.cluster.storage.mount)
    if not to.is_relative_to(mount):
        raise UsageError(
            f"--to {to} is not on the run's volume, where alone a pod can leave it. "
            f"Use --to {mount / plan.spec.name / 'weights'}."
        )
    # A comparison needs the spec; all else stands in the checkpoint.
    return [f"{DIRECTORY}/{FILE}" if compare else plan.checkpoint_location, f"--to={to}"]


def _say_export(told: dict[str, Any], to: Path, *, is_old: bool) -> None:
    """What was written, now or before, and how to load it."""
    if is_old:
        say(f"step {told['step']:,} is in {to} already, exported from this very checkpoint.")
    else:
        _say_weights(told, to)
    if "logits" in told:
        gate = told["logits"]
        say(
            f"logits      of {gate['tokens']:,} tokens in transformers: "
            f"{gate['largest_difference']:.0e} from the engine's"
        )
    say_following(f'AutoModelForCausalLM.from_pretrained("{to}")')


def _say_weights(told: dict[str, Any], to: Path) -> None:
    cut = told["padding_left_out"]
    say(
        f"step {told['step']:,} is in {to}: {told['class']}, {told['dtype']}, "
        f"{counted(told['tensors'], 'tensor')}, {format_bytes(told['bytes'])}, verified before."
    )
    if cut:
        rows = f"{told['vocabulary']:,} rows, {cut:,} of padding left out"
        say(f"vocabulary  {rows}")
    name = told["tokenizer"].partition(" ")[2] or "none: the run had no real one"
    said = "saved beside the weights" if told["tokenizer_saved"] else name
    say(f"tokenizer   {said}")


def import_weights(
    source: Annotated[
        str,
        typer.Argument(
            metavar="HF_DIR", help="A directory with config.json and weights as safetensors."
        ),
    ],
    to: Annotated[
        Path,
        typer.Option(metavar="DIR", help="Where the checkpoint goes: a directory not there yet."),
    ],
    as_json: Json = False,
) -> None:
    """Write Hugging Face weights as a checkpoint that a run can start from.

    It has weights and no optimizer state: a run takes it up at step 0, as initial_weights in its
    spec. Prints the part of the spec that does so. Needs the worker extra.
    """
    refuse_secret(source)
    worker_python()
    if "://" in source:
        raise UsageError(
            f"{source} is no directory, and weights are imported from one. "
            "Fetch them first: hf download OWNER/NAME --local-dir DIR."
        )
    there = sum(path.stat().st_size for path in Path(source).glob("*.safetensors"))
    with shown(source, there, quiet=as_json) as tell:
        told = import_by_worker(Path(source), to.absolute(), lambda _, done, total: tell(0, done))
    if as_json:
        say_json(told)
        return
    count, size = counted(told["tensors"], "tensor"), format_bytes(told["bytes"])
    say(f"{told['class']} is in {to}: {told['dtype']}, {count}, {size}, committed as step 0.")
    say("A spec starts from it with")
    for line in _yaml(told["spec"]):
        say(f"  {line}")
    say("next  seatrial validate RUN.YAML, with that in it")


def _yaml(values: dict[str, Any], ahead: str = "") -> list[str]:
    """Nested keys as lines of YAML."""
    lines: list[str] = []
    for key, value in values.items():
        if isinstance(value, dict):
            lines += [f"{ahead}{key}:", *_yaml(value, f"{ahead}  ")]
        else:
            shown_value = str(value).lower() if isinstance(value, bool) else value
            lines.append(f"{ahead}{key}: {shown_value}")
    return lines
