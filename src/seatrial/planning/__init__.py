# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""From a spec and the catalog to a plan: layout, memory, time, cost, checkpoints.

The code is pure arithmetic and reads only its own constants. Entry points are
`resolve.resolve_basis` and `planner.plan_run`, the only way to a plan.
"""
