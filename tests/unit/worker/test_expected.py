# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What the worker judges a training by comes from the plan and from the engine's arguments."""

from types import SimpleNamespace

import pytest

from seatrial.monitoring.anomalies.detector import NetworkTransport
from seatrial.worker.settings import FABRIC, SAVE_SECONDS, expected

ENGINE = SimpleNamespace(
    clip_grad=0.5, save="/data/run", save_interval=100, eval_interval=50, eval_iters=0
)


@pytest.mark.parametrize(
    ("told", "seconds"),
    [("20.5", 20.5), ("", None), ("soon", None), ("nan", None), ("-1", None), ("0", None)],
)
def test_saves_are_held_against_the_plan(
    monkeypatch: pytest.MonkeyPatch, told: str, seconds: float | None
) -> None:
    monkeypatch.setenv(SAVE_SECONDS, told)
    assert expected(ENGINE).save_seconds == seconds


def test_the_fabric_is_the_plans_and_the_rest_the_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SAVE_SECONDS, raising=False)
    monkeypatch.setenv(FABRIC, "efa")
    known = expected(ENGINE)
    assert (known.transport, known.save_seconds) == (NetworkTransport.OFI, None)
    assert (known.clip_grad_norm, known.save_every_steps) == (0.5, 100)
    assert known.evaluate_every_steps == 0
