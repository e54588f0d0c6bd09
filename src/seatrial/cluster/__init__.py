# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The only package that talks to Kubernetes.

It knows objects and calls, and nothing about runs.
"""
