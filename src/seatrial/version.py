# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The version of Seatrial. The build reads it from here."""

VERSION = "0.1.0"
