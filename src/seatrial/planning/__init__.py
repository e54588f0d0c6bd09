# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Spec and catalog to a plan: layout, memory, time, cost, checkpoints.

Pure arithmetic; no I/O but its own constants. Entry points: `search.planner.plan_run`,
`resolve.resolve`.
"""
