# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Every command as a typed function; the command line parses, calls these, and prints.

One file per subject. `import seatrial` offers the functions that are stable.
"""
