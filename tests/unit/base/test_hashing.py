# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
import pytest

from seatrial.hashing import canonical_json, digest


def test_equal_data_have_equal_digests_whatever_their_order() -> None:
    assert digest({"a": 1, "b": [1, 2]}) == digest({"b": [1, 2], "a": 1})
    assert digest({"a": 1}) != digest({"a": 2})
    assert digest({}) == ("sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a")


def test_text_beyond_ascii_stays_readable_and_nan_is_refused() -> None:
    assert canonical_json({"b": "é", "a": None}) == '{"a":null,"b":"é"}'
    with pytest.raises(ValueError, match="JSON"):
        canonical_json(float("nan"))
