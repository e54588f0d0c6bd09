# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Weights & Biases through the engine's own logger, offline: one run, however often it starts."""

from pathlib import Path

import pytest

from seatrial.engine_process.process import Training, train
from seatrial.engines.megatron.command_line import Arguments, engine_arguments
from seatrial.rendering.environment import logger_environment
from tests.engine.toy import DENSE
from tests.unit.rendering.scenes import scene

pytestmark = [pytest.mark.engine, pytest.mark.timeout(6000)]

TIMEOUT = 2400.0
"""A busy machine takes its time."""
ASKED = ("monitoring.wandb={project: seatrial-test, mode: offline}", "monitoring.tensorboard=false")
LOGGERS = ("tensorboard-dir", "wandb-project", "wandb-exp-name", "wandb-entity")


def test_two_starts_are_one_run_and_both_bring_numbers(tmp_path: Path) -> None:
    asked = scene(*ASKED)
    flags = engine_arguments(asked.plan)
    saved = str(tmp_path / "saved")
    arguments: Arguments = {
        **DENSE,
        **{name: flags[name] for name in LOGGERS},
        # The place is that of this test; that there is one is the plan's doing.
        "tensorboard-dir": flags["tensorboard-dir"] and str(tmp_path / "board"),
        "save": saved,
        "load": saved,
        "save-interval": 2,
    }
    told = logger_environment(asked) | {"WANDB_SILENT": "true"}
    for steps in (2, 4):
        more: Arguments = {"train-iters": steps, "override-opt_param-scheduler": True}
        training = Training(
            f"to-{steps}", {**arguments, **more}, 1, tmp_path, environment=told, engine="megatron"
        )
        outcome = train(training, TIMEOUT)
        assert outcome.code == 0, training.log.read_text()[-3000:]
    runs = sorted((tmp_path / "saved" / "wandb" / "wandb").glob("offline-run-*"))
    assert len(runs) == 2
    assert {run.name.rpartition("-")[2] for run in runs} != {""}
    name = asked.plan.spec.name
    assert [run.name.endswith(f"-{name}") for run in runs] == [True, True]
    for run in runs:
        file = next(run.glob(f"run-{name}.wandb"))
        assert b"lm loss" in file.read_bytes()
