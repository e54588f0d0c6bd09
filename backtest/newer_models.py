# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Predict published runs of newer models, with the constants that Seatrial ships.

    python -m backtest.newer_models                 # print the predictions
    python -m backtest.newer_models --record NAME   # and keep them in data/prequential

The machine is the one that was measured: GPUs of an NVL72 rack share one link. Pods on most
clusters do not get that link between nodes, so a plan for the same GPUs can be slower. Everything
else is what a plan with this layout has.
"""

import tomllib
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from backtest.machines import hardware
from backtest.prequential import print_and_record
from backtest.rows import DATA, spread, stated_recompute
from seatrial.engines.megatron.model_flags import VOCAB_MULTIPLE
from seatrial.planning.layout import Layout
from seatrial.planning.memory.breakdown import Memory
from seatrial.planning.memory.estimate import every_stage
from seatrial.planning.parameters import padded_vocab_size
from seatrial.planning.stages import Stage
from seatrial.planning.timing.constants import constants_for
from seatrial.planning.timing.error_bars import expected_error
from seatrial.planning.timing.step_time import step_time
from seatrial.planning.workload import Hardware, Workload
from seatrial.spec.model import Architecture
from seatrial.spec.parallelism import Sharding
from seatrial.spec.training import Precision

RUNS = DATA / "newer_models.toml"
STACK = "megatron-core"
H800_LINK = 200e9
"""Bytes/s of an H800's link in one direction; otherwise it is an H100 (arXiv 2412.19437)."""
OPTIMIZER_BYTES = 12
"""Bytes per parameter for the master weights and moments of a plan."""


@dataclass(frozen=True, slots=True)
class NewerRun:
    facts: dict[str, Any]
    workload: Workload
    seconds: float
    """Measured time of a step."""


@dataclass(frozen=True, slots=True)
class PredictedRun:
    run: NewerRun
    seconds: float
    nine_of_ten: float
    memory: Memory

    @property
    def error(self) -> float:
        """Predicted over measured step time, less one."""
        return self.seconds / self.run.seconds - 1

    @property
    def allocated(self) -> float:
        """Peak of allocated memory on the fullest rank, with the number formats of the run."""
        stage = self.memory.fullest
        share = float(self.run.facts.get("optimizer_bytes", OPTIMIZER_BYTES)) / OPTIMIZER_BYTES
        return stage.allocated - stage.optimizer * (1 - share)

    @property
    def memory_error(self) -> float | None:
        """Predicted over measured peak of allocated memory, less one; None if not published."""
        measured = self.run.facts.get("memory_gb")
        return self.allocated / 1e9 / measured - 1 if measured else None


@cache
def runs() -> tuple[NewerRun, ...]:
    content = tomllib.loads(RUNS.read_text("utf-8"))
    models = {name: Architecture.model_validate(facts) for name, facts in content["models"].items()}
    found = []
    for facts in content["run"]:
        model = models[facts["model"]]
        if "vocab" in facts:
            model = model.replace(vocab_size=facts["vocab"])
        found.append(NewerRun(facts, _workload(facts, model), float(facts["seconds"])))
    return tuple(found)


def _workload(facts: dict[str, Any], model: Architecture) -> Workload:
    tp, pp, cp, vp, gpus = (facts[name] for name in ("tp", "pp", "cp", "vp", "gpus"))
    layout = Layout(tp, cp, gpus // (tp * pp * cp), pp, vp, facts["ep"])
    recompute, modules = stated_recompute(facts.get("recompute", ""))
    precision = Precision(facts["precision"])
    return Workload(
        model=model,
        sequence_length=facts["seq"],
        padded_vocab_size=padded_vocab_size(model.vocab_size, tp, VOCAB_MULTIPLE),
        layout=layout,
        stages=_stages(facts, model, pp, vp),
        sequence_parallel=tp > 1,
        sharding=Sharding.OPTIMIZER,
        recompute=recompute,
        recompute_modules=modules,
        micro_batch_size=facts["mbs"],
        micro_batches=facts["gbs"] // (facts["mbs"] * layout.dp_size),
        precision=precision,
        hardware=_machine(facts["gpu"], precision),
        stack=STACK,
    )


def _machine(gpu: str, precision: Precision) -> Hardware:
    if gpu == "H800-80GB":
        return replace(hardware("H100-80GB", precision, "", ""), link_bandwidth=H800_LINK)
    return hardware(gpu, precision, "", "")


def _stages(facts: dict[str, Any], model: Architecture, pp: int, vp: int) -> tuple[Stage, ...]:
    sizes = facts.get("chunks")
    if sizes is None:
        return spread(model.layers, pp, vp)
    starts = [sum(sizes[:n]) for n in range(len(sizes))]
    chunks = [tuple(range(start, start + size)) for start, size in zip(starts, sizes, strict=True)]
    return tuple(Stage(stage, tuple(chunks[stage::pp])) for stage in range(pp))


def predicted(run: NewerRun) -> PredictedRun:
    workload = run.workload
    known = constants_for(workload.hardware.accelerator, workload.precision, STACK)
    range_ = expected_error(workload, known).nine_of_ten
    seconds = step_time(workload, known).total
    gradients = run.facts.get("gradient_bytes", workload.gradient_bytes)
    held = every_stage(replace(workload, gradient_bytes=gradients))
    return PredictedRun(run, seconds, range_, held)


def _record(found: PredictedRun) -> dict[str, Any]:
    facts = found.run.facts
    note = [facts.get("note", ""), f"recompute {facts.get('recompute', 'none')}"]
    note.append(f"stated nine of ten ±{found.nine_of_ten:.0%}")
    if found.memory_error is not None:
        note.append(
            f"allocated {found.allocated / 1e9:.1f} GB predicted, {facts['memory_gb']} GB measured"
            f" ({found.memory_error:+.1%})"
        )
    note.append("time model on the measured machine; predicted over measured less one")
    keys = ("model", "gpu", "gpus", "precision", "seq", "gbs", "mbs", "tp", "pp", "cp", "ep", "vp")
    return {
        "source": facts["source"],
        "repo_path_commit": facts["where"],
        **{name: facts[name] for name in keys},
        "published_metric": "step_s",
        "published_value": found.run.seconds,
        "predicted": f"{found.seconds:.4g}",
        "error": f"{found.error:+.3f}",
        "memory_verdict": str(found.memory.verdict),
        "note": "; ".join(part for part in note if part),
    }


def main() -> None:
    print_and_record([_record(predicted(run)) for run in runs()], __doc__)


if __name__ == "__main__":
    main()
