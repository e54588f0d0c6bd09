# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Reads a split in MDS: its index, which shards are there, and how long a sample is.

Others than Seatrial write MDS too: packed shards, several columns, tokens as bytes. Of what is not
known nothing is said.
"""

import json
import struct
from contextlib import closing
from typing import Any

from seatrial.checks.data_facts import SplitFacts, Unknown
from seatrial.dataprep.output.blocks import ShortReadError, read_exactly
from seatrial.dataprep.output.mds_shard import INDEX_FILE
from seatrial.dataprep.stores.access import store_at
from seatrial.dataprep.stores.store import Store
from seatrial.errors import SeatrialError

WIDTHS = "BHIQ"
"""Numbers in which a dimension is written, by the last two bits before it (MDS of 0.12.0)."""


def split_at(directory: str) -> SplitFacts | Unknown:
    """The split in a directory."""
    try:
        store = store_at(directory)
        sizes = {file.path: file.size for file in store.list(deep=False)}
        if INDEX_FILE not in sizes:
            return Unknown.ABSENT
        shards = json.loads(store.read(INDEX_FILE))["shards"]
        return _facts(store, shards, sizes)
    except FileNotFoundError:
        return Unknown.ABSENT
    except (ValueError, KeyError, TypeError, AttributeError):
        return Unknown.UNREADABLE
    except (SeatrialError, OSError):
        return Unknown.UNSEEN


def _facts(store: Store, shards: list[dict[str, Any]], sizes: dict[str, int]) -> SplitFacts:
    absent = other_size = ""
    length = None
    for shard in shards:
        forms = [form for form in (shard["raw_data"], shard.get("zip_data")) if form]
        there = next((form for form in forms if form["basename"] in sizes), None)
        if there is None:
            absent = absent or forms[0]["basename"]
        elif sizes[there["basename"]] != there["bytes"]:
            other_size = other_size or there["basename"]
        elif length is None and there is shard["raw_data"]:
            length = _length(store, shard)
    return SplitFacts(sum(shard["samples"] for shard in shards), length, absent, other_size)


def _length(store: Store, shard: dict[str, Any]) -> int | None:
    """Tokens of the first sample of a shard; none where it is something else than one array."""
    if shard["column_names"] != ["tokens"]:
        return None
    kind, *of = shard["column_encodings"][0].split(":")
    if kind != "ndarray" or len(of) != 1:
        # Without the type of a token, or with the length, each is written in another way.
        return int(of[1]) if len(of) > 1 and of[1].isdigit() else None
    try:
        with closing(store.open_reader(shard["raw_data"]["basename"])) as stream:
            (begin,) = struct.unpack_from("<I", read_exactly(stream, 8), 4)
        with closing(store.open_reader(shard["raw_data"]["basename"], begin)) as stream:
            # Sizes of columns that vary stand first: four bytes, for the one that there is.
            width = WIDTHS[read_exactly(stream, 5)[4] & 3]
            data = read_exactly(stream, struct.calcsize(width))
        return int(struct.unpack(f"<{width}", data)[0])
    except ShortReadError:
        return None
