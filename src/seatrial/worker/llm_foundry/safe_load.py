# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Composer's own loaders, replaced by Seatrial's (`worker/checkpointing/safe_load.py`)."""

from seatrial.checkpoints.pickle_rules import PLAIN_RULES, Rules
from seatrial.worker.checkpointing import safe_load

PICKLE_READERS: dict[str, Rules] = {
    # Composer's newer checkpoint functions: the resumption state.
    "composer.checkpoint.load": PLAIN_RULES,
    # MDS shards whose index declares a pickle column.
    "streaming.base.format.mds.encodings": PLAIN_RULES,
}
"""Modules that unpickle files themselves, and the names that those files may contain."""


def install() -> None:
    """Route all loading of checkpoints through Seatrial's loader. Call after importing Composer."""
    safe_load.install(PICKLE_READERS)
