# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Specs that come with Seatrial, and a new spec from a few wishes."""
