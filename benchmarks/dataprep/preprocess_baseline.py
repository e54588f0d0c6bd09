# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The baseline of the data benchmark: what Megatron-LM's preprocess_data.py does, with its parts.

    python benchmarks/dataprep/preprocess_baseline.py INPUT.jsonl TOKENIZER-DIRECTORY OUTPUT WORKERS

Runs in the engine's environment. The engine's wheel does not carry Megatron-LM's tools, so this is
a script of ours with the same course: a process pool that is handed one line at a time in chunks of
32, the engine's tokenizer class on each document with its default settings, and one process that
adds every document to the engine's IndexedDatasetBuilder. In its favour: the input is plain JSON
lines, decompressed beforehand, and there is no checking, no hashing and no progress output.
"""

import argparse
import json
import multiprocessing
from typing import Any

from megatron.core.datasets.indexed_dataset import DType, IndexedDatasetBuilder
from megatron.core.tokenizers import MegatronTokenizer

LINES_A_CHUNK = 32

_tokenizer: Any = None
"""In a process of the pool: its tokenizer."""


def load_tokenizer(directory: str) -> Any:
    """The engine's tokenizer of `--tokenizer-type HuggingFaceTokenizer`."""
    metadata = {"library": "huggingface"}
    return MegatronTokenizer.from_pretrained(tokenizer_path=directory, metadata_path=metadata)


def begin(directory: str) -> None:
    global _tokenizer
    _tokenizer = load_tokenizer(directory)


def encode(line: str) -> tuple[list[int], list[int]]:
    """The tokens of a line's document with the end-of-document token, and its sequence lengths."""
    tokens = list(_tokenizer.tokenize(json.loads(line)["text"]))
    if not tokens:
        # An empty document has no sequence.
        return [], []
    tokens.append(_tokenizer.eod)
    return tokens, [len(tokens)]


def main() -> None:
    parser = argparse.ArgumentParser(description="The baseline of the data benchmark.")
    parser.add_argument("input")
    parser.add_argument("tokenizer")
    parser.add_argument("output")
    parser.add_argument("workers", type=int)
    options = parser.parse_args()
    tokenizer = load_tokenizer(options.tokenizer)
    builder = IndexedDatasetBuilder(
        f"{options.output}.bin", dtype=DType.optimal_dtype(tokenizer.vocab_size)
    )
    with (
        open(options.input, encoding="utf-8") as lines,
        multiprocessing.Pool(options.workers, begin, (options.tokenizer,)) as pool,
    ):
        for tokens, lengths in pool.imap(encode, lines, LINES_A_CHUNK):
            builder.add_document(tokens, lengths)
        pool.close()
        pool.join()
    builder.finalize(f"{options.output}.idx")


if __name__ == "__main__":
    main()
