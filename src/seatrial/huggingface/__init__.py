# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Models by their published config.json: read it, write it, fetch it."""
