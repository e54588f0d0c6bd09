# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The only package that talks to Kubernetes.

It handles objects and API calls, and does not depend on runs. `connection` is the only module that
imports the Kubernetes client. Entry points: `api.Api`, `objects`, `pod_logs.ContainerLog`.
"""
