# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Specs that ship with Seatrial, and a generator for new specs.

The specs are YAML files in `data/`. Entry points: `shipped.recipe`, `starter.starter`.
"""
