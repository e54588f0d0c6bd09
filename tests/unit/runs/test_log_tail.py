# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The last lines of a file are found from its end."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.runs.history import logs
from seatrial.runs.history.logs import seek_tail


@given(st.text("ab\n", max_size=40).map(str.encode), st.integers(0, 6), st.integers(1, 5))
def test_the_tail_is_that_of_the_whole_text(text: bytes, lines: int, block: int) -> None:
    stream = io.BytesIO(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logs, "_BLOCK", block)
        seek_tail(stream, lines)
    expected = text.splitlines(keepends=True)
    assert stream.read() == b"".join(expected[len(expected) - min(lines, len(expected)) :])
