# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Events from the engine's training loop.

The loop has no callbacks, so some of its functions are wrapped. A wrapper calls the original
function unchanged, and records its arguments or its result.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from megatron.core import mpu
from megatron.core.num_microbatches_calculator import get_current_global_batch_size
from megatron.core.rerun_state_machine import RerunDataIterator
from megatron.training import get_args
from megatron.training import training as engine

from seatrial.engines.megatron.checkpoints import last_batch_size
from seatrial.monitoring.anomalies.detector import Notice
from seatrial.monitoring.anomalies.monitor import AnomalyMonitor
from seatrial.monitoring.event_log import Event, EventKind, EventLog
from seatrial.worker.megatron.step_parts import StepParts
from seatrial.worker.node import nccl_log
from seatrial.worker.node.gpu_share import GpuShare
from seatrial.worker.node.stall_thread import Heartbeat
from seatrial.worker.process import process_began
from seatrial.worker.settings import expected, settings

Wrapped = Callable[..., Any]


class MegatronObserver:
    """Observes the engine's loop: writes the event log, and kills itself if a drill requests it."""

    def __init__(
        self,
        events: Path | None,
        kill_step: int | None = None,
        shares: bool = False,
        nccl_file: Path | None = None,
    ) -> None:
        """Open the event log on the rank that writes it.

        With `shares`, this rank sends its step times to the rank that writes the log; all ranks
        must do so.
        """
        self.step_values: Callable[[], dict[str, Any]] = dict
        """Returns further values of a step for the event log. All ranks call it."""
        self._log = _opened(events)
        self._kill_step = kill_step
        self._shares = shares
        self._parts = StepParts(settings().device)
        self._step = 0
        self._started = False
        self._split = ""
        self._last = time.perf_counter()
        self._writing = threading.RLock()
        self._monitor = AnomalyMonitor()
        chosen = settings()
        on_stall = None if self._log is None else self._silent
        self._gpus = GpuShare(chosen)
        self._heartbeat = Heartbeat(chosen.rank, chosen.world_size, on_stall)
        self._nccl = None if self._log is None else nccl_file
        restarts = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
        if restarts:
            self._write(EventKind.RESTART, count=restarts, began=process_began())

    def wrappers(self) -> dict[str, Callable[[Wrapped], Wrapped]]:
        """Return the wrapped functions in megatron.training.training, and their wrappers."""
        return {
            "train": self._watch_train,
            "train_step": self._watch_train_step,
            "finalize_model_grads": self._watch_gradients,
            "training_log": self._watch_step,
            "save_checkpoint_and_time": self._watch_save,
            "evaluate_and_print_results": self._watch_split,
            "evaluate": self._watch_evaluation,
        }

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Observe while the engine trains; record an exception and re-raise it."""
        originals = {name: getattr(engine, name) for name in self.wrappers()}
        for name, wrap in self.wrappers().items():
            setattr(engine, name, wrap(originals[name]))
        loading = RerunDataIterator.__next__
        RerunDataIterator.__next__ = self._parts.loading(loading)
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
            RerunDataIterator.__next__ = loading
            for name, original in originals.items():
                setattr(engine, name, original)

    def _exit(self, **values: Any) -> None:
        """Record the exit. Without a start event, include the time when the process was created."""
        self._heartbeat.stop()
        began = {} if self._started else {"began": process_began()}
        self._write(EventKind.EXIT, **values, **began)

    def _write(self, kind: EventKind, **values: Any) -> None:
        """Append an event at the current step."""
        self._append(kind, self._step, **values)

    def _append(self, kind: EventKind, step: int, **values: Any) -> None:
        """Append an event. A write error must not stop the run."""
        if self._log is None:
            return
        with self._writing:
            event = Event(kind, step, round(time.time(), 3), values)
            self._put(event)
            self._watch(event)

    def _watch(self, event: Event) -> None:
        """Pass an event to the anomaly monitor. An error in the monitor must not stop the run."""
        try:
            notices = self._monitor.observe(event)
        except Exception as error:
            self._monitor = AnomalyMonitor()
            sys.stderr.write(f"seatrial: reset anomaly detection after an error: {error!r}\n")
            return
        self._announce(notices)

    def _put(self, event: Event) -> None:
        """Append an event to the log."""
        if self._log is None:
            return
        try:
            self._log.append(event)
        except OSError as error:
            self._log = None
            sys.stderr.write(f"seatrial: cannot write to the event log, disabled it: {error}\n")

    def _announce(self, notices: tuple[Notice, ...]) -> None:
        """Write the monitor's notices to the event log and to stderr."""
        for notice in notices:
            self._put(notice.event(round(time.time(), 3)))
            sys.stderr.write(f"seatrial: step {notice.step}: {notice.line}\n")
            sys.stderr.flush()

    def _silent(self, now: float, missing: tuple[int, ...]) -> None:
        """Handle a stall. Called from the heartbeat thread."""
        with self._writing:
            self._announce(self._monitor.pass_time(now, missing))

    def _watch_train(self, original: Wrapped) -> Wrapped:
        def train(*args: Any, **kwargs: Any) -> Any:
            settings = get_args()
            self._step = int(settings.iteration)
            self._started = True
            self._shares = self._parts.agree(self._shares)
            self._monitor = AnomalyMonitor(expected(settings))
            self._heartbeat.start(expected(settings))
            self._write(EventKind.START, began=process_began(), **_ran_with(settings))
            self._last = time.perf_counter()
            try:
                return original(*args, **kwargs)
            finally:
                # After the last step, there are no step times to compare with.
                self._heartbeat.stop()

        return train

    def _watch_train_step(self, original: Wrapped) -> Wrapped:
        def train_step(*args: Any, **kwargs: Any) -> Any:
            self._parts.begin()
            result = original(*args, **kwargs)
            self._parts.mark("ended")
            self._refused(result)
            return result

        return train_step

    def _refused(self, result: Any) -> None:
        """Report immediately that the engine rejected its own result, before it saves and exits."""
        # The result is: losses, skipped, should checkpoint, should exit, exit code.
        ending = result[3:5] if isinstance(result, tuple) else ()
        if len(ending) == 2 and ending[0] and self._log is not None:
            with self._writing:
                self._watch(Event(EventKind.EXIT, self._step, time.time(), {"code": ending[1]}))

    def _watch_gradients(self, original: Wrapped) -> Wrapped:
        def finalize_model_grads(*args: Any, **kwargs: Any) -> Any:
            self._parts.mark("ready")
            result = original(*args, **kwargs)
            self._parts.mark("reduced")
            return result

        return finalize_model_grads

    def _share(self) -> None:
        """Gather the ranks' times, as often as the engine logs."""
        args = get_args()
        if self._shares and self._step % args.log_interval == 0:
            stage, wanted = mpu.get_pipeline_model_parallel_rank(), self._log is not None
            figures = self._parts.share(args.world_size, stage, wanted)
            plain = {name: figure.to_dict() for name, figure in figures.items()}
            self._write(EventKind.RANKS, **plain)
            gpus = self._gpus.share()
            if gpus:
                self._write(EventKind.GPUS, **gpus)

    def _watch_step(self, original: Wrapped) -> Wrapped:
        # The parameter names are the engine's. It passes some of them by position.
        def training_log(
            loss_dict: dict[str, Any],
            total_loss_dict: dict[str, Any],
            learning_rate: float | None,
            iteration: int,
            loss_scale: float,
            report_memory_flag: bool,
            skipped_iter: int,
            grad_norm: float | None,
            *args: Any,
            **kwargs: Any,
        ) -> Any:
            self._step = int(iteration)
            if self._step == self._kill_step:
                os.kill(os.getpid(), signal.SIGKILL)
            now = time.perf_counter()
            seconds = now - self._last
            self._write(
                EventKind.STEP,
                seconds=round(seconds, 6),
                # The optimizer has already waited for the step, so reading the loss costs no time.
                loss=_number(loss_dict.get("lm loss")),
                grad_norm=_number(grad_norm),
                learning_rate=learning_rate,
                skipped=bool(skipped_iter),
                parts=self._parts.finish(seconds),
                **_batch_values(),
                **self.step_values(),
            )
            self._last = now
            done = Event(EventKind.STEP, self._step, time.time(), {"seconds": seconds})
            self._heartbeat.beat(done)
            self._read_nccl()
            # Exchange after recording the step: a failed rank must not hide a completed step.
            self._share()
            return original(
                loss_dict,
                total_loss_dict,
                learning_rate,
                iteration,
                loss_scale,
                report_memory_flag,
                skipped_iter,
                grad_norm,
                *args,
                **kwargs,
            )

        return training_log

    def _read_nccl(self) -> None:
        """Check once, after the first step, which network NCCL has chosen."""
        file, self._nccl = self._nccl, None
        with self._writing:
            for line in nccl_log.lines(file):
                self._announce(self._monitor.observe_line(line))

    def _watch_save(self, original: Wrapped) -> Wrapped:
        def save_checkpoint_and_time(iteration: int, *args: Any, **kwargs: Any) -> Any:
            result, taken = self._timed(original, iteration, *args, **kwargs)
            self._append(EventKind.SAVE, int(iteration), seconds=taken)
            return result

        return save_checkpoint_and_time

    def _watch_split(self, original: Wrapped) -> Wrapped:
        def evaluate_and_print_results(prefix: str, *args: Any, **kwargs: Any) -> Any:
            self._split = "test" if "test set" in prefix else "validation"
            return original(prefix, *args, **kwargs)

        return evaluate_and_print_results

    def _watch_evaluation(self, original: Wrapped) -> Wrapped:
        def evaluate(*args: Any, **kwargs: Any) -> Any:
            result, taken = self._timed(original, *args, **kwargs)
            losses = result[0] if isinstance(result, tuple) else result
            loss = losses.get("lm loss") if isinstance(losses, dict) else None
            self._write(EventKind.EVALUATION, seconds=taken, loss=_number(loss), split=self._split)
            return result

        return evaluate

    def _timed(self, function: Wrapped, *args: Any, **kwargs: Any) -> tuple[Any, float]:
        """Return the function's result and duration, which the next step does not include."""
        began = time.perf_counter()
        self._heartbeat.pause()
        result = function(*args, **kwargs)
        taken = time.perf_counter() - began
        self._last += taken
        self._heartbeat.beat(Event(EventKind.TIMERS, self._step, time.time()))
        return result, round(taken, 6)


