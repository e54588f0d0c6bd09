# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Runs in the worker's environment: prepared data through the engine's own readers.

Reads a JSON of what to build from the first argument: prefixes, weights, split, sequence length,
samples, cache, and for each prefix the reference's tokens of every document with text.
Prints one line of JSON with what the readers gave.
"""

import json
import signal
import sys
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from megatron.core.datasets.blended_dataset import BlendedDataset
from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder
from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
from megatron.core.datasets.indexed_dataset import IndexedDataset


def documents(prefix: str, mmap: bool) -> list[list[int]]:
    """Every document of a pair, by the engine's index of documents."""
    data = IndexedDataset(prefix, mmap=mmap)
    edges = data.document_indices
    found = []
    for first, last in pairwise(edges):
        ids = [data[int(s)].tolist() for s in range(int(first), int(last))]
        found.append([i for part in ids for i in part])
    return found


def check_dataset(data: Any, reference: list[Any], length: int) -> None:
    """The samples are the reference's tokens in the order of the engine's own indices."""
    stream = np.concatenate([reference[d] for d in data.document_index])
    for place in range(len(data)):
        begin = int(data.shuffle_index[place]) * length
        sample = data[place]
        assert np.array_equal(sample["tokens"].numpy(), stream[begin : begin + length])
        assert np.array_equal(sample["labels"].numpy(), stream[begin + 1 : begin + length + 1])


def main() -> None:
    wanted = json.loads(Path(sys.argv[1]).read_text())
    answer: dict[str, list[Any]] = {}
    answer["documents"] = [[documents(p, m) for m in (True, False)] for p in wanted["prefixes"]]
    reference = {}
    for prefix, both in zip(wanted["prefixes"], wanted["reference"], strict=True):
        reference[prefix] = [np.array(ids, np.int64) for ids in both]
    config = GPTDatasetConfig(
        random_seed=1,
        sequence_length=wanted["length"],
        blend=(wanted["prefixes"], wanted["weights"]),
        split=wanted["split"],
        path_to_cache=wanted["cache"],
        tokenizer=SimpleNamespace(vocab_size=50257, eod=50256, unique_identifiers={}),
        reset_position_ids=False,
        reset_attention_mask=False,
        eod_mask_loss=False,
        create_attention_mask=False,
    )
    # A split without documents is searched without end.
    signal.alarm(wanted["seconds"])
    built = BlendedMegatronDatasetBuilder(
        GPTDataset, wanted["samples"], lambda: True, config
    ).build()
    signal.alarm(0)
    answer["splits"] = []
    for data in built:
        if data is None:
            answer["splits"].append(None)
            continue
        parts = data.datasets if isinstance(data, BlendedDataset) else [data]
        for part in parts:
            check_dataset(part, reference[part.dataset_path], wanted["length"])
        if isinstance(data, BlendedDataset):
            for place in range(len(data)):
                sample, of = data[place], int(data.dataset_index[place])
                same = parts[of][int(data.dataset_sample_index[place])]
                assert np.array_equal(sample["tokens"], same["tokens"])
        answer["splits"].append(
            {
                "samples": len(data),
                "files": [
                    {
                        "samples": len(part),
                        "sequences": len(part.indices),
                        "tokens": part._get_num_tokens_per_epoch(),
                    }
                    for part in parts
                ],
            }
        )
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
