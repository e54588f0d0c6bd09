# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Create a plan from a spec and the catalog: layout, memory, time, cost, checkpoints.

The code is pure arithmetic and reads only its own constants. Entry points are
`resolve.resolve_basis` and `planner.plan_run`, which creates every plan.
"""
