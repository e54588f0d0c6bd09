# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Logs and events to metrics, goodput, anomalies and diagnosis.

It reads what a run wrote and starts nothing.
"""
