# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The blend of a run: what was prepared for it, and what its spec says is prepared already."""

from contextlib import closing

from seatrial.dataprep.blends.blend import Blend, Needs, blend
from seatrial.dataprep.blends.splits import Shares, SplitFile, split_counts, tokens_between
from seatrial.dataprep.inputs.sources import named_sources
from seatrial.dataprep.output.blocks import ShortReadError, read_exactly
from seatrial.dataprep.output.dataset import DataFile, DatasetRecord
from seatrial.dataprep.output.index_file import HEADER_BYTES, parse_header
from seatrial.dataprep.stores.access import store_at
from seatrial.dataprep.stores.store import Store
from seatrial.errors import SeatrialError
from seatrial.planning.plan import Plan


def run_blend(store: Store, record: DatasetRecord, plan: Plan) -> Blend:
    """The words of the run's `blend.txt`, and what is to be known of its splits.

    Sources stand in the order of the spec; those that are prepared already are read where the
    spec says, if that can be reached from here.
    """
    shares = plan.spec.data.split
    files = []
    for name, source in named_sources(plan):
        if source.prepared is not None:
            files.append(_prepared(source.prepared, name, shares))
        else:
            own = (file for file in record.files if file.source == name)
            files += [_own(store, file, plan.data_location, shares) for file in own]
    weights = {n: s.weight for n, s in named_sources(plan) if s.weight is not None}
    needs = Needs(
        plan.model.sequence_length,
        (plan.length.samples, plan.length.validation_samples, plan.length.test_samples),
        shares,
    )
    return blend(files, weights or None, needs)


def _own(store: Store, file: DataFile, location: str, shares: Shares) -> SplitFile:
    """A file of the data set as training sees it."""
    counts = split_counts(store, file.name, file.header, file.tokens, shares)
    return SplitFile(f"{location.rstrip('/')}/{file.name}", file.source, *counts)


def _prepared(path: str, source: str, shares: Shares) -> SplitFile:
    """A pair that was prepared elsewhere; nothing is known of it where it cannot be read."""
    parent, _, name = path.rpartition("/")
    try:
        store = store_at(parent or ".")
        with closing(store.open_reader(f"{name}.idx")) as stream:
            header = parse_header(read_exactly(stream, HEADER_BYTES), f"{path}.idx")
        tokens = tokens_between(store, name, 0, header.sequences)
        counts = split_counts(store, name, header, tokens, shares)
    except (OSError, ShortReadError, SeatrialError):
        return SplitFile(path, source, (0, 0, 0), (0, 0, 0), is_known=False)
    return SplitFile(path, source, *counts)
