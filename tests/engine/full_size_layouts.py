# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Full-size layouts whose figures are known, and a table of what the engine counts for them.

`python -m tests.engine.full_size_layouts [NAME]...` counts the layouts and prints the table.
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from seatrial.catalog.catalog import default_catalog
from seatrial.engine_process.process import count_rank
from seatrial.planning.counted import RankCount
from seatrial.planning.layout import Axis
from seatrial.planning.planner import PlannedRun, plan_run
from seatrial.planning.resolve import resolve_basis
from seatrial.rehearsal.full_size import read_record
from seatrial.sdk.plan import load_checked
from tests.conftest import MEGATRON

PLAIN = (
    "gradient_overlap: false, parameter_overlap: false, tensor_overlap: false, "
    "pipeline_overlap: true, expert_overlap: false, shared_expert_overlap: false, "
    "token_dispatcher: alltoall, grouped_experts: false, fused_routing: false, fused_loss: false, "
    "fused_layers: true, cuda_graphs: none, moments: fp32, optimizer_offload: 0, "
    "activation_offload: 0"
)
"""Performance options that the counts below were made with."""
SPEC = """apiVersion: seatrial.dev/v1alpha1
name: full-size
model: {{preset: {model}}}
data: {{mock: true}}
training: {{steps: 1000, precision: bf16, micro_batch_size: 1, global_batch_size: {batch}{more}}}
parallelism: {{{parallelism}, sharding: optimizer}}
performance: {{{performance}}}
cluster: {{profile: aks, node_type: Standard_ND96isr_H100_v5, nodes: {nodes}}}
checkpoints: {{every_steps: 100}}
"""
GPT3 = "tp_size: 8, pp_size: 16, vp_size: 1, cp_size: 1, sequence_parallel: true"
LLAMA = "tp_size: 8, pp_size: 4, vp_size: 1, cp_size: 1, sequence_parallel: true, recompute: none"
MIXTRAL = "tp_size: 1, pp_size: 4, vp_size: 1, cp_size: 1, ep_size: 8, recompute: none"


@dataclass(frozen=True, slots=True)
class KnownLayout:
    """A layout, and the bytes that the engine's tensors need at the peak of one of its stages."""

    name: str
    model: str
    parallelism: str
    nodes: int
    batch: int
    """Sequences of a step."""
    stage: int
    micro_batches: int
    """How many micro-batches are executed."""
    weights: int
    gradients: int
    optimizer: int
    rest: int
    """Activations, logits and buffers."""
    more: str = ""
    """More of the training section."""
    imbalance: float = 1.0

    def spec(self, performance: str = PLAIN) -> str:
        """Return the text of a spec."""
        return SPEC.format(
            model=self.model,
            batch=self.batch,
            more=self.more,
            parallelism=self.parallelism,
            nodes=self.nodes,
            performance=performance,
        )


def _gpt3(
    name: str,
    stage: int,
    rest: int,
    *,
    parallelism: str = f"{GPT3}, recompute: none",
    micro_batches: int = 20,
    more: str = "",
) -> KnownLayout:
    states = {
        0: (2_926_540_800, 5_853_081_600, 4_389_811_200),
        8: (2_718_922_752, 5_437_845_504, 4_078_384_128),
        15: (2_876_258_304, 5_752_516_608, 4_314_387_456),
    }
    return KnownLayout(
        name,
        "gpt3-175b",
        parallelism,
        64,
        128,
        stage,
        micro_batches,
        *states[stage],
        rest,
        more=more,
    )


