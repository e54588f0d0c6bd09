# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Spec and catalog to a plan: layout, memory, time, cost, checkpoints.

Pure arithmetic; no I/O but its own constants. Entry points: `resolve.resolve_basis`, and
`planner.plan_run`, the one way to a plan.
"""
