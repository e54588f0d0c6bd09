# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Detect secrets and redact them from text: token formats, names, redaction.

Entry points: `redaction.redact`, `redaction.looks_secret`.
"""
