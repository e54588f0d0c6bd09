# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What runs in the pod; the only package that imports torch or an engine.

Nobody imports it: it is started as a process. `supervisor/` keeps the ranks of a node running,
`node/` looks at machines, `checkpointing/` is common to the engines, `megatron/` and
`llm_foundry/` are the engines' own sides.
"""
