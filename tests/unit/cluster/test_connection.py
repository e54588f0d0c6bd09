# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Streams from an API server, whatever it sends."""

import io
from pathlib import Path

import pytest
import urllib3

from seatrial.cluster import connection
from seatrial.cluster.connection import ClientTransport, Target
from seatrial.cluster.transport import Call

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: lab
contexts: [{name: lab, context: {cluster: lab, user: me}}]
clusters: [{name: lab, cluster: {server: "http://cluster.example"}}]
users: [{name: me, user: {}}]
"""


def lines_of(body: bytes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[bytes]:
    file = tmp_path / "kubeconfig"
    file.write_text(KUBECONFIG)
    response = urllib3.HTTPResponse(io.BytesIO(body), preload_content=False, status=200)
    monkeypatch.setattr(ClientTransport, "_send", lambda *_: response)
    with ClientTransport(Target(str(file))).stream(Call("GET", "/log")) as lines:
        return list(lines)


def test_a_line_without_an_end_is_not_held_whole(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(connection, "LONGEST_LINE", 1 << 18)
    token = b"hf_" + b"Ab1" * 12
    long = (b"word " * (1 << 14))[: (1 << 16) - 20] + token + b" word" * (1 << 18)
    found = lines_of(b"one\n" + long + b"\ntwo\nthree", monkeypatch, tmp_path)
    assert found[0] == b"one"
    assert found[2:] == [b"two", b"three"]
    assert long.startswith(found[1][:1000])
    assert len(found[1]) <= 1 << 16
    assert token[:12] not in found[1]


def test_a_line_may_be_as_long_as_an_object(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    line = b"x" * (3 << 20)
    assert lines_of(line + b"\n" + line, monkeypatch, tmp_path) == [line, line]
