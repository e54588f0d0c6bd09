# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Turn a corpus into training files: list, freeze, run tasks, assemble, verify, record.

`storage` reads and writes the bytes. Entry points: `prepare`, `estimate`, `inspection`.
"""
