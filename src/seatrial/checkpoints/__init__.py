# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What a run saves: record, commit, verification, inventory, retention, resume verdict.

`scan` decides which files may be loaded. `exchange/` plans exports and imports of weights.
Nothing here imports torch.
"""
