# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What people look at: the page of a plan, the report of a run, the live view.

Also how text, tables and colours reach a terminal.
"""
