# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Store bytes in directories and object stores, and Seatrial's state in files.

Writes are atomic, and a file can be created only once. Also contains digests, copies and retries.
Entry points: `access.store_at`, `location.place_at`, `state_files`.
"""
