# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A third engine, for tests of the seam alone: a plain loop of torch on data-parallel ranks."""

from collections.abc import Mapping
from typing import Any

from seatrial.checkpoints.exchange.weight_map import no_exchange
from seatrial.checkpoints.naming import CheckpointNaming
from seatrial.checkpoints.setup import DataOrder, ModelShape, Setup, Versions
from seatrial.checkpoints.stored_tensors import Contents, listed
from seatrial.codes.engines import EngineCode
from seatrial.engines.checkpoints import EngineCheckpoints
from seatrial.engines.engine import (
    Arguments,
    DataFormat,
    Engine,
    Installation,
    Problem,
    Trial,
    WorkerModules,
)
from seatrial.monitoring.engine_signals import EngineSignals
from seatrial.monitoring.event_log import Event, EventKind
from seatrial.planning.engine_limits import EngineLimits
from seatrial.planning.layout import Layout
from seatrial.planning.plan import Plan
from seatrial.spec.engine import OptionValue, RegisteredEngine
from seatrial.spec.model import Family
from seatrial.spec.parallelism import Recompute, Sharding
from seatrial.spec.run import RunSpec
from seatrial.spec.training import Precision
from seatrial.storage.location import Location

WORKER = "tests.toy_engine.worker"
FORMAT = "toy"
LINE = b"toy step "
REGISTERED = RegisteredEngine("tests.toy_engine.engine:ToyEngine", "A plain loop of torch.")


def toy_setup(given: Mapping[str, Any], versions: Versions, world_size: int) -> Setup:
    """What a checkpoint depends on, by the loop's own arguments."""
    hidden, heads, vocab = given["hidden"], given["heads"], given["vocab"]
    shape: dict[str, Any] = dict.fromkeys(ModelShape.__dataclass_fields__, 0)
    shape |= {"layers": given["layers"], "hidden_size": hidden, "heads": heads, "kv_heads": heads}
    shape |= {"ffn_hidden_size": given["ffn"], "head_dim": hidden // heads, "norm": "layernorm"}
    shape |= {"positions": "learned", "max_positions": given["positions"]}
    shape |= {"linear_bias": True, "qkv_bias": True, "tied_embeddings": True}
    shape |= {"gated": False, "qk_norm": False, "padded_vocab_size": vocab}
    samples = given["steps"] * given["batch"]
    return Setup(
        layout=Layout(dp_size=world_size),
        model=ModelShape(**shape),
        data_order=DataOrder((), (), "", given["seed"], given["length"], samples),
        tokenizer="",
        precision="fp32",
        checkpoint_format=FORMAT,
        optimizer="sgd",
        optimizer_sharding="none",
        global_batch_size=given["batch"],
        versions=versions,
    )


class ToyCheckpoints(EngineCheckpoints):
    formats = (FORMAT,)
    exchange = no_exchange("Toy")

    def setup(self, arguments: Mapping[str, Any], versions: Versions, world_size: int) -> Setup:
        return toy_setup(arguments, versions, world_size)

    def contents(self, place: Location, directory: str, setup: Setup) -> Contents:
        return Contents(listed(place, directory)[0], {})


class ToyLog:
    """Reads `toy step 3 loss 5.2`."""

    marks = (LINE,)
    is_open = False

    def feed(self, line: bytes) -> tuple[Event, ...]:
        words = line.split()
        if not line.startswith(LINE) or len(words) != 5:
            return ()
        return (Event(EventKind.STEP, int(words[2]), 0.0, {"loss": float(words[4])}),)

    def close(self) -> tuple[Event, ...]:
        return ()


class ToyEngine(Engine):
    """Everything about the loop that needs no torch."""

    name = "toy"
    title = "Toy"
    version = "1.0"
    package = "toy 1.0"
    splits_model = False
    data_format = DataFormat.INDEXED
    has_resume_checks = True
    installation = Installation("SEATRIAL_WORKER_PYTHON", ("torch",), "nothing", "worker.txt")
    modules = WorkerModules(
        WORKER, WORKER, WORKER, "seatrial.worker.checkpointing.compare", logits=""
    )
    checkpoint_naming = CheckpointNaming("toy-{step}", tracker="newest-toy", other_files=("toy.*",))
    checkpoint_class = "tests.toy_engine.engine:ToyCheckpoints"
    log_class = "tests.toy_engine.engine:ToyLog"
    signals = EngineSignals("whole", "load", rejection_exits={7: "because it is odd"})
    modelled: Mapping[str, str] = {}

    def limits(self, spec: RunSpec) -> EngineLimits:
        return EngineLimits("toy", False, ((Sharding.NONE,),), (Recompute.NONE,))

    def option_problems(self, options: Mapping[str, OptionValue]) -> list[Problem]:
        unknown, fix = EngineCode.UNKNOWN_OPTION, "Remove it."
        return [Problem(unknown, f"engine.options.{o}", "Toy has none.", fix) for o in options]

    def plan_problems(self, plan: Plan) -> list[Problem]:
        if plan.model.architecture.family is Family.GPT:
            return []
        return [Problem(EngineCode.UNSUPPORTED, "model", "Toy trains GPT alone.", "Use one.")]

    def arguments(self, plan: Plan) -> Arguments:
        model = plan.model.architecture
        return {
            "layers": model.layers,
            "hidden": model.hidden_size,
            "heads": model.heads,
            "ffn": model.ffn_hidden_size,
            "vocab": plan.model.padded_vocab_size,
            "positions": model.max_positions,
            "length": plan.model.sequence_length,
            "steps": plan.length.steps,
            "batch": plan.batch.global_batch_size,
            "rate": plan.schedule.peak,
            "seed": plan.spec.training.seed,
            "save-every": plan.save_every_steps,
            "checkpoints": plan.checkpoint_location,
        }

    def trial_arguments(self, plan: Plan, trial: Trial) -> Arguments:
        told = self.arguments(plan) | {"checkpoints": trial.checkpoints}
        if trial.resharding is not None:
            told |= {"load": trial.resharding.step, "save-every": 0}
        return told

    def one_rank_arguments(self, arguments: Arguments) -> Arguments:
        return arguments

    def command_line(self, arguments: Arguments) -> list[str]:
        return [f"--{name}={value}" for name, value in arguments.items()]

    def text(self, arguments: Arguments) -> str:
        return "\n".join(self.command_line(arguments))

    def cpu_precision(self, precision: Precision) -> Precision:
        return Precision.FP32

    def data_files(self, prepared: str) -> tuple[str, ...]:
        return f"{prepared}.bin", f"{prepared}.idx"
