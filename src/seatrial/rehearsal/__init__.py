# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The real engine on a CPU: the shrunk twin of a run, and the drills on it.

Entry point: `rehearse`.
"""
