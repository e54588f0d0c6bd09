# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial checkpoints export`, `try` and `import`: weights to and from Hugging Face."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from seatrial.checkpoints.inventory import Checkpoint
from seatrial.cli.checkpoints_text import is_quiet, shown
from seatrial.cli.interrupts import on_interrupt
from seatrial.cli.options import Context, Json, Kubeconfig, Overrides, Step, Where
from seatrial.cli.remote import On, RemotePlace, Volume
from seatrial.errors import UsageError
from seatrial.planning.plan import Plan
from seatrial.rendering.reader_pod import VolumeReading
from seatrial.rendering.spec_config import DIRECTORY, FILE
from seatrial.reports.terminal import (
    counted,
    say,
    say_error,
    say_following,
    say_json,
    seatrial_words,
)
from seatrial.sdk import weights
from seatrial.sdk.checkpoints import ReportBytes
from seatrial.sdk.data import refuse_secret
from seatrial.sdk.weights import generate_text
from seatrial.units import format_bytes

Compare = Annotated[
    bool,
    typer.Option(
        "--compare",
        help="Compare the logits with those of the engine's own model on one CPU; "
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

    Verifies the checkpoint first, and keeps one layer in memory at a time. Refuses a model that no
    class in transformers has, with the reason. Needs the engine that saved the checkpoint: the
    worker extra, or LLM Foundry's environment. With --on kubernetes, the run's image has the
    engine, and DIR is a path on the run's volume.
    """
    if on is RemotePlace.KUBERNETES:
        answer = Volume(where, overrides, kubeconfig, context).ask(
            lambda plan: [*("checkpoints", "export"), *_on_volume(plan, to, compare=compare)],
            {"--step": step, "--compare": compare},
            VolumeReading.COMPARES if compare else VolumeReading.EXPORTS,
            as_json=as_json,
        )
        lines = answer.read(lambda data: export_lines(data, to))
        _say_lines(lines, f"seatrial report {where}")
        return
    quiet = is_quiet(as_json=as_json)

    @contextmanager
    def watch(one: Checkpoint) -> Iterator[ReportBytes]:
        size = 2 * one.record.shards.size if one.record else 0
        kept = f"The checkpoint is unchanged. {to} is incomplete: delete it, then rerun."
        with on_interrupt(kept), shown(f"step {one.step:,}", size, quiet=quiet) as tell:
            yield tell

    exported = weights.export_weights(
        where,
        to,
        overrides or (),
        step=step,
        compare=compare,
        watch=watch,
        tell=None if quiet else lambda text: say_error(f"  {text}"),
    )
    if as_json:
        say_json(exported)
    else:
        load = f'AutoModelForCausalLM.from_pretrained("{to}")'
        try_it = seatrial_words("checkpoints", "try", to, "Once upon a time")
        _say_lines(export_lines(exported, to), try_it if exported.get("tokenizer_saved") else load)


def _on_volume(plan: Plan, to: Path, *, compare: bool) -> list[str]:
    """Return the arguments of the export in a pod. The target must be on the volume."""
    if compare:
        weights.refuse_without_model(plan)
    mount = Path(plan.spec.cluster.storage.mount)
    if not to.is_relative_to(mount):
        raise UsageError(
            f"--to {to} is not on the run's volume, and files elsewhere are lost when the pod "
            f"exits. Use --to {mount / plan.spec.name / 'weights'}."
        )
    # A comparison needs the spec; an export only needs the checkpoint.
    return [f"{DIRECTORY}/{FILE}" if compare else plan.checkpoint_location, f"--to={to}"]


def _say_lines(lines: list[str], following: str) -> None:
    for line in lines:
        say(line)
    say_following(following)


def export_lines(exported: dict[str, Any], to: Path) -> list[str]:
    """Describe what was exported, now or earlier."""
    if exported["is_new"]:
        lines = _weights_lines(exported, to)
    else:
        lines = [f"step {exported['step']:,} is already in {to}, exported from this checkpoint."]
    if "logits" in exported:
        gate = exported["logits"]
        lines.append(
            f"logits      {gate['tokens']:,} tokens in transformers: largest difference from the "
            f"engine {gate['largest_difference']:.0e}"
        )
    return lines


def _weights_lines(told: dict[str, Any], to: Path) -> list[str]:
    cut = told["padding_left_out"]
    lines = [
        f"step {told['step']:,} is in {to}: {told['class']}, {told['dtype']}, "
        f"{counted(told['tensors'], 'tensor')}, {format_bytes(told['bytes'])}, verified."
    ]
    if cut:
        lines.append(f"vocabulary  {told['vocabulary']:,} rows, {cut:,} padding rows removed")
    name = told["tokenizer"].partition(" ")[2] or "none: the run used mock data"
    shown_name = "saved with the weights" if told["tokenizer_saved"] else name
    return [*lines, f"tokenizer   {shown_name}"]


def try_weights(
    weights: Annotated[Path, typer.Argument(metavar="DIR", help="The directory of an export.")],
    prompt: Annotated[str, typer.Argument(metavar="PROMPT", help="The beginning of the text.")],
    tokens: Annotated[
        int, typer.Option(metavar="N", min=1, max=10_000, help="How many tokens to add at most.")
    ] = 60,
    temperature: Annotated[
        float,
        typer.Option(
            metavar="T", min=0, max=10, help="0 always takes the likeliest token; 1 draws freely."
        ),
    ] = 0.7,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="The seed for the choice.")] = 1,
    as_json: Json = False,
) -> None:
    """Let exported weights continue a prompt, with transformers on this host's CPU.

    Runs no code from the directory. Needs the worker extra, or LLM Foundry's environment.
    """
    with on_interrupt("Nothing was changed."):
        told = generate_text(weights, prompt, tokens=tokens, temperature=temperature, seed=seed)
    if as_json:
        say_json(told)
        return
    say(told["text"])


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
    there = sum(path.stat().st_size for path in Path(source).glob("*.safetensors"))
    with (
        on_interrupt(f"The source is unchanged. {to} is incomplete: delete it, then rerun."),
        shown(source, there, quiet=as_json) as tell,
    ):
        told = weights.import_weights(source, to, tell=lambda _, done, total: tell(0, done))
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
