# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Rules about paths that pods can see, and about free space on the volume."""

import re
from collections.abc import Iterator
from posixpath import normpath

from seatrial.checks.rule import Checked, Situation, proposed, respelt, static
from seatrial.codes.checks import CheckCode
from seatrial.engines.registry import ENGINES
from seatrial.errors import FindingsError
from seatrial.huggingface.config import SUPPORTED
from seatrial.planning.saving.run_saves import saves_of
from seatrial.planning.saving.size import volume_bytes
from seatrial.spec.parallelism import Sharding

ENDINGS = (".bin", ".idx")
HUB = "hf://datasets/"
TIB = 1 << 40
GIB = 1 << 30
MINUTE = 60
SIZE = re.compile(r"(?<![\dxX.])(\d+(?:\.\d+)?)[bB](?![a-zA-Z])")
"""The size in the name of a model, such as 7b in Llama-2-7b-hf."""
NAMED_WITHIN = 1.5
"""Accepted ratio between the size in a name and the parameters: Gemma 7B has 8.5 B."""


def mount_of(situation: Situation) -> str:
    """Return the mount path of the volume in pods, without a trailing slash."""
    return situation.spec.cluster.storage.mount.rstrip("/")


def seen_by_pods(situation: Situation, path: str) -> bool:
    """True if pods can see a path: on the volume, in an object store, or in a mounted secret."""
    places = [mount_of(situation)]
    places += [
        secret.mount.rstrip("/") for secret in situation.spec.cluster.secrets if secret.mount
    ]
    real = normpath(path)
    return "://" in path or any(f"{real}/".startswith(f"{place}/") for place in places)


def _on_volume(situation: Situation, path: str) -> str:
    """Return the path that a file would have on the volume."""
    return f"{mount_of(situation)}/{path.removeprefix('./').lstrip('/')}"


def tokenizer_place(situation: Situation) -> Iterator[Checked]:
    """Report a tokenizer path that pods cannot see."""
    given = situation.spec.data.tokenizer
    if given is None or not situation.in_pods or seen_by_pods(situation, given):
        return
    mount = mount_of(situation)
    relative = not given.startswith("/")
    why = (
        "is relative, but pods have a different working directory"
        if relative
        else "does not exist in pods"
    )
    yield situation.error(
        CheckCode.TOKENIZER_PLACE,
        "data.tokenizer",
        f"{given} {why}: the volume is mounted at {mount}.",
        f"Use an absolute path below {mount}, or hf://OWNER/NAME.",
        given,
        proposed(f"data.tokenizer={_on_volume(situation, given)}"),
    )


def unnamed_tokenizer(situation: Situation) -> Iterator[Checked]:
    """Report data sources without a tokenizer."""
    if situation.spec.data.sources and not situation.plan.model.tokenizer:
        yield situation.error(
            CheckCode.UNNAMED_TOKENIZER,
            "data.tokenizer",
            "the data needs a tokenizer, but this model has no default tokenizer.",
            "Set a tokenizer whose vocabulary is no larger than the model's, such as hf://gpt2.",
        )


def data_place(situation: Situation) -> Iterator[Checked]:
    """Report prepared data at a path that pods cannot see."""
    for number, source in enumerate(situation.spec.data.sources or ()):
        path = source.prepared
        if path is None or not situation.in_pods or seen_by_pods(situation, path):
            continue
        mount, nodes = mount_of(situation), situation.plan.machines.nodes
        share = f"the {nodes:,} pods see only" if nodes > 1 else "the pod sees only"
        yield situation.error(
            CheckCode.DATA_PLACE,
            f"data.sources[{number}].prepared",
            f"{path} is not on the volume: {share} the volume at {mount}.",
            f"Copy both files to the volume, and set prepared to their path below {mount}.",
            path,
            proposed(f"data.sources[{number}].prepared={_volume_guess(situation, path)}"),
        )


