# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Plan to Kubernetes manifests, as plain data; no I/O.

One file per kind of job or object. Entry point: `render.render`.
"""
