# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Secrets: which values are refused, and how they are redacted in text."""
