# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The columns by which each kind of the catalog is listed."""

from collections.abc import Callable

from seatrial.catalog.accelerators import Accelerator
from seatrial.catalog.catalog import Kind
from seatrial.catalog.entry import Entry
from seatrial.catalog.fabrics import Fabric
from seatrial.catalog.images import Image
from seatrial.catalog.models import ModelPreset
from seatrial.catalog.node_types import NodeType
from seatrial.catalog.profiles import Profile
from seatrial.catalog.storage import StorageTier
from seatrial.planning.parameters import padded_vocab_size, total_parameters
from seatrial.units import format_count

Row = tuple[str, ...]
Columns = tuple[Row, Callable[[str, Entry], Row]]


def columns(kind: Kind) -> Columns:
    """The headers of a kind's list, and the cells of an entry."""
    return _COLUMNS[kind]


def _model(name: str, entry: Entry) -> Row:
    if not isinstance(entry, ModelPreset):
        raise TypeError(name)
    shape = entry.architecture
    padded = padded_vocab_size(shape.vocab_size, entry.tp_size)
    return (
        name,
        format_count(total_parameters(shape, padded)),
        str(shape.layers),
        str(shape.hidden_size),
        str(shape.heads),
        str(entry.sequence_length),
        entry.engine,
        ", ".join(entry.aliases),
    )


def _accelerator(name: str, entry: Entry) -> Row:
    if not isinstance(entry, Accelerator):
        raise TypeError(name)
    peak = entry.peak_tflops
    return (
        name,
        f"{entry.memory_gb:g}",
        f"{peak.bf16:g}",
        f"{peak.fp8:g}" if peak.fp8 else "",
        f"{peak.fp4:g}" if peak.fp4 else "",
        f"{entry.memory_bandwidth_gb_s:g}",
        f"{entry.link_bandwidth_gb_s:g}",
        entry.title,
    )


def _node_type(name: str, entry: Entry) -> Row:
    if not isinstance(entry, NodeType):
        raise TypeError(name)
    resource = f"{entry.fabric_resource} × {entry.fabric_resource_count}"
    price = entry.price
    return (
        name,
        entry.cloud,
        f"{entry.gpus} × {entry.accelerator}" if entry.gpus else "none",
        entry.fabric,
        resource if entry.fabric_resource else "",
        f"{entry.network_gbit_s:g}",
        str(entry.cpus),
        f"{entry.memory_gib:g}",
        f"{price.usd_per_hour:.2f} ({price.as_of})" if price else "",
    )


def _fabric(name: str, entry: Entry) -> Row:
    if not isinstance(entry, Fabric):
        raise TypeError(name)
    return name, str(len(entry.environment)), str(len(entry.avoid)), entry.title


def _storage(name: str, entry: Entry) -> Row:
    if not isinstance(entry, StorageTier):
        raise TypeError(name)
    numbers = (entry.mb_s_per_tib, entry.min_tib, entry.step_tib)
    cells = tuple(f"{number:g}" if number else "" for number in numbers)
    return (name, entry.cloud, entry.kind, *cells, entry.csi_driver)


def _image(name: str, entry: Entry) -> Row:
    if not isinstance(entry, Image):
        raise TypeError(name)
    inside = entry.engine_version or "" if entry.engine_included else "installed at start"
    published = "" if entry.published else "not yet"
    return name, entry.engine, inside, entry.reference, published


def _profile(name: str, entry: Entry) -> Row:
    if not isinstance(entry, Profile):
        raise TypeError(name)
    operators = ", ".join(entry.operators)
    return name, entry.default_node_type, entry.default_storage, operators, entry.title


_COLUMNS: dict[Kind, Columns] = {
    Kind.MODELS: (
        ("name", "parameters", "layers", "hidden", "heads", "sequence", "engine", "also called"),
        _model,
    ),
    Kind.ACCELERATORS: (
        ("name", "GB", "bf16", "fp8", "fp4 TFLOP/s", "memory GB/s", "link GB/s", "title"),
        _accelerator,
    ),
    Kind.NODE_TYPES: (
        (
            "name",
            "cloud",
            "GPUs",
            "fabric",
            "pods ask for",
            "Gbit/s",
            "CPUs",
            "GiB",
            "USD an hour",
        ),
        _node_type,
    ),
    Kind.FABRICS: (("name", "set", "never set", "title"), _fabric),
    Kind.STORAGE: (
        ("name", "cloud", "kind", "MB/s per TiB", "least TiB", "step TiB", "driver"),
        _storage,
    ),
    Kind.IMAGES: (("name", "engine", "version", "reference", "published"), _image),
    Kind.PROFILES: (("name", "node type", "storage", "operators", "title"), _profile),
}
