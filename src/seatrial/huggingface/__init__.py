# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Models by their published config.json: read it, write it, find it on the Hub.

Here: one table per model type, and the download of a config.json. Not here: weights
(`checkpoints/exchange`), and the configurations that ship with Seatrial (`catalog/data`).
"""
