# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Bytes anywhere: directories, object stores, and the files in which Seatrial keeps state.

Writes are atomic and created once; digests, copies and retries are here too.
"""
