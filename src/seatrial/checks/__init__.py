# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Rules that look at a planned run before it is launched.

`rules/` holds them by subject, `probes/` reads what they need (data, checkpoints, the engine, a
cluster), `repairs/` proposes changes. Entry point: `check.check`.
"""
