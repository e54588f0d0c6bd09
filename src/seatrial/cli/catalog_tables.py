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
from seatrial.cli.tables import Column, name, number, text
from seatrial.planning.parameters import padded_vocab_size, total_parameters
from seatrial.units import format_count

Row = tuple[str, ...]
Table = tuple[tuple[Column, ...], Callable[[str, Entry], Row]]


def table_of(kind: Kind) -> Table:
    """The columns of a kind's list, and the cells of an entry."""
    return _TABLES[kind]


def _model(label: str, entry: Entry) -> Row:
    if not isinstance(entry, ModelPreset):
        raise TypeError(label)
    shape = entry.architecture
    padded = padded_vocab_size(shape.vocab_size, entry.tp_size)
    return (
        label,
        format_count(total_parameters(shape, padded)),
        f"{shape.layers:,}",
        f"{shape.hidden_size:,}",
        f"{shape.heads:,}",
        f"{entry.sequence_length:,}",
        entry.engine,
        ", ".join(entry.aliases),
    )


def _accelerator(label: str, entry: Entry) -> Row:
    if not isinstance(entry, Accelerator):
        raise TypeError(label)
    peak = entry.peak_tflops
    return (
        label,
        _number(entry.memory_gb),
        _number(peak.bf16),
        _number(peak.fp8),
        _number(peak.fp4),
        _number(entry.memory_bandwidth_gb_s),
        _number(entry.link_bandwidth_gb_s),
        entry.title,
    )


def _node_type(label: str, entry: Entry) -> Row:
    if not isinstance(entry, NodeType):
        raise TypeError(label)
    resource = f"{entry.fabric_resource} × {entry.fabric_resource_count}"
    price = entry.price
    return (
        label,
        entry.cloud,
        f"{entry.gpus} × {entry.accelerator}" if entry.gpus else "none",
        f"{price.usd_per_hour:,.2f}" if price else "",
        entry.fabric,
        _number(entry.network_gbit_s),
        f"{entry.cpus:,}",
        _number(entry.memory_gib),
        str(price.as_of) if price else "",
        resource if entry.fabric_resource else "",
    )


def _fabric(label: str, entry: Entry) -> Row:
    if not isinstance(entry, Fabric):
        raise TypeError(label)
    return label, str(len(entry.environment)), str(len(entry.avoid)), entry.title


def _storage(label: str, entry: Entry) -> Row:
    if not isinstance(entry, StorageTier):
        raise TypeError(label)
    numbers = (entry.mb_s_per_tib, entry.min_tib, entry.step_tib)
    return (label, entry.cloud, entry.kind, *map(_number, numbers), entry.csi_driver)


def _image(label: str, entry: Entry) -> Row:
    if not isinstance(entry, Image):
        raise TypeError(label)
    inside = entry.engine_version or "" if entry.engine_included else "installed at start"
    published = "yes" if entry.published else "not yet"
    return label, entry.engine, inside, published, entry.reference


def _profile(label: str, entry: Entry) -> Row:
    if not isinstance(entry, Profile):
        raise TypeError(label)
    operators = ", ".join(entry.operators)
    return label, entry.default_node_type, entry.default_storage, operators, entry.title


def _number(value: float | None) -> str:
    """A number for a table; nothing where there is none."""
    return f"{round(value, 2):,.10g}" if value else ""


_TABLES: dict[Kind, Table] = {
    Kind.MODELS: (
        (
            name("name"),
            number("parameters"),
            number("layers"),
            number("hidden"),
            number("heads"),
            number("sequence"),
            name("engine", rank=2),
            text("also called", rank=1),
        ),
        _model,
    ),
    Kind.ACCELERATORS: (
        (
            name("name"),
            number("memory GB"),
            number("bf16 TFLOP/s"),
            number("fp8 TFLOP/s"),
            number("fp4 TFLOP/s", rank=2),
            number("memory GB/s", rank=1),
            number("link GB/s", rank=3),
            text("title", rank=4),
        ),
        _accelerator,
    ),
    Kind.NODE_TYPES: (
        (
            name("name"),
            name("cloud", rank=5),
            name("GPUs"),
            number("USD/h"),
            name("fabric"),
            number("Gbit/s", rank=1),
            number("CPUs", rank=3),
            number("GiB", rank=2),
            name("price of", rank=4),
            name("pods ask for", rank=6),
        ),
        _node_type,
    ),
    Kind.FABRICS: ((name("name"), number("set"), number("never set"), text("title")), _fabric),
    Kind.STORAGE: (
        (
            name("name"),
            name("cloud"),
            name("kind"),
            number("MB/s per TiB"),
            number("least TiB"),
            number("step TiB"),
            name("driver", rank=1),
        ),
        _storage,
    ),
    Kind.IMAGES: (
        (
            name("name"),
            name("engine"),
            text("version"),
            text("published"),
            name("reference", rank=1),
        ),
        _image,
    ),
    Kind.PROFILES: (
        (
            name("name"),
            name("node type"),
            name("storage"),
            text("operators", rank=1),
            text("title", rank=2),
        ),
        _profile,
    ),
}
