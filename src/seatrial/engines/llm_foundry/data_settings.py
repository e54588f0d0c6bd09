# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The data settings of LLM Foundry: MDS directories with one folder per split."""

from seatrial.engines.engine import Arguments
from seatrial.planning.plan import Plan
from seatrial.spec.addresses import tokenizer_name
from seatrial.spec.data import DataSource

TRAIN, VALIDATION = "train", "val"
"""The folders of a prepared data set, named as by LLM Foundry's own converter."""
LOADERS = {"train_loader": TRAIN, "eval_loader": VALIDATION}
WORKERS = 8
"""Data loader processes per rank, as in LLM Foundry's published files."""
CACHE_LIMIT = "20gb"
"""Maximum size of a loader's cache on the node's disk. A pod that fills the disk is evicted."""
MOCK = "mock"
"""The folder for mock data in the data location."""


def has_evaluation(plan: Plan) -> bool:
    """True if the run evaluates on validation data."""
    return plan.spec.training.evaluation.batches > 0


def data_settings(plan: Plan, cache: str = "") -> Arguments:
    """Return a plan's data loaders. With a cache, each node copies the data that it reads there."""
    found: Arguments = {
        "tokenizer.name": tokenizer(plan),
        "tokenizer.kwargs.model_max_length": plan.model.sequence_length,
        "tokenizer.kwargs.revision": tokenizer_name(plan.model.tokenizer)[1] or None,
    }
    for loader, split in LOADERS.items():
        if loader == "eval_loader" and not has_evaluation(plan):
            continue
        trains = loader == "train_loader"
        found |= {
            f"{loader}.name": "text",
            **_places(plan, f"{loader}.dataset", split, cache),
            f"{loader}.dataset.shuffle": trains,
            f"{loader}.dataset.max_seq_len": plan.model.sequence_length,
            f"{loader}.dataset.shuffle_seed": plan.spec.training.seed,
            f"{loader}.dataset.cache_limit": CACHE_LIMIT if cache else None,
            f"{loader}.drop_last": trains,
            f"{loader}.num_workers": WORKERS,
        }
    return found


def tokenizer(plan: Plan) -> str | None:
    """Return the tokenizer's name on the Hub, or the directory of its file."""
    name = tokenizer_name(plan.model.tokenizer)[0]
    folder, _, file = name.rpartition("/")
    return (folder or ".") if file == "tokenizer.json" else name or None


def _places(plan: Plan, dataset: str, split: str, cache: str) -> Arguments:
    """Return one directory, or one stream per source of a blend."""
    sources = plan.spec.data.sources or ()
    if len(sources) < 2:
        place = source_place(plan, sources[0]) if sources else f"{plan.data_location}/{MOCK}"
        return {**_place(dataset, place, cache), f"{dataset}.split": split}
    found: Arguments = {}
    for number, source in enumerate(sources):
        # Stream names are arbitrary, but dots would create sections.
        stream = f"{dataset}.streams.source-{number}"
        inside = f"{cache}/{number}" if cache else ""
        found |= _place(stream, source_place(plan, source), inside)
        found[f"{stream}.split"] = split
        found[f"{stream}.proportion"] = source.weight
    return found


def source_place(plan: Plan, source: DataSource) -> str:
    """Return the location of a source's prepared data, or where preparation writes it."""
    if source.prepared is not None:
        return source.prepared
    return f"{plan.data_location.rstrip('/')}/{mds_directory(plan, source.name or '')}"


def mds_directory(plan: Plan, source: str) -> str:
    """Return the directory of a source's samples in the data location.

    The name contains the sequence length and the split, so that samples with a different length or
    split never overwrite samples that a run may be reading.
    """
    split = (str(share).removesuffix(".0") for share in plan.spec.data.split)
    whole = f"mds-{plan.model.sequence_length}-{'-'.join(split)}"
    return whole if len(plan.spec.data.sources or ()) == 1 else f"{whole}/{source}"


def prepared_splits(plan: Plan) -> list[tuple[str, str]]:
    """Return the directories of prepared splits that the run reads, with their spec fields."""
    options = plan.spec.engine.options
    return [
        (
            f"data.sources[{number}].prepared",
            f"{source.prepared}/{options.get(f'{loader}.dataset.split', split)}",
        )
        for number, source in enumerate(plan.spec.data.sources or ())
        for loader, split in LOADERS.items()
        if source.prepared is not None and (loader == "train_loader" or has_evaluation(plan))
    ]


def _place(prefix: str, place: str, cache: str) -> Arguments:
    """Return the directory itself, or a remote with its copy on the node."""
    if cache or "://" in place:
        return {f"{prefix}.local": cache or None, f"{prefix}.remote": place}
    return {f"{prefix}.local": place}
