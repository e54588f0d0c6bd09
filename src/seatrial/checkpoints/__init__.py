# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints: record, commit, verification, inventory, retention and resume verdict.

`scan` decides which files may be loaded. `exchange/` plans exports and imports of weights.
No module here imports torch. Entry points: `commit.commit`, `inventory.checkpoints`,
`verification.verify`, `verdict.verdict`.
"""
