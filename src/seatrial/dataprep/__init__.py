# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Corpus to training files: list, freeze, run tasks, assemble, verify, record.

Where the bytes are kept is the business of `storage`. Entry points: `prepare`, `estimate`,
`inspection`.
"""
