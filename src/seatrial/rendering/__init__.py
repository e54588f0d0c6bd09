# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Render a plan as Kubernetes manifests, as plain data. No I/O.

One file per kind of job or object. Entry point: `render.render`.
"""
