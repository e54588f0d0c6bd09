# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Turn logs and events into metrics, goodput, anomalies and diagnoses.

The package only reads the output of a run. It does not start anything. Entry points:
`event_log.read_events`, `view.RunView`, `anomalies.monitor.AnomalyMonitor`,
`diagnosis.diagnosis.diagnose`.
"""
