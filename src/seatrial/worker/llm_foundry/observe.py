# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Events from Composer's loop, through its own callbacks."""

import hashlib
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from composer.callbacks.checkpoint_saver import CheckpointSaver
from composer.core import Callback
from composer.utils import dist
from torch.distributed.fsdp import FullyShardedDataParallel

from seatrial.monitoring.event_log import EventKind, EventLog
from seatrial.worker.llm_foundry.commit import ComposerCommitter
from seatrial.worker.node.gpu_share import GpuShare
from seatrial.worker.process import process_began
from seatrial.worker.settings import Device, Settings
from seatrial.worker.supervisor.heartbeats import BeatWriter, RankPhase

LOSS = "loss/train/total"
"""Composer's key for a step's mean loss over all ranks."""


class ComposerObserver(Callback):
    """Writes the event log, stops the run on request, and kills itself if a drill requests it."""

    def __init__(
        self, chosen: Settings, configured: Any, heart: BeatWriter, keeper: ComposerCommitter
    ) -> None:
        self._log: EventLog | None = None
        if chosen.writes_events and chosen.events is not None:
            try:
                self._log = EventLog(chosen.events)
            except OSError as error:
                sys.stderr.write(
                    f"seatrial: cannot open the event log, continuing without it: {error}\n"
                )
        self._chosen = chosen
        self._configured = configured
        self._heart = heart
        self._keeper = keeper
        self._step = 0
        self._started = False
        self._asked_to_end = False
        self._gpus = GpuShare(chosen)
        self._last = self._evaluation = time.perf_counter()
        self._rate: float | None = None
        self._norm: float | None = None
        self._clipping = False
        self._order = ""
        self._pausing = ExitStack()
        self.total_steps = int(str(configured.max_duration).removesuffix("ba"))
        """Number of steps in the whole run."""
        restarts = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
        if restarts:
            self._write(EventKind.RESTART, count=restarts, began=process_began())

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Observe while LLM Foundry trains; record an exception and re-raise it."""
        saving, clipping = CheckpointSaver._save_checkpoint, torch.nn.utils.clip_grad_norm_
        sharded = FullyShardedDataParallel.clip_grad_norm_
        CheckpointSaver._save_checkpoint = self._watch_save(saving)
        torch.nn.utils.clip_grad_norm_ = self._watch_norm(clipping)
        FullyShardedDataParallel.clip_grad_norm_ = self._watch_norm(sharded)
        # Composer's own handler exits immediately; this one lets the step finish and save.
        signal.signal(signal.SIGTERM, self._ask_to_end)
        try:
            yield
        except SystemExit as end:
            self._exit(code=end.code or 0)
            raise
        except BaseException as error:
            self._exit(code=1, error=f"{type(error).__name__}: {error}")
            raise
        else:
            self._exit(code=0)
        finally:
            self._heart.end()
            CheckpointSaver._save_checkpoint = saving
            torch.nn.utils.clip_grad_norm_ = clipping
            FullyShardedDataParallel.clip_grad_norm_ = sharded

    def fit_start(self, state: Any, logger: Any) -> None:
        """Record the start of training, possibly from a checkpoint."""
        self._step = int(state.timestamp.batch)
        self._started = True
        self._heart.begin(self._step)
        self._write(EventKind.START, began=process_began(), **self._ran_with())
        self._last = time.perf_counter()

    def batch_start(self, state: Any, logger: Any) -> None:
        """Record the start of a step, when its learning rate is set and its data is loaded."""
        self._rate = float(state.optimizers[0].param_groups[0]["lr"])
        self._norm = None
        if self._chosen.device is Device.CPU and self._log is not None:
            # A drill compares this digest after a resume: samples must come in the same order.
            tokens = state.batch["input_ids"].contiguous().numpy().tobytes()
            self._order = hashlib.sha256(tokens).hexdigest()[:16]

    def batch_end(self, state: Any, logger: Any) -> None:
        """Record a completed step."""
        self._step = int(state.timestamp.batch)
        if self._step == self._chosen.kill_step:
            os.kill(os.getpid(), signal.SIGKILL)
        now = time.perf_counter()
        loss = (state.total_loss_dict or {}).get(LOSS)
        self._write(
            EventKind.STEP,
            seconds=round(now - self._last, 6),
            loss=None if loss is None else float(loss),
            grad_norm=self._norm,
            learning_rate=self._rate,
            skipped=False,
            **({"samples": self._order} if self._order else {}),
        )
        self._last = now
        self._heart.step(self._step)
        gpus = self._gpus.share()
        if gpus:
            self._write(EventKind.GPUS, **gpus)
        if self._all_asked_to_end():
            # Make the current step the last one, which Composer always saves.
            state.stop_training()

    def eval_start(self, state: Any, logger: Any) -> None:
        """Record the start of an evaluation."""
        self._evaluation = time.perf_counter()
        self._pausing.enter_context(self._heart.pause(RankPhase.EVALUATING))

    def eval_end(self, state: Any, logger: Any) -> None:
        """Record the end of an evaluation."""
        taken = time.perf_counter() - self._evaluation
        self._last += taken
        self._pausing.close()
        metrics = state.eval_metrics.get(state.dataloader_label, {})
        loss = float(metrics["LanguageCrossEntropy"].compute()) if metrics else None
        self._keeper.validation_loss = loss
        self._write(
            EventKind.EVALUATION,
            seconds=round(taken, 6),
            loss=loss,
            split="validation",
        )

    def _watch_save(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def save(saver: Any, state: Any, *args: Any, **kwargs: Any) -> Any:
            began = time.perf_counter()
            with self._heart.pause(RankPhase.SAVING), self._keeper.committing(state):
                result = original(saver, state, *args, **kwargs)
            taken = time.perf_counter() - began
            self._last += taken
            self._write(EventKind.SAVE, seconds=round(taken, 6))
            return result

        return save

    def _watch_norm(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Add the result of a clipping call to the step's gradient norm.

        Composer wraps each child of its model in a separate FSDP module, including the loss
        function, which has no parameters, and clips one after the other (composer 0.32.1,
        distributed/dist_strategy.py). The last norm alone would be that of the loss function: 0. An
        FSDP module without sharding calls torch's clipping, which must count only once.
        """

        def clip(*args: Any, **kwargs: Any) -> Any:
            outermost, self._clipping = not self._clipping, True
            try:
                norm = original(*args, **kwargs)
            finally:
                self._clipping = not outermost
            if outermost:
                self._norm = math.hypot(self._norm or 0.0, float(norm))
            return norm

        return clip

    def _ask_to_end(self, number: int, frame: object) -> None:
        self._asked_to_end = True

    def _all_asked_to_end(self) -> bool:
        """True if any rank received a stop request: all ranks stop at the same step."""
        if dist.get_world_size() == 1:
            return self._asked_to_end
        device = torch.device("cpu") if self._chosen.device is Device.CPU else "cuda"
        asked = torch.tensor([int(self._asked_to_end)], dtype=torch.int32, device=device)
        dist.all_reduce(asked, reduce_operation="MAX")
        return bool(asked.item())

    def _exit(self, **values: Any) -> None:
        began = {} if self._started else {"began": process_began()}
        self._write(EventKind.EXIT, **values, **began)

    def _write(self, kind: EventKind, **values: Any) -> None:
        """Append an event at the current step. A write error must not stop the run."""
        if self._log is None:
            return
        try:
            self._log.write(kind, self._step, **values)
        except OSError as error:
            self._log = None
            sys.stderr.write(f"seatrial: cannot write to the event log, disabled it: {error}\n")

    def _ran_with(self) -> dict[str, Any]:
        """Return the settings that affect the step time."""
        options, ranks = self._configured, dist.get_world_size()
        saves = str(options.get("save_interval", "0ba")).removesuffix("ba")
        again = bool((options.get("fsdp_config") or {}).get("activation_checkpointing"))
        return {
            "total_steps": self.total_steps,
            "save_every_steps": int(saves) if options.get("save_folder") else None,
            "world_size": ranks,
            "dp_size": ranks,
            **dict.fromkeys(("tp_size", "pp_size", "vp_size", "cp_size", "ep_size"), 1),
            "micro_batch_size": options.device_train_microbatch_size,
            "global_batch_size": options.global_train_batch_size,
            "sequence_length": options.max_seq_len,
            "layers": options.model.get("n_layers"),
            "hidden_size": options.model.get("d_model"),
            "recompute": "full" if again else "none",
        }
