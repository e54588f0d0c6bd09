# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Random values of the token formats, which no issuer has given to anybody."""

import random
import re

from seatrial.secrets.formats import ALPHABETS, Format

_FIELD = re.compile(r"<([a-z0-9]+):(\d+)(?:-(\d+))?>")
_CHARACTERS = {
    name: "".join(c for c in map(chr, range(33, 127)) if re.fullmatch(f"[{allowed}]", c))
    for name, allowed in ALPHABETS.items()
}


def random_value(form: Format, seed: int) -> str:
    """A value of a format; the same one for the same seed."""
    chance = random.Random(f"{form.issuer} {seed}")  # noqa: S311  (no secret)

    def field(match: re.Match[str]) -> str:
        length = chance.randint(int(match[2]), int(match[3] or match[2]))
        return "".join(chance.choices(_CHARACTERS[match[1]], k=length))

    return _FIELD.sub(field, form.shape)
