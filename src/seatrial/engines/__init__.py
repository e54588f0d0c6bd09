# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The interface of a training engine, and one folder per engine.

No module here imports torch. Entry points: `engine.Engine`, `registry.ENGINES`.
"""
