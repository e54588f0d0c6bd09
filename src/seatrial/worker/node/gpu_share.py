# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Exchange the state of the GPUs between ranks, for the event log. The same for every engine."""

import math
import os
from typing import Any

import torch
import torch.distributed as dist

from seatrial.monitoring.gpus import SENT, summarise_gpus
from seatrial.worker.node.nvml import Nvml, open_nvml
from seatrial.worker.settings import Device, Settings

EVERY = 10
"""A reading every tenth time: it takes some milliseconds, and GPUs change slowly."""


class GpuShare:
    """Reads the GPU of this rank, and gathers the readings of all ranks."""

    def __init__(self, chosen: Settings, nvml: Nvml | None = None) -> None:
        self._chosen = chosen
        self._index = int(os.environ.get("LOCAL_RANK", "0"))
        on_gpu = chosen.device is Device.GPU
        self._nvml = nvml or (open_nvml() if on_gpu else None)
        if self._nvml is not None:
            self._nvml.watch_xids()
        self._times = 0

    def share(self) -> dict[str, Any]:
        """Return the fields of an event on the rank that writes it, otherwise nothing.

        Every rank must call it equally often. Ranks without NVML send unknown values, so that the
        others do not wait for them. Without GPUs there is nothing to exchange.
        """
        self._times += 1
        if self._chosen.device is not Device.GPU or self._times % EVERY != 1:
            return {}
        mine, every = self.read(), []
        if self._chosen.world_size > 1:
            sent = torch.tensor(mine, dtype=torch.float64, device="cuda")
            size = self._chosen.world_size * len(mine)
            gathered = torch.empty(size, dtype=torch.float64, device="cuda")
            dist.all_gather_into_tensor(gathered, sent)
            if self._chosen.writes_events:
                every = gathered.view(self._chosen.world_size, len(mine)).tolist()
        else:
            every = [mine]
        if not self._chosen.writes_events:
            return {}
        state = summarise_gpus(every)
        return state.to_values() if state.figures else {}

    def read(self) -> list[float]:
        """Return the values of this rank's GPU, in the order of `SENT`; NaN for what is unknown."""
        if self._nvml is None or self._index >= self._nvml.count:
            return [math.nan] * len(SENT)
        found, xids = self._nvml.read(self._index), self._nvml.new_xids(self._index)
        values = (
            found.utilisation,
            found.memory_bytes,
            found.power_watts,
            found.clock_mhz,
            found.temperature,
            found.throttle,
            found.ecc_errors,
            xids[-1] if xids else None,
        )
        return [math.nan if value is None else float(value) for value in values]
