# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Compare two Composer checkpoints bit by bit, sharded or merged.

`python -m seatrial.worker.llm_foundry.compare ONE OTHER`.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from seatrial.engines.llm_foundry.checkpoints import WHOLE_FILE
from seatrial.worker.checkpointing import compare
from seatrial.worker.checkpointing.safe_load import load_archive
from seatrial.worker.environment import set_variables
from seatrial.worker.llm_foundry import safe_load

PASSING = ("timestamp", "wct", "callbacks", "run_name")
"""Parts of the state that depend on clocks and not on training."""


def contents(directory: Path) -> dict[str, Any]:
    """Return every tensor in a checkpoint by name, assembled from its chunks."""
    if (directory / ".metadata").exists():
        return compare.contents(directory)
    return dict(_flat(load_archive(directory / WHOLE_FILE), ""))


def _flat(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, dict):
        for key, below in value.items():
            yield from _flat(below, f"{name}.{key}")
    elif isinstance(value, (list, tuple)):
        for number, below in enumerate(value):
            yield from _flat(below, f"{name}.{number}")


def main() -> None:
    """Print the number of tensors, and the names of those that differ."""
    set_variables()
    safe_load.install()
    one, other = (contents(Path(word)) for word in sys.argv[1:3])
    tensors = [
        name
        for name, value in one.items()
        if isinstance(value, torch.Tensor) and not any(word in name for word in PASSING)
    ]
    differing = sorted(
        name for name in set(one) ^ set(other) if not any(word in name for word in PASSING)
    )
    differing += [
        name for name in tensors if name in other and not compare.same_bits(one[name], other[name])
    ]
    sys.stdout.write(json.dumps({"tensors": len(tensors), "differing": differing}) + "\n")


if __name__ == "__main__":
    main()
