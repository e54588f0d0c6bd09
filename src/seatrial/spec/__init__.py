# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The run spec: the sections of a run.yaml, and the strict loader.

Entry points: `loader.load`, `run.RunSpec`.
"""
