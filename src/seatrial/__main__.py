# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`python -m seatrial` is the command `seatrial`."""

from seatrial.cli.main import main

main()
