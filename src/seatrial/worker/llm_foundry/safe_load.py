# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What Composer and its data library unpickle, through Seatrial's loader."""

from seatrial.checkpoints.pickle_rules import PLAIN_RULES, Rules
from seatrial.worker.checkpointing import safe_load

PICKLE_READERS: dict[str, Rules] = {
    # Composer's newer functions for checkpoints: the state of a resumption.
    "composer.checkpoint.load": PLAIN_RULES,
    # MDS shards whose index says that a column holds pickles.
    "streaming.base.format.mds.encodings": PLAIN_RULES,
}
"""Modules that unpickle files by themselves, and what those files may name."""


def install() -> None:
    """Route what loads checkpoints in this process through it; call after Composer's import."""
    safe_load.install(PICKLE_READERS)
