# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What NCCL has said is read from its own file, and a user's wish comes first."""

from pathlib import Path

import pytest

from seatrial.codes.anomalies import AnomalyCode
from seatrial.monitoring.anomalies.detector import Expectations, NetworkTransport
from seatrial.monitoring.anomalies.monitor import AnomalyMonitor
from seatrial.worker.node import nccl_log
from seatrial.worker.process import core_wait_seconds

# In the words of NCCL 2.2x (src/transport/net_socket.cc, src/net.cc, src/transport/net.cc).
FALLEN_BACK = """\
ip-10-0-0-1:52:86 [0] NCCL INFO NET/Plugin : No plugin found (libnccl-net.so)
ip-10-0-0-1:52:86 [0] NCCL INFO NET/IB : No device found.
ip-10-0-0-1:52:86 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>
ip-10-0-0-1:52:86 [0] NCCL INFO Using network Socket
ip-10-0-0-1:52:86 [0] NCCL INFO Channel 00/0 : 7[7] -> 8[0] [receive] via NET/Socket/0
"""


@pytest.fixture(autouse=True)
def _unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*nccl_log.ASKED, nccl_log.FILE):
        monkeypatch.delenv(name, raising=False)


def test_a_fallback_is_found_in_nccls_own_file(tmp_path: Path) -> None:
    file = tmp_path / "nccl.log"
    file.write_text(FALLEN_BACK)
    keeper = AnomalyMonitor(Expectations(transport=NetworkTransport.OFI))
    found = [notice for line in nccl_log.lines(file) for notice in keeper.observe_line(line)]
    assert [notice.finding.code for notice in found] == [AnomalyCode.NETWORK_FALLBACK]


def test_nccl_is_asked_for_a_file_of_this_process() -> None:
    file = nccl_log.choose_file()
    assert file is not None
    assert nccl_log.variables(file) == {**nccl_log.ASKED, nccl_log.FILE: str(file)}
    assert nccl_log.lines(file) == []


def test_what_a_user_has_set_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_DEBUG", "WARN")
    assert nccl_log.choose_file() is None
    assert nccl_log.variables(None) == {}
    assert nccl_log.lines(None) == []


def test_the_wait_for_a_core_never_falls() -> None:
    before = core_wait_seconds()
    assert 0 <= before <= core_wait_seconds()
