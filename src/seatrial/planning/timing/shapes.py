# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The shape of a layer on a rank: which matrices its kernels see.

Libraries choose kernels by shape, and some choices are lucky or unlucky by ten per cent and more.
No formula knows that; a run with a layer of the same shape does.
"""

from seatrial.planning.workload import Workload


def shape_of(workload: Workload) -> str:
    """The shape of a layer: width, inner width, tokens of a micro batch, ranks that share it."""
    model, layout = workload.model, workload.layout
    tokens = workload.micro_batch_size * workload.sequence_length // layout.cp_size
    return f"{model.hidden_size} x {model.ffn_hidden_size} x {tokens} / {layout.tp_size}"
