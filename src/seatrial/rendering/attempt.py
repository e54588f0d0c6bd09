# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What differs from one submission of a run to the next."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Attempt:
    """One submission of a run."""

    number: int = 1
    """Counted from 1."""
    excluded_nodes: tuple[str, ...] = ()
    """Kubernetes nodes on which an earlier attempt found a fault; no pod goes there."""
    code_digest: str = ""
    """Identity of the Seatrial that rendered it, as `sha256:` and digits; empty leaves it out."""
    submission: str = ""
    """Identity of the launch that began it, as the ledger has it; empty for manifests that no
    launch submits. Numbers begin again when a run was deleted, and files on its volume stay."""
