# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Describes what a proposed change does to the run, so that the user can decide."""

from collections.abc import Iterable
from typing import Any

from seatrial.catalog.catalog import Catalog
from seatrial.checks.repairs.same_run import Difference
from seatrial.errors import NotInCatalogError
from seatrial.spec.secrets import shown

LONGEST_LIST = 3
"""Number of changed fields to list for each part of the run; the others are only counted."""

Spec = dict[str, Any]
"""The spec before the change, as plain data."""


def consequences(found: Iterable[Difference], spec: Spec, catalog: Catalog) -> list[str]:
    """Return a sentence for each part of the run that a change affects, the most serious first."""
    by_part: dict[str, list[Difference]] = {}
    for difference in found:
        by_part.setdefault(part_of(difference.path), []).append(difference)
    words = [_words(part, by_part[part], spec, catalog) for part in PARTS if part in by_part]
    return list(dict.fromkeys(words))


def part_of(path: tuple[str | int, ...]) -> str:
    """Return the part of the run that a field belongs to: the longest prefix in `PARTS`."""
    keys = [key for key in path if isinstance(key, str)]
    for end in range(len(keys), 0, -1):
        name = ".".join(keys[:end])
        if name in PARTS:
            return name
    # A key that does not exist in a spec has no effect.
    return UNKNOWN


UNKNOWN = "?"
PARTS = {
    "initial_weights": "this starts from different weights: {changes}",
    "continue_from": "this continues from a different checkpoint: {changes}",
    "model": "this trains a different model: {changes}",
    "data": "this trains on different data: {changes}",
    "data.tokenizer": "this uses a different tokenizer: {changes}",
    "data.split": "this changes the training, validation and test split: {changes}",
    "data.location": "this changes where prepared data is written and read: {changes}",
    "data.preparation": "this changes how raw text is prepared: {changes}",
    "training": "this changes the training settings: {changes}",
    "training.steps": "this changes the length of the run: {changes}",
    "training.samples": "this changes the length of the run: {changes}",
    "training.tokens": "this changes the length of the run: {changes}",
    "training.sequence_length": "this changes the sequence length: {changes}",
    "training.global_batch_size": "this changes the global batch size: {changes}{length}",
    "training.batch_schedule": "this changes the batch size over the run: {changes}{length}",
    "training.micro_batch_size": "this changes memory and speed, not the global batch: {changes}",
    "training.precision": "this changes the precision: {changes}",
    "training.evaluation": "this changes the evaluation: {changes}",
    "parallelism": "this changes the layout, and with it memory use and speed: {changes}",
    "performance": "this changes memory use and speed: {changes}",
    "cluster": "this changes where or how the run is executed: {changes}",
    "cluster.profile": "this uses a different cluster profile: {changes}",
    "cluster.node_type": "this uses a different node type: {changes}",
    "cluster.nodes": "this changes the number of nodes: {changes}",
    "cluster.processes_per_node": "this changes the number of GPUs per node: {changes}",
    "cluster.fabric": "this uses a different network: {changes}",
    "cluster.env": "this changes environment variables: {changes}",
    "cluster.image": "this uses a different image and its software versions: {changes}",
    "cluster.storage": "this uses different storage: {changes}",
    "cluster.namespace": "this runs in a different namespace: {changes}",
    "cluster.queue": "this submits the run to a different queue: {changes}",
    "cluster.secrets": "pods read these secrets, which must exist in the namespace",
    "cluster.run_as_user": "processes run as a different user: {changes}",
    "checkpoints": "this changes which checkpoints are saved or kept: {changes}",
    "checkpoints.location": "this moves new checkpoints; existing ones are not found: {changes}",
    "monitoring": "this changes where metrics are sent: {changes}",
    "engine": "this changes the engine options: {changes}",
    "engine.name": "this uses a different engine: {changes}",
    "variants": "this changes the variants that seatrial sweep launches: {changes}",
    "name": "this renames the run and its checkpoints: {changes}",
    "description": "this changes the description: {changes}",
    "apiVersion": "the file is read as a different version of the spec format: {changes}",
    UNKNOWN: "this removes a setting: {changes}",
}
"""The effect of a change, by the part of the run. A field belongs to its longest prefix.

A test checks that every spec field has an entry."""


def _words(part: str, found: list[Difference], spec: Spec, catalog: Catalog) -> str:
    if part in ("initial_weights", "continue_from") and _is_gone(part, found, spec):
        was = ", ".join(shown(each.before, each.path) for each in found)
        return f"this trains from scratch: {was} is not loaded."
    if part == "cluster.fabric" and found[0].after == "none":
        return _over_tcp(spec, catalog)
    text = PARTS[part].format(changes=_named(found), length=_length(spec))
    return f"{text}."


def _is_gone(part: str, found: list[Difference], spec: Spec) -> bool:
    """True if the change removes the whole section."""
    section = spec.get(part)
    keys = set(section) if isinstance(section, dict) else set()
    left = keys - {str(each.path[1]) for each in found if len(each.path) > 1}
    return not left and all(each.after is None for each in found)


def _over_tcp(spec: Spec, catalog: Catalog) -> str:
    """Describe the effect of not using the fabric, with the network speed of the machines."""
    cluster = spec.get("cluster")
    name = str(cluster.get("node_type", "")) if isinstance(cluster, dict) else ""
    if not name and isinstance(cluster, dict):
        try:
            name = catalog.profile(str(cluster.get("profile", ""))).default_node_type
        except NotInCatalogError:
            name = ""
    try:
        speed = catalog.node_type(name).network_gbit_s
    except NotInCatalogError:
        speed = 0.0
    # The speed of TCP depends on the host's interfaces, which are not in the catalog.
    unused = f" and leaves the fabric's {speed:,.0f} Gbit/s unused" if speed else ""
    return f"NCCL uses TCP between nodes{unused}: steps take longer."


def _length(spec: Spec) -> str:
    """Describe the effect of a different batch size on the length of the run."""
    training = spec.get("training")
    given = training if isinstance(training, dict) else {}
    if given.get("steps") is not None:
        return "; the number of steps stays the same, and the number of tokens changes"
    return "; the number of steps changes"


def _named(found: list[Difference]) -> str:
    """List the fields with both values, formatted as in findings."""
    texts = [_change(each) for each in found[:LONGEST_LIST]]
    more = len(found) - LONGEST_LIST
    return ", ".join(texts) + (f" and {more} more" if more > 0 else "")


def _change(each: Difference) -> str:
    if each.before is None:
        return f"{each.field} is set to {shown(each.after, each.path)}"
    if each.after is None:
        return f"{each.field} {shown(each.before, each.path)} is removed"
    return f"{each.field} {shown(each.before, each.path)} becomes {shown(each.after, each.path)}"
