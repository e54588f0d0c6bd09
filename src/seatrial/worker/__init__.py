# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Code that runs in the pod; the only package that imports torch or an engine.

No other package imports it: its modules are started as processes. `supervisor/` keeps the ranks on
a node running, `node/` checks machines, `checkpointing/` is shared by the engines, `weights/`
exports and compares weights, and `megatron/` and `llm_foundry/` are specific to one engine.
"""
