# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Train in one process, a few steps as the worker does and a few steps as the engine does bare.

    alternate_steps.py TIMES-FILE STEPS-A-TURN MODES ENGINE-ARGUMENTS

`MODES` is what takes turns, such as `worker,bare,bare,worker`: `worker` has the worker's forward
step and its event log, `bare` the shortest forward step and no log. The milliseconds that a step
took in each turn are written to the file, with the mode.

Two processes differ by some per cent through the memory they happen to get, and a virtual machine
drifts by tens of per cent within minutes: both far more than what is to be measured. Turns of one
process share its memory and its minute. A turn begins before an optimizer's step, so that it is
whole rounds of the engine's loop: as many logs, forward and backward passes as steps.
"""

import os
import sys
import time
from pathlib import Path
from typing import Any

from seatrial.worker.megatron.cpu.start import start_on_cpu

start_on_cpu(sys.argv[4:])

import torch  # noqa: E402  (the engine asks torch.cuda at its import)

from seatrial.worker.megatron import observe, training  # noqa: E402
from seatrial.worker.megatron.cpu import adam  # noqa: E402
from seatrial.worker.megatron.gpt import forward_step as worker_forward_step  # noqa: E402
from seatrial.worker.settings import settings  # noqa: E402

times_file, steps_a_turn = Path(sys.argv[1]), int(sys.argv[2])
modes = sys.argv[3].split(",")


class Turns:
    """Whose turn it is, and how long the past ones took."""

    def __init__(self) -> None:
        self.steps = 0
        self.began = time.perf_counter()
        self.lines: list[str] = []

    @property
    def mode(self) -> str:
        return modes[max(0, self.steps - 1) // steps_a_turn % len(modes)]

    def before_step(self) -> None:
        """Count the optimizer's step; after every few, note the time that they took."""
        if self.steps % steps_a_turn == 0:
            now = time.perf_counter()
            if self.steps:
                self.lines.append(f"{self.mode} {1000 * (now - self.began) / steps_a_turn}")
            self.began = now
        self.steps += 1


turns = Turns()
optimizer_step = adam.FusedAdam.step
watch_step = observe.MegatronObserver._watch_step


def bare_step(iterator: Any, model: Any) -> Any:
    """The shortest forward step that a GPT script can give to `pretrain`."""
    batch = next(iterator)
    mask = batch["loss_mask"].view(-1).float()
    inputs = (batch[key] for key in ("tokens", "position_ids", "attention_mask"))
    output = model(*inputs, labels=batch["labels"])

    def loss_of(output: torch.Tensor) -> Any:
        loss = torch.sum(output.view(-1).float() * mask)
        count = mask.sum().to(torch.int)
        return loss, count, {"lm loss": torch.stack([loss.detach(), count.float()])}

    return output, loss_of


def forward_step(iterator: Any, model: Any, *args: Any, **kwargs: Any) -> Any:
    if turns.mode == "bare":
        return bare_step(iterator, model)
    return worker_forward_step(iterator, model, *args, **kwargs)


def step(self: Any, closure: Any = None) -> Any:
    turns.before_step()
    return optimizer_step(self, closure)


def watch_on_turn(self: Any, original: Any) -> Any:
    """The step's log, watched only where the worker has the turn."""
    watched = watch_step(self, original)

    def training_log(*args: Any, **kwargs: Any) -> Any:
        return (original if turns.mode == "bare" else watched)(*args, **kwargs)

    return training_log


if __name__ == "__main__":
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    training.forward_step = forward_step  # type: ignore[attr-defined]
    adam.FusedAdam.step = step  # type: ignore[method-assign]
    observe.MegatronObserver._watch_step = watch_on_turn  # type: ignore[method-assign]
    try:
        training.train(settings(), sys.argv[4:])
    finally:
        times_file.write_text("\n".join(turns.lines))
