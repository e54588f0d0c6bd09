# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Made-up data for tests of a layout: LLM Foundry has none of its own.

Every rank makes them in a directory of its own and gives that its name; whoever is first wins, and
the others have made the same.
"""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy
from streaming import MDSWriter
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast

from seatrial.worker.llm_foundry.given import Mock

END = "<end>"
COLUMNS = {"tokens": "ndarray:int32"}
"""As LLM Foundry's own converter writes tokens."""
SPLITS = {"train": 1.0, "val": 0.25}
"""The folders, and how many samples each has beside the training's."""


def make(mock: Mock) -> None:
    """Write the tokenizer, and the data where they are asked for."""
    mock.directory.mkdir(parents=True, exist_ok=True)
    _once(mock.directory / "tokenizer", lambda place: _write_tokenizer(place, mock.vocab_size))
    for number, (split, share) in enumerate(SPLITS.items()):
        samples = round(mock.samples * share)
        if samples:
            _once(
                mock.directory / split,
                lambda place, n=samples, s=number: _write(place, mock, n, s),  # type: ignore[misc]
            )


def _once(place: Path, write: Callable[[Path], None]) -> None:
    """Write into a directory that gets its name when it is whole."""
    if place.exists():
        return
    made = Path(tempfile.mkdtemp(prefix=f".{place.name}-", dir=place.parent))
    write(made)
    try:
        made.rename(place)
    except OSError:
        # Somebody else was faster.
        shutil.rmtree(made)


def _write_tokenizer(place: Path, vocab_size: int) -> None:
    words = {END: 0} | {f"w{number}": number for number in range(1, vocab_size)}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(WordLevel(words, unk_token=END)),
        eos_token=END,
        pad_token=END,
        unk_token=END,
    )
    tokenizer.save_pretrained(str(place))


def _write(place: Path, mock: Mock, samples: int, split: int) -> None:
    """Tokens of which small ones are far more frequent, so that there is something to learn."""
    random = numpy.random.default_rng([mock.seed, split])
    with MDSWriter(out=str(place), columns=COLUMNS) as out:
        for _ in range(samples):
            share = random.random(mock.sequence_length) ** 3
            out.write({"tokens": (share * mock.vocab_size).astype(numpy.int32)})