def text_place(situation: Situation) -> Iterator[Checked]:
    """Report raw text at a path that pods cannot see.

    This is only a warning, because a host that mounts the volume can prepare the data and may see
    the path.
    """
    mount = mount_of(situation)
    for number, source in enumerate(situation.spec.data.sources or ()):
        path = source.from_
        if path is None or not situation.in_pods or seen_by_pods(situation, path):
            continue
        yield situation.warning(
            CheckCode.TEXT_PLACE,
            f"data.sources[{number}].from",
            f"{path} does not exist in pods: data preparation pods see only the volume at {mount}.",
            "Copy the text to an object store (s3://, abfs://, gs://) or to the volume, and use "
            f"the new address; or prepare the data on a host that mounts the volume at {mount}.",
            path,
        )


def unpinned(situation: Situation) -> Iterator[Checked]:
    """Report a Hub dataset without a revision."""
    for number, source in enumerate(situation.spec.data.sources or ()):
        address = source.from_ or ""
        if address.startswith(HUB) and "@" not in address:
            yield situation.note(
                CheckCode.UNPINNED,
                f"data.sources[{number}].from",
                f"{address} has no revision: its files can change before the data is prepared.",
                f"Pin a revision: {address}@REVISION, with a commit from the Files tab on the Hub.",
                address,
            )


def _volume_guess(situation: Situation, path: str) -> str:
    """Guess the path of a pair on the volume: a pair with the same name, or `prepared/NAME`."""
    probe, name = situation.data, path.rpartition("/")[2]
    near = probe.pairs_near(path) if probe else ()
    for other in near:
        if other.rpartition("/")[2] == name and seen_by_pods(situation, other):
            return other
    return f"{mount_of(situation)}/prepared/{name}"


def ending(situation: Situation) -> Iterator[Checked]:
    """Report a prepared pair whose path names one of its two files."""
    for number, source in enumerate(situation.spec.data.sources or ()):
        path = source.prepared or ""
        if path.endswith(ENDINGS):
            field_name = f"data.sources[{number}].prepared"
            plain = path[: -len(ENDINGS[0])]
            yield situation.error(
                CheckCode.ENDING,
                field_name,
                f"the engine appends .bin and .idx to this path, and would look for {path}.idx.",
                f"Use {plain}.",
                path,
                respelt(f"{field_name}={plain}"),
            )


