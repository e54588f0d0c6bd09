# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The tokenizer's file of a frozen list, on the machine that needs it."""

import os
import tempfile
from hashlib import sha256
from pathlib import Path

from seatrial.dataprep.stores.store import Store
from seatrial.dataprep.tasks.records import tokenizer_file
from seatrial.dataprep.tasks.task_list import TaskList
from seatrial.errors import SeatrialError

CACHE = "SEATRIAL_CACHE"
"""Where copies of tokenizers in object stores are kept; ~/.cache/seatrial when absent."""


def tokenizer_path(store: Store, tasks: TaskList) -> Path:
    """The file beside the list, or a copy of it in the cache that is named by its digest."""
    path = tokenizer_file(tasks.name)
    if "://" not in store.address:
        return Path(store.address) / path
    home = Path(os.environ.get(CACHE) or "~/.cache/seatrial").expanduser() / "tokenizers"
    kept = home / tasks.settings.tokenizer.sha256
    if not kept.exists():
        data = store.read(path)
        found = sha256(data).hexdigest()
        if found != kept.name:
            raise SeatrialError(
                f"{store.address}/{path}: the tokenizer has the digest {found[:12]}, and the list "
                f"was frozen with {kept.name[:12]}. Remove {store.address}/work and start again."
            )
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=home, delete=False) as file:
            file.write(data)
        # Other processes may do the same at this moment, with the same bytes.
        os.replace(file.name, kept)
    return kept
