# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The published rows as workloads with the time that their step took."""

import csv
import re
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path

from backtest.machines import hardware
from backtest.published_models import PublishedModel, published_model
from seatrial.engines.megatron.model_flags import VOCAB_MULTIPLE
from seatrial.planning.layout import Layout
from seatrial.planning.parameters import padded_vocab_size
from seatrial.planning.stages import Stage
from seatrial.planning.workload import Workload
from seatrial.spec.parallelism import Recompute, RecomputeModule, Sharding
from seatrial.spec.training import Precision

DATA = Path(__file__).parent / "data"
RUNS = DATA / "published_runs.csv"
SPLIT = DATA / "split.csv"
"""Which rows may be fitted and which are scored; recorded before anything was fitted."""
SPEEDS = ("measured_step_time_s", "measured_tokens_per_s_per_gpu", "measured_tflops_per_gpu")
MEMORY_ONLY = "Megatron-LM CI golden values"
"""Its steps are of tiny models, made slow to be deterministic: no speed to learn from."""
NEMO_SOURCES = ("Megatron-Bridge", "NVIDIA dgxc", "NeMo perf", "MLPerf", "Megatron-LM README")
UNFUSED = ("vTrain", "BigScience", "Megatron-LM SC21", "Korthikanti", "parallelism notes")
"""Sources from before flash attention, or that ran without it."""
HALF_GRADIENTS = ("vTrain", "BigScience", "InternEvo")
"""Sources that sum gradients in the format of the weights."""
HARDWARE_FLOPS = ("BigScience", "Megatron-LM SC21")
"""Sources that count recomputed work: four forward passes."""
FULL_ATTENTION = ("nanotron", "Llama 3", "NeMo perf")
"""Sources that count attention as if it were not causal."""
UNKNOWN_CHUNKS = "VP listed NA"
"""Said of a pipeline whose chunks its source does not state."""
SHORT_MODULES = {"norm": RecomputeModule.LAYERNORM, "act": RecomputeModule.MOE_ACT}
"""Parts of a layer by the names that some rows have for them."""
_WORD = re.compile(r"\w+")
_KERNEL = re.compile(r"kernel: ([^;]*)")
_RELEASE = re.compile(r"(?:NeMo container|tag|NeMo|date) (v?[\d.]+(?:-\d+)?)")
_SHARD = re.compile(r"shard=(\d+)")
_EXPERT_TP = re.compile(r"ETP (\d+)")
_ACCUMULATED = re.compile(r"local batch (\d+) grad-accum (\d+)")


def is_timed(row: dict[str, str]) -> bool:
    return any(row[name] for name in SPEEDS)


class LeftOut(StrEnum):
    """Why a published row that was timed takes no part."""

    TINY = "tiny models, made slow to be deterministic"
    DIMENSIONS = "dimensions of the model not stated"
    HYBRID = "hybrid model, which is not modelled"
    LAYOUT = "layout or batch not stated"
    CHUNKS = "chunks of the pipeline not stated"
    UNEVEN = "stated degrees do not multiply to the stated GPUs"


@dataclass(frozen=True, slots=True)
class Row:
    """A published row that was timed and is known well enough to be predicted."""

    id: str
    source: str
    group: str
    size: str
    """Model size, which is held out as a whole."""
    fold: int
    """Scored by constants that were fitted to the other folds."""
    calibration: bool
    """Whether a calibration may see it when its source is held out."""
    gpu: str
    kernel: str
    """Attention kernels, where the source compares them."""
    release: str
    """Software release, where the source states it."""
    workload: Workload
    seconds: float
    notes: str

    @property
    def moe(self) -> bool:
        return self.workload.model.moe is not None


@cache
def timed_rows() -> tuple[Row, ...]:
    return tuple(row for _, row in _read_rows() if isinstance(row, Row))


@cache
def left_out() -> dict[str, Counter[LeftOut]]:
    """By source: how many of its timed rows take no part, and why."""
    found: dict[str, Counter[LeftOut]] = {}
    for source, row in _read_rows():
        if isinstance(row, LeftOut):
            found.setdefault(source, Counter())[row] += 1
    return found


@cache
def published() -> tuple[dict[str, str], ...]:
    """Every published row, as it stands in the file."""
    with RUNS.open(newline="") as file:
        return tuple(csv.DictReader(file))


@cache
def split() -> dict[str, dict[str, str]]:
    """The place of each row in the split, by its number."""
    with SPLIT.open(newline="") as file:
        return {line["id"]: line for line in csv.DictReader(file)}


