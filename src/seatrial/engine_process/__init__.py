# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Start the Python of an engine, talk to it, end it.

The only way from the command line to torch.
"""
