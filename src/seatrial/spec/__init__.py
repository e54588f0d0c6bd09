# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What the user wants: the sections of a run.yaml, and its strict reader.

Entry points: `loader.load`, `run.RunSpec`.
"""
