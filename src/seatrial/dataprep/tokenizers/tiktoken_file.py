# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""tiktoken's rank files: one line per token, with its bytes in base64 and its rank.

The file contains neither the pattern that splits text into words nor the special tokens. Both
belong to the encoding, which the file name identifies, such as `cl100k_base.tiktoken`.
"""

import base64
import importlib
import re
from typing import Any

_LINE = re.compile(rb"[A-Za-z0-9+/]+={0,2} \d+\r?\n")


def looks_like_ranks(data: bytes) -> bool:
    """True if the file starts like a tiktoken rank file."""
    return _LINE.match(data) is not None


def encoding_name(address: str) -> str:
    """Return the name of the encoding in an address."""
    return address.rstrip("/").rpartition("/")[2].removesuffix(".tiktoken")


def known_encodings() -> list[str]:
    """Return the encodings whose pattern and special tokens the installed tiktoken knows."""
    names: list[str] = importlib.import_module("tiktoken").list_encoding_names()
    return sorted(names)


def ranks_file(name: str) -> bytes:
    """Return the rank file of one of tiktoken's encodings; tiktoken downloads it if needed."""
    encoding = importlib.import_module("tiktoken").get_encoding(name)
    ranks: dict[bytes, int] = encoding._mergeable_ranks
    lines = sorted((rank, base64.b64encode(token)) for token, rank in ranks.items())
    return b"".join(b"%s %d\n" % (token, rank) for rank, token in lines)


def _ranks(data: bytes) -> dict[bytes, int]:
    """Parse the rank of each token."""
    fields = (line.split() for line in data.splitlines() if line)
    return {base64.b64decode(token): int(rank) for token, rank in fields}


def encoding_of(name: str, data: bytes) -> Any:
    """Build the encoding of that name with the ranks of a file."""
    registry = importlib.import_module("tiktoken.registry")
    public: Any = importlib.import_module("tiktoken_ext.openai_public")
    tiktoken = importlib.import_module("tiktoken")
    registry.list_encoding_names()
    ranks = _ranks(data)
    # The constructor also downloads the ranks. The file is already here, and workers may have no
    # network access, so replace the download.
    fetch = public.load_tiktoken_bpe
    public.load_tiktoken_bpe = lambda *_, **__: ranks
    try:
        settings = registry.ENCODING_CONSTRUCTORS[name]()
    finally:
        public.load_tiktoken_bpe = fetch
    return tiktoken.Encoding(**settings)
