# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""GPT-2's tokenizer, which the repository keeps compressed."""

from pathlib import Path

import zstandard

PACKED = Path(__file__).parents[2] / "data" / "gpt2-tokenizer.json.zst"


def gpt2_file(folder: Path) -> Path:
    """The `tokenizer.json`, unpacked into a folder."""
    path = folder / "tokenizer.json"
    path.write_bytes(zstandard.ZstdDecompressor().decompress(PACKED.read_bytes(), 1 << 24))
    return path
