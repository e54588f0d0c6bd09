# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Files of tiktoken's: a line for each token, with its bytes in base64 and its rank.

Such a file holds neither the pattern that splits text into words nor the special tokens; both
belong to the encoding, which is told by the file's name, such as `cl100k_base.tiktoken`.
"""

import base64
import importlib
import re
from typing import Any

_LINE = re.compile(rb"[A-Za-z0-9+/]+={0,2} \d+\r?\n")


def looks_like_ranks(data: bytes) -> bool:
    """Whether a file begins as tiktoken's do."""
    return _LINE.match(data) is not None


def encoding_name(address: str) -> str:
    """The name of the encoding that an address speaks of."""
    return address.rstrip("/").rpartition("/")[2].removesuffix(".tiktoken")


def known_encodings() -> list[str]:
    """The encodings whose pattern and special tokens the installed tiktoken knows."""
    names: list[str] = importlib.import_module("tiktoken").list_encoding_names()
    return sorted(names)


def ranks_file(name: str) -> bytes:
    """The file of one of tiktoken's own encodings; tiktoken fetches it when it has not yet."""
    encoding = importlib.import_module("tiktoken").get_encoding(name)
    ranks: dict[bytes, int] = encoding._mergeable_ranks
    lines = sorted((rank, base64.b64encode(token)) for token, rank in ranks.items())
    return b"".join(b"%s %d\n" % (token, rank) for rank, token in lines)


def _ranks(data: bytes) -> dict[bytes, int]:
    """The rank of each token."""
    fields = (line.split() for line in data.splitlines() if line)
    return {base64.b64decode(token): int(rank) for token, rank in fields}


def encoding_of(name: str, data: bytes) -> Any:
    """The encoding of that name with the ranks of a file."""
    registry = importlib.import_module("tiktoken.registry")
    public: Any = importlib.import_module("tiktoken_ext.openai_public")
    tiktoken = importlib.import_module("tiktoken")
    registry.list_encoding_names()
    ranks = _ranks(data)
    # The pattern and the special tokens come with a function that fetches the ranks. The file is
    # at hand, and workers may have no way to the network, so it is given the file instead.
    fetch = public.load_tiktoken_bpe
    public.load_tiktoken_bpe = lambda *_, **__: ranks
    try:
        settings = registry.ENCODING_CONSTRUCTORS[name]()
    finally:
        public.load_tiktoken_bpe = fetch
    return tiktoken.Encoding(**settings)