@cache
def _read_rows() -> tuple[tuple[str, Row | LeftOut], ...]:
    """Every published row that was timed, by its source: read, or why not."""
    timed = (row for row in published() if is_timed(row))
    return tuple((row["source"], read_row(row, split()[row["id"]])) for row in timed)


def read_row(row: dict[str, str], place: dict[str, str]) -> Row | LeftOut:
    """A timed row with its place in the split, or why it takes no part."""
    if row["source"] == MEMORY_ONLY:
        return LeftOut.TINY
    model = published_model(row)
    if model is None:
        return LeftOut.HYBRID if "hybrid" in row["notes"] else LeftOut.DIMENSIONS
    workload = _workload(row, model)
    if isinstance(workload, LeftOut):
        return workload
    seconds = _seconds(row, workload)
    kernel, release = _KERNEL.search(row["notes"]), _RELEASE.search(row["notes"])
    return Row(
        id=row["id"],
        source=row["source"],
        group=place["group"],
        size=place["size"],
        fold=int(place["fold"]),
        calibration=place["calibration"] == "1",
        gpu=row["gpu"],
        kernel=kernel[1] if kernel else "",
        release=release[1] if release else "",
        workload=workload,
        seconds=seconds,
        notes=row["notes"],
    )


def _workload(row: dict[str, str], model: PublishedModel) -> Workload | LeftOut:
    """What was run, or why that is not known."""
    known = ("seq_len", "n_gpus", "tp", "pp", "micro_batch", "global_batch", "gpu")
    if not all(row[name] for name in known):
        return LeftOut.LAYOUT
    if UNKNOWN_CHUNKS in row["notes"]:
        return LeftOut.CHUNKS
    source = row["source"]
    gpus, tp, pp = int(row["n_gpus"]), int(row["tp"]), int(row["pp"])
    cp, vp, ep = (int(row[name] or 1) for name in ("cp", "vp", "ep"))
    micro = int(row["micro_batch"])
    accumulated = _ACCUMULATED.search(row["notes"])
    if source == "NeMo AutoModel" and accumulated:
        micro = int(accumulated[1])
    dp = gpus // (tp * pp * cp)
    if tp * pp * cp * dp != gpus:
        return LeftOut.UNEVEN
    etp = 1
    if model.architecture.moe:
        stated = _EXPERT_TP.search(row["notes"])
        # Before expert tensor parallelism had a size of its own, it was that of the layers.
        etp = int(stated[1]) if stated else tp if "v25.02" in row["notes"] else 1
        if gpus % (etp * ep * pp):
            return LeftOut.UNEVEN
    layout = Layout(tp, cp, dp, pp, vp, ep, etp)
    batches = int(row["global_batch"]) / (micro * dp)
    precision = stated_precision(row["precision"])
    recompute, modules = stated_recompute(row["recompute"])
    nemo = source.startswith(NEMO_SOURCES) or source == "Megatron-MoE-ModelZoo"
    sequence_parallel = row["sp"] == "True" or (not row["sp"] and nemo and tp > 1)
    fused = not source.startswith(UNFUSED)
    if row["notes"].startswith("kernel: "):
        fused = "flash" in row["notes"]
    return Workload(
        model=model.architecture,
        sequence_length=int(row["seq_len"]),
        padded_vocab_size=padded_vocab_size(model.architecture.vocab_size, tp, VOCAB_MULTIPLE),
        layout=layout,
        stages=spread(model.architecture.layers, pp, vp),
        sequence_parallel=sequence_parallel,
        sharding=_sharding(row["sharding"], nemo=nemo),
        recompute=recompute,
        recompute_modules=modules,
        micro_batch_size=micro,
        micro_batches=max(1, round(batches)),
        precision=precision,
        hardware=hardware(row["gpu"], precision, source, row["notes"]),
        flash_attention=fused,
        gradient_bytes=_gradient_bytes(row, nemo=nemo),
        stack=source,
        shard_size=_shard_size(row["sharding"]),
        attention_weights=model.attention_weights,
        attention_share=model.attention_share,
        moe_every=model.moe_every,
    )


