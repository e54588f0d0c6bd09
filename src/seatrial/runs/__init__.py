# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The lifecycle of a run: launch, status, history, ledger, data preparation in pods, stop.

`launch/` has two backends: Kubernetes and this host. Entry points: `launch.launcher.launch`,
`status.status.status`, `history.locate.find_history`, `kept_plan.reuse_or_plan`.
"""
