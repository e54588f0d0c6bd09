# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Facts with their sources: models, machines, fabrics, images, storage, cluster profiles.

The facts are TOML files in `data/`. Entry point: `catalog.Catalog`.
"""