LAYOUTS = (
    _gpt3("gpt3-175b, stage 0", 0, 10_335_561_728),
    _gpt3("gpt3-175b, stage 8", 8, 5_503_653_888),
    _gpt3("gpt3-175b, stage 15", 15, 1_429_935_104),
    _gpt3("full recompute", 0, 1_366_800_384, parallelism=f"{GPT3}, recompute: full"),
    _gpt3("selective recompute", 0, 10_326_173_696, parallelism=f"{GPT3}, recompute: selective"),
    _gpt3(
        "interleaved, 3 chunks",
        0,
        13_390_995_968,
        parallelism=f"{GPT3.replace('vp_size: 1', 'vp_size: 3')}, recompute: none",
        micro_batches=32,
    ),
    _gpt3(
        "no sequence parallelism",
        0,
        27_243_456_512,
        parallelism=f"{GPT3.replace('parallel: true', 'parallel: false')}, recompute: none",
    ),
    _gpt3("dropout", 0, 10_986_727_424, more=", hidden_dropout: 0.1, attention_dropout: 0.1"),
    KnownLayout(
        *("llama3-70b, stage 0", "llama3-70b", LLAMA, 16, 64, 0, 8),
        *(4_543_086_592, 9_086_173_184, 6_814_629_888, 23_109_210_624),
    ),
    KnownLayout(
        *("llama3-70b, stage 3", "llama3-70b", LLAMA, 16, 64, 3, 8),
        *(4_543_102_976, 9_086_205_952, 6_814_654_464, 7_104_253_440),
    ),
    KnownLayout(
        *("llama3-70b, cp 2", "llama3-70b", LLAMA.replace("cp_size: 1", "cp_size: 2"), 16, 64),
        *(0, 8, 4_543_086_592, 9_086_173_184, 6_814_629_888, 11_662_479_872),
    ),
    KnownLayout(
        *("mixtral-8x7b", "mixtral-8x7b", MIXTRAL, 8, 256, 0, 8),
        *(3_752_460_288, 7_504_920_576, 8_805_924_864, 33_359_571_456),
    ),
    KnownLayout(
        *("mixtral-8x7b, 1.2 times the tokens", "mixtral-8x7b", MIXTRAL, 8, 256, 0, 8),
        *(3_752_460_288, 7_504_920_576, 8_805_924_864, 38_513_568_256),
        imbalance=1.2,
    ),
    KnownLayout(
        *(
            "gpt3-1.3b",
            "gpt3-1.3b",
            "tp_size: 1, pp_size: 1, vp_size: 1, cp_size: 1, recompute: none",
            1,
            16,
            0,
            2,
        ),
        *(2_631_639_040, 5_263_278_080, 1_973_729_280, 4_166_971_904),
        more="",
    ),
)
"""The states, and the rest of the GPT-3 rows, were first counted by a separate program for the same
engine (megatron-core 0.19.2). It kept the projected queries, keys and values of Llama and Mixtral
beside their copies, which Transformer Engine frees; their rest is that of this program."""


def planned(spec: str, directory: Path) -> PlannedRun:
    """Plan the text of a spec."""
    file = directory / "run.yaml"
    file.write_text(spec)
    return plan_run(resolve_basis(load_checked(file), default_catalog()))


def count(
    run: PlannedRun, rank: int, micro_batches: int, directory: Path, *options: str
) -> RankCount:
    """Let the engine count a rank."""
    plan = run.plan
    arguments = MEGATRON.full_size_arguments(plan, micro_batches).arguments
    words = [*options, *MEGATRON.command_line(arguments)]
    file = directory / "record.json"
    world = plan.layout.world_size
    environment = MEGATRON.environment(plan)
    reason = count_rank(words, rank, world, file, 900.0, environment, engine=MEGATRON)
    if reason:
        raise RuntimeError(reason)
    return read_record(file)


def count_layout(known: KnownLayout, directory: Path) -> RankCount:
    """Let the engine count the rank of a known layout."""
    run = planned(known.spec(), directory)
    rank = run.plan.layout.rank({Axis.PP: known.stage})
    options = ("--imbalance", str(known.imbalance))
    return count(run, rank, known.micro_batches, directory, *options)


def rest_of(counted: RankCount) -> int:
    """Return the bytes of activations, logits and buffers."""
    held = counted.at_peak
    return held.activations + held.logits + held.buffers


def main(names: list[str]) -> None:
    """Print the table."""
    print("| layout | weights | gradients | optimizer | rest | known | CPU s | MiB |")
    print("|---|---|---|---|---|---|---|---|")
    for known in LAYOUTS:
        if names and known.name not in names:
            continue
        with TemporaryDirectory() as directory:
            counted = count_layout(known, Path(directory))
        held = counted.at_peak
        states = (held.weights, held.gradients, held.optimizer)
        expected = (known.weights, known.gradients, known.optimizer)
        cells = [
            f"{size:,}{' =' if size == other else f' ({other:,})'}"
            for size, other in zip(states, expected, strict=True)
        ]
        rest = rest_of(counted)
        print(
            f"| {known.name} | {' | '.join(cells)} | {rest:,} | {rest - known.rest:+,} "
            f"| {counted.cpu_seconds:.0f} | {counted.resident >> 20} |",
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1:])
