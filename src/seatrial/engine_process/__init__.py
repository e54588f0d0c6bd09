# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Start an engine's Python, communicate with it, and stop it.

Other packages reach torch only through this one. Entry points: `process.train`,
`process.ask_engine`, `weights.export_weights`.
"""
