# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Facts with sources about models, node types, fabrics, images, storage and cluster profiles.

The facts are TOML files in `data/`. Entry point: `catalog.Catalog`.
"""