def full_volume(situation: Situation) -> Iterator[Checked]:
    """Report a new volume that is too small for the checkpoints that the run keeps."""
    capacity, chosen = situation.spec.cluster.storage.capacity, situation.run.chosen
    if capacity is None or chosen is None:
        return
    budget = saves_of(situation.plan, chosen, situation.catalog).budget
    kept = budget.kept
    if kept is None or budget.capacity <= capacity:
        return
    tier = situation.catalog.storage(situation.plan.machines.storage)
    wanted = volume_bytes(budget.capacity, tier)
    fix = f"Use {_size(wanted)}, or keep fewer checkpoints with checkpoints.keep_last"
    fix += " and keep_every_steps." if kept.permanent else "."
    by = f"cluster.storage.capacity={_size(wanted)}"
    if not budget.available:
        fix = f"Keep fewer checkpoints: {situation.plan.machines.storage} has no volume that large."
        room = max(1, capacity // budget.size - 1)
        by = f"checkpoints.keep_last={room}"
    yield situation.error(
        CheckCode.FULL_VOLUME,
        "cluster.storage.capacity",
        f"the volume has {_size(capacity)}, but the run needs {_size(budget.capacity)}: up to "
        f"{kept.total:,} checkpoints of {_size(budget.size)}, including the one being written.",
        fix,
        _size(capacity),
        proposed(by),
    )


def short_patience(situation: Situation) -> Iterator[Checked]:
    """Report an engine timeout, in the spec or the engine's default, that is below a save."""
    chosen, options = situation.run.chosen, situation.spec.engine.options
    engine = ENGINES[situation.spec.engine.name]
    option = engine.rank_timeout_option
    name = next((key for key in options if key.replace("_", "-") == option), None)
    limit = options[name] if name else engine.rank_timeout_minutes
    if chosen is None or not isinstance(limit, int) or situation.spec.checkpoints.asynchronous:
        return
    write = saves_of(situation.plan, chosen, situation.catalog).budget.write_seconds
    if not option or write is None or write <= MINUTE * limit:
        return
    wanted = int(2 * write / MINUTE) + 1
    field_name = f"engine.options.{name or option}"
    default = "" if name else f", which is {engine.title}'s default"
    yield situation.warning(
        CheckCode.SHORT_PATIENCE,
        field_name,
        f"a save takes about {write / MINUTE:,.0f} min, but ranks that wait for it time out "
        f"after {limit} min{default}.",
        f"Use {wanted} or more, a faster storage tier, or checkpoints.asynchronous=true.",
        limit,
        proposed(f"{field_name}={wanted}"),
    )


def other_weights(situation: Situation) -> Iterator[Checked]:
    """Report initial weights whose name states a different size from the model's."""
    weights = situation.spec.initial_weights
    name = (weights.huggingface or "").rpartition("/")[2] if weights else ""
    sizes = SIZE.findall(name)
    parameters = situation.plan.model.parameters
    # The name of a mixture-of-experts model (8x7B) does not state its total size.
    if len(sizes) != 1 or situation.plan.model.architecture.is_moe:
        return
    stated = float(sizes[0]) * 1e9
    if not parameters / NAMED_WITHIN <= stated <= parameters * NAMED_WITHIN:
        yield situation.warning(
            CheckCode.OTHER_WEIGHTS,
            "initial_weights.huggingface",
            f"{name} has {sizes[0]} B parameters according to its name, but the model has "
            f"{parameters / 1e9:.1f} B: the weights do not fit the model.",
            "Use weights of this model, or train the model that these weights belong to.",
            name,
        )


def unread_weights(situation: Situation) -> Iterator[Checked]:
    """Report Hugging Face weights for a model that has no supported transformers class."""
    weights, engine = situation.spec.initial_weights, ENGINES[situation.spec.engine.name]
    # An engine or a sharding that cannot import Hugging Face weights rejects them itself.
    sharded = situation.plan.sharding is Sharding.FSDP
    if sharded or weights is None or weights.huggingface is None or not engine.takes_hub_weights:
        return
    rule, fix = _published_problem(situation, weights.huggingface), BF16
    try:
        engine.checkpoints.exchange.refuse_plan(engine.arguments(situation.plan))
    except FindingsError as error:
        rule = f"Hugging Face weights cannot be imported for this model: {error.findings[0].rule}"
        fix = SUPPORTED
    if rule:
        field_name = "initial_weights.huggingface"
        yield situation.error(CheckCode.UNREAD_WEIGHTS, field_name, rule, fix, weights.huggingface)


BF16 = (
    "Convert them to bfloat16 first: load them with transformers (dtype=bfloat16) and save them, "
    "or use the publisher's script. Then set initial_weights.huggingface to that directory, and "
    "model.huggingface to its config.json."
)


def _published_problem(situation: Situation, address: str) -> str:
    """Return why the published weights of the run's own model cannot be imported, if they cannot.

    Only this model's config.json is known before the weights are downloaded.
    """
    preset = situation.published_model
    name = address.removeprefix("hf://").partition("@")[0]
    if preset is None or not preset.quantized or name.lower() != preset.huggingface.lower():
        return ""
    return f"the weights of {name} are quantised, which the engine does not support."


def _size(count: int) -> str:
    """Format a number of bytes as in a spec, rounded up."""
    unit, name = (TIB, "Ti") if count >= 10 * TIB else (GIB, "Gi")
    return f"{-(-count // unit)}{name}"


RULES = (
    static(CheckCode.TOKENIZER_PLACE, look=tokenizer_place),
    static(CheckCode.UNNAMED_TOKENIZER, look=unnamed_tokenizer),
    static(CheckCode.DATA_PLACE, look=data_place),
    static(CheckCode.TEXT_PLACE, look=text_place),
    static(CheckCode.UNPINNED, look=unpinned),
    static(CheckCode.ENDING, look=ending),
    static(CheckCode.FULL_VOLUME, look=full_volume),
    static(CheckCode.SHORT_PATIENCE, look=short_patience),
    static(CheckCode.OTHER_WEIGHTS, look=other_weights),
    static(CheckCode.UNREAD_WEIGHTS, look=unread_weights),
)
