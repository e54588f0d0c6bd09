# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A twin that learns to write this project's documentation, byte by byte.

The engine's mock data are learnt by heart within a few hundred steps; a loss near 0 is not what a
run has. Text has noise of its own, as batches of a real run do.
"""

from pathlib import Path

import numpy as np

from seatrial.dataprep.output.index_file import IndexHeader, write_index
from seatrial.engines.megatron.command_line import Arguments
from tests.engine.toy import DENSE

DOCS = Path(__file__).parents[2] / "docs"
BYTES = 256
"""Tokens; the NullTokenizer's end of document comes after them."""


def text_data(directory: Path) -> str:
    """Write the text as Megatron's data; the path without `.bin` and `.idx`."""
    directory.mkdir(parents=True, exist_ok=True)
    prefix = directory / "text"
    texts = [np.frombuffer(path.read_bytes(), np.uint8) for path in sorted(DOCS.rglob("*.md"))]
    documents = [np.append(text.astype("<u2"), np.uint16(BYTES)) for text in texts]
    prefix.with_suffix(".bin").write_bytes(np.concatenate(documents).tobytes())
    lengths = np.array([len(document) for document in documents], np.int32)
    header = IndexHeader(2, len(documents), len(documents))
    with prefix.with_suffix(".idx").open("wb") as out:
        write_index(out, header, lambda: [lengths], str(prefix))
    return str(prefix)


def text_model(directory: Path, seed: int = 1234) -> Arguments:
    """Two layers of width 64, on the text."""
    return {
        **DENSE,
        "mock-data": None,
        "data-path": text_data(directory),
        "data-cache-path": str(directory / "index-cache"),
        "split": "98,2,0",
        "vocab-size": BYTES + 1,
        "num-layers": 2,
        "global-batch-size": 8,
        "micro-batch-size": 4,
        "lr": 1e-3,
        "seed": seed,
    }
