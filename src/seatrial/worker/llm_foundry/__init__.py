# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""LLM Foundry's side of the worker."""

import os

# LLM Foundry imports GitPython, which raises where there is no git unless it is told not to, and
# images of pods rarely have one.
os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")
