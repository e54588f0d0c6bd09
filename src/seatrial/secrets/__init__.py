# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Which values are secrets, and text without them: formats of tokens, names, redaction."""
