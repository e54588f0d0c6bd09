# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Code that runs in the pod; the only package that imports torch or an engine.

No other package imports it: it is started as a process. `supervisor/` keeps the ranks of a node
running, `node/` checks machines, `checkpointing/` is common to the engines, `weights/` exports and
compares weights, `megatron/` and `llm_foundry/` are specific to one engine.
"""
