# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Megatron's names for its checkpoints (`megatron/training/checkpointing.py`, 0.19.2)."""

from seatrial.checkpoints.naming import CheckpointNaming

TRACKER = "latest_checkpointed_iteration.txt"
FORMAT_FILE = "metadata.json"
NAMING = CheckpointNaming(
    "iter_{step:07d}",
    tracker=TRACKER,
    format_file=FORMAT_FILE,
    marks_shards=True,
    # One file per rank in older formats, and the state of ModelOpt.
    other_files=("mp_rank_*", "model_optim*", "modelopt_state"),
)
