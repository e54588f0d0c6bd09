# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What Seatrial asks of a training engine, and one folder per engine.

Nothing here imports torch. Entry points: `engine.Engine`, `registry.ENGINES`.
"""
