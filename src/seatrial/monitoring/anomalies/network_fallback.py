# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""NCCL uses TCP sockets although the plan has a faster fabric."""

import re

from seatrial.codes.anomalies import AnomalyCode
from seatrial.findings import Severity
from seatrial.monitoring.anomalies.detector import (
    AnomalyRule,
    Expectations,
    NetworkTransport,
    Seen,
    Symptom,
)
from seatrial.monitoring.event_log import Event
from seatrial.secrets.redaction import redact

RULE = AnomalyRule(
    AnomalyCode.NETWORK_FALLBACK,
    "Fallback to TCP",
    Severity.ERROR,
    "NCCL logs `NET/Socket` or `Using network Socket`, but the plan's fabric is EFA "
    "(`NET/OFI`) or InfiniBand (`NET/IB`).",
    "The first such line. NCCL writes it before the first step if NCCL_DEBUG=INFO is set.",
    "NCCL does not warn if its plugin or the devices are missing. It falls back to TCP, which is "
    "several times slower. NCCL writes such a line for each channel, and one line is sufficient "
    "proof: with a working plugin, NCCL does not use sockets.",
    "Stop the run. Look above that line in NCCL's log for the reason why the plugin did not load. "
    "Check the plugin in the image (aws-ofi-nccl, nccl-rdma-sharp-plugins), the devices in the pod "
    "(vpc.amazonaws.com/efa, rdma/...), FI_PROVIDER and NCCL_NET.",
)
_SOCKET = re.compile(r"Using network Socket|via NET/Socket|NET/Socket\s*: Using")


class NetworkFallback:
    """Checks the output of NCCL."""

    rule = RULE

    def __init__(self, expected: Expectations) -> None:
        self._planned = expected.transport
        self._step = 0

    def observe(self, event: Event) -> Seen:
        """Remember the step; events say nothing about the network."""
        self._step = event.step
        return None

    def observe_line(self, line: str) -> Seen:
        """Check a line of NCCL's log."""
        if self._planned in (None, NetworkTransport.SOCKET) or "Socket" not in line:
            return None
        if "NCCL" not in line or _SOCKET.search(line) is None:
            return None
        message = f"NCCL uses TCP sockets, but the plan has NET/{self._planned}."
        return (Symptom(message, redact(line.strip())[-160:], self._step),)
