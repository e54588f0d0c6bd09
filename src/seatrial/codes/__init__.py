# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The codes of all findings, one enum per area.

A code's docstring is its meaning in the reference. Entry point: `registry.known_codes`.
"""