def spread(layers: int, pp_size: int, vp_size: int) -> tuple[Stage, ...]:
    """Layers shared out over chunks; the embedding and the loss may stand for a layer each."""
    parts = pp_size * vp_size
    sizes = [layers // parts] * parts
    if layers % parts and (layers + 2) % parts == 0 and parts > 1:
        sizes = [(layers + 2) // parts] * parts
        sizes[0] -= 1
        sizes[-1] -= 1
    else:
        # The ends are the last to get one more: they hold the embedding and the loss.
        order = sorted(range(parts), key=lambda part: (part in (0, parts - 1), part))
        for part in order[: layers % parts]:
            sizes[part] += 1
    starts = [sum(sizes[:part]) for part in range(parts)]
    chunks = [tuple(range(start, start + size)) for start, size in zip(starts, sizes, strict=True)]
    return tuple(Stage(stage, tuple(chunks[stage::pp_size])) for stage in range(pp_size))


def stated_precision(stated: str) -> Precision:
    """The number format, from the words of the sources."""
    words = stated.lower()
    if "nvfp4" in words:
        return Precision.NVFP4
    if words in ("mxfp8", "fp8-mx"):
        return Precision.MXFP8
    if "fp8" in words:
        return Precision.FP8
    return Precision.BF16 if "bf16" in words else Precision.FP16


def _sharding(stated: str, *, nemo: bool) -> Sharding:
    words = stated.lower()
    if "fsdp" in words or "hsdp" in words:
        return Sharding.FSDP
    if "dist_opt" in words or "zero1" in words or (not words and nemo):
        return Sharding.OPTIMIZER
    return Sharding.NONE


def _shard_size(stated: str) -> int:
    """Ranks that share out what is shared out; 0 where all model copies do."""
    found = _SHARD.search(stated)
    return int(found[1]) if found else 0


def stated_recompute(stated: str) -> tuple[Recompute, frozenset[RecomputeModule]]:
    """What is computed again, and which parts of a layer, where a row names them.

    Single operations of unknown choice count as nothing.
    """
    kind, _, names = stated.partition(":")
    if kind == "full":
        return Recompute.FULL, frozenset()
    if kind != "selective":
        return Recompute.NONE, frozenset()
    parts = (SHORT_MODULES.get(name) or RecomputeModule(name) for name in _WORD.findall(names))
    return Recompute.SELECTIVE, frozenset(parts)


def _gradient_bytes(row: dict[str, str], *, nemo: bool) -> int:
    """Bytes of a gradient on its way: two in NeMo, in pure mode and in some other sources."""
    if row["precision"] in ("amp_bf16/DEFAULT", "amp_fp8/DEFAULT"):
        return 4
    if nemo or "PURE" in row["precision"] or row["source"].startswith(HALF_GRADIENTS):
        return 2
    return 4


def _seconds(row: dict[str, str], workload: Workload) -> float:
    """The time of a step, from whatever the source states."""
    if row["measured_step_time_s"]:
        return float(row["measured_step_time_s"])
    gpus = int(row["n_gpus"])
    if row["measured_tokens_per_s_per_gpu"]:
        tokens = int(row["global_batch"]) * workload.sequence_length
        return tokens / (float(row["measured_tokens_per_s_per_gpu"]) * gpus)
    if row["measured_tflops_per_gpu"]:
        work = source_flops(row["source"], int(row["global_batch"]), workload)
        return work / (float(row["measured_tflops_per_gpu"]) * 1e12 * gpus)
    return 0.0


def source_flops(source: str, global_batch: int, workload: Workload) -> float:
    """The operations of a step as the source counts them."""
    model, length = workload.model, workload.sequence_length
    tokens = global_batch * length
    inner = model.heads * model.head_dim
    if source.startswith(HARDWARE_FLOPS):
        # arXiv 2104.04473, equation 3: four forward passes, the logits three.
        layer = 96 * model.hidden_size**2 * (1 + length / (6 * model.hidden_size))
        return tokens * (model.layers * layer + 6 * model.hidden_size * workload.padded_vocab_size)
    matrices = 3 if model.activation.value == "swiglu" else 2
    attention = workload.attention_weights or model.hidden_size * 2 * (
        inner + model.kv_heads * model.head_dim
    )
    feed = matrices * model.hidden_size * model.ffn_hidden_size
    moe_layers, expert = 0, 0
    if model.moe:
        moe_layers = (model.layers - model.moe.dense_layers) // workload.moe_every
        width = model.moe.top_k * model.moe.expert_ffn_hidden_size
        width += model.moe.shared_expert_ffn_hidden_size
        expert = matrices * model.hidden_size * width
    dense_layers = model.layers - moe_layers
    weights = model.layers * attention + dense_layers * feed + moe_layers * expert
    weights += model.hidden_size * workload.padded_vocab_size
    share = 1.0 if source.startswith(FULL_ATTENTION) else 0.5
    scores = model.layers * 2 * length * inner * share * workload.attention_share
    return 6.0 * tokens * (weights + scores)