def _opened(events: Path | None) -> EventLog | None:
    """Open the log; return None on failure, because an error must not stop the run."""
    if events is None:
        return None
    try:
        return EventLog(events)
    except OSError as error:
        sys.stderr.write(f"seatrial: cannot open the event log, continuing without it: {error}\n")
        return None


def _ran_with(settings: Any) -> dict[str, Any]:
    """Return the engine's settings that affect the step time."""
    names = {
        "total_steps": "train_iters",
        "save_every_steps": "save_interval",
        "world_size": "world_size",
        "dp_size": "data_parallel_size",
        "tp_size": "tensor_model_parallel_size",
        "pp_size": "pipeline_model_parallel_size",
        "cp_size": "context_parallel_size",
        "ep_size": "expert_model_parallel_size",
        "micro_batch_size": "micro_batch_size",
        "global_batch_size": "global_batch_size",
        "sequence_length": "seq_length",
        "layers": "num_layers",
        "hidden_size": "hidden_size",
    }
    # The engine uses None for one chunk per stage, and for no recomputation.
    usual = {
        "vp_size": getattr(settings, "virtual_pipeline_model_parallel_size", None) or 1,
        "recompute": getattr(settings, "recompute_granularity", None) or "none",
    }
    found = {ours: getattr(settings, theirs, None) for ours, theirs in names.items()} | usual
    if getattr(settings, "step_batch_size_schedule", None) is None:
        return found
    # The engine's own value is one micro-batch per rank.
    sizes = {"global_batch_size": last_batch_size(vars(settings))}
    return found | sizes | {"total_samples": settings.train_samples}


def _batch_values() -> dict[str, int]:
    """Return the batch size of this step and the samples so far, if the batch size changes."""
    args = get_args()
    if getattr(args, "step_batch_size_schedule", None) is None:
        return {}
    return {
        "global_batch_size": get_current_global_batch_size(),
        "consumed_samples": int(args.consumed_train_samples),
    }


def _number(value: Any) -> float | None:
    """Convert a one-element tensor or a number to a float."""
    return None if value is None else float(value)
