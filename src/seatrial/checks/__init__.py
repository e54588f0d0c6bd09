# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Rules that check a planned run before it is launched.

`rules/` contains the rules by subject, `probes/` reads their inputs (data, checkpoints, the engine,
a cluster), and `repairs/` proposes changes. Entry point: `check.check`.
"""
