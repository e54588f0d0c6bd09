# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The parallel degrees as a spec gives them, before the data-parallel size is known."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Degrees:
    """The sizes of every axis but dp."""

    tp: int
    """Ranks that share each layer's matrices."""
    pp: int
    """Pipeline stages."""
    cp: int
    """Ranks that share each sequence."""
    ep: int
    """Ranks that share the experts."""
    vp: int
    """Chunks of layers per pipeline stage."""
    etp: int
    """Ranks that share one expert's matrices."""

    @property
    def model_size(self) -> int:
        """Ranks that hold one copy of the model."""
        return self.tp * self.pp * self.cp
