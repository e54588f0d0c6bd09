# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A run's life: launch, status, history, ledger, data preparation in pods, stop.

`launch/` has two backends, Kubernetes and this host.
"""
