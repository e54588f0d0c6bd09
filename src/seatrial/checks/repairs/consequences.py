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
"""Number of differences of one kind to name; the others are counted."""

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
    "initial_weights": "this starts from other weights: {changes}",
    "continue_from": "this continues from another state: {changes}",
    "model": "this trains another model: {changes}",
    "data": "this trains on other data: {changes}",
    "data.tokenizer": "this trains with another tokenizer: {changes}",
    "data.split": "another share of the data is held out: {changes}",
    "data.location": "prepared data is read and written elsewhere: {changes}",
    "data.preparation": "raw text becomes other tokens: {changes}",
    "training": "this trains with other settings: {changes}",
    "training.steps": "this trains for another length: {changes}",
    "training.samples": "this trains for another length: {changes}",
    "training.tokens": "this trains for another length: {changes}",
    "training.sequence_length": "this trains on sequences of another length: {changes}",
    "training.global_batch_size": "each step trains on another batch: {changes}{length}",
    "training.micro_batch_size": "memory and speed change, the global batch does not: {changes}",
    "training.precision": "this computes in another precision: {changes}",
    "training.evaluation": "this evaluates differently: {changes}",
    "parallelism": "this runs in another layout, with other memory and speed: {changes}",
    "cluster": "this runs elsewhere or differently: {changes}",
    "cluster.profile": "this runs on another kind of cluster: {changes}",
    "cluster.node_type": "this runs on other machines: {changes}",
    "cluster.nodes": "this takes another number of machines: {changes}",
    "cluster.processes_per_node": "this uses another number of GPUs per machine: {changes}",
    "cluster.fabric": "this uses another network: {changes}",
    "cluster.env": "processes get other environment variables: {changes}",
    "cluster.image": "this runs other software versions: {changes}",
    "cluster.storage": "this uses other storage: {changes}",
    "cluster.namespace": "this runs in another namespace: {changes}",
    "cluster.queue": "this waits in another queue: {changes}",
    "cluster.secrets": "pods get other secrets, which have to exist under these names",
    "cluster.run_as_user": "processes run as another user: {changes}",
    "checkpoints": "this saves or keeps other checkpoints: {changes}",
    "checkpoints.location": "checkpoints are saved elsewhere, and older ones not found: {changes}",
    "monitoring": "measurements go elsewhere: {changes}",
    "engine": "the engine gets other options: {changes}",
    "engine.name": "another engine trains this: {changes}",
    "name": "the run and its checkpoints get another name: {changes}",
    "description": "the description changes: {changes}",
    "apiVersion": "the file is read as another version of the format: {changes}",
    UNKNOWN: "this removes a setting: {changes}",
}
"""The meaning of a change, by the part of the run. A field belongs to its longest prefix.

A test checks that every field of a spec has one."""


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
    return f"this runs NCCL over TCP between nodes{unused}: steps take longer."


def _length(spec: Spec) -> str:
    """Describe the effect of another batch on the length of the run."""
    training = spec.get("training")
    given = training if isinstance(training, dict) else {}
    if given.get("steps") is not None:
        return "; with the same steps, the run reads another number of tokens"
    return "; the run takes another number of steps"


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
