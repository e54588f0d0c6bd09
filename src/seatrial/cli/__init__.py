# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""One file per command: parse, call, print.

Decisions are made below. `main` lists the commands.
"""
