# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Every command as a typed function. The CLI parses, calls these, and prints.

One file per subject. `import seatrial` exports the stable functions. A test ensures that each
command has one.
"""
