# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Rehearse a run: train a scaled-down twin with the real engine on CPU, and run drills on it.

Entry point: `rehearse`.
"""
