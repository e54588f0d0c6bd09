# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Store bytes in directories and object stores, and Seatrial's state in files.

Writes are atomic, and creation happens only once. Digests, copies and retries are here too. Entry
points: `access.store_at`, `location.place_at`, `state_files`.
"""
