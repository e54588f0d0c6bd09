# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Rules about what the engine and its kernels do not take, though each part alone is right."""

from collections.abc import Iterator

from seatrial.checks.codes import CheckCode
from seatrial.checks.facts import unread_on
from seatrial.checks.rules.variables import without_variable
from seatrial.checks.situation import Checked, Situation, static
from seatrial.spec.engine import EngineName
from seatrial.spec.parallelism import Recompute
from seatrial.spec.training import Precision

MULTIPLES = {Precision.FP8: 16, Precision.MXFP8: 32}
"""What the widths of matrices have to be multiples of: Transformer Engine says so when it stops,
and a block of mxfp8 has 32 numbers."""
ATTENTION = ("NVTE_FLASH_ATTN", "NVTE_FUSED_ATTN", "NVTE_UNFUSED_ATTN")
"""Variables that the engine sets for its attention backend, and asserts (transformer_config)."""
PINNED = ("NCCL_IB_GID_INDEX",)
"""What differs from node to node, and NCCL finds out by itself since 2.21."""
SEGMENTS = "PYTORCH_CUDA_ALLOC_CONF"
REGISTER = "NCCL_GRAPH_REGISTER"


def _option(situation: Situation, name: str) -> object:
    """What is passed to the engine under a name, however it is written."""
    options = situation.spec.engine.options
    return next((value for key, value in options.items() if key.replace("_", "-") == name), None)


def widths(situation: Situation) -> Iterator[Checked]:
    """Widths that the matrix products of the precision do not take."""
    multiple = MULTIPLES.get(situation.spec.training.precision)
    dimensions = situation.spec.model.dimensions
    if multiple is None or dimensions is None:
        return
    model, tp = situation.plan.model.architecture, situation.plan.layout.tp_size
    for name in ("hidden_size", "ffn_hidden_size"):
        width = int(getattr(model, name))
        step = multiple * (tp if name == "ffn_hidden_size" else 1)
        if width % step:
            fitting = -(-width // step) * step
            yield situation.error(
                CheckCode.WIDTHS,
                f"model.dimensions.{name}",
                f"{width:,} on {tp} ranks is no multiple of {multiple}, which matrix products in "
                f"{situation.spec.training.precision} need.",
                f"Use {fitting}, or training.precision=bf16.",
                width,
                f"model.dimensions.{name}={fitting}",
            )


def engines_own(situation: Situation) -> Iterator[Checked]:
    """Variables that the engine sets, and stops at where they differ."""
    if situation.spec.engine.name is not EngineName.MEGATRON:
        return
    if _option(situation, "attention-backend") is not None:
        return
    for name in ATTENTION:
        value = situation.spec.cluster.env.get(name)
        if value is not None and value != "1":
            yield situation.error(
                CheckCode.ENGINES_OWN,
                f"cluster.env.{name}",
                f"Megatron sets {name} to 1 for its default attention backend, and stops where it "
                f"is {value}.",
                "Remove the line; the option attention-backend chooses another.",
                value,
                without_variable(situation, name),
            )


def pinned(situation: Situation) -> Iterator[Checked]:
    """Variables that pin what differs from node to node."""
    for name in PINNED:
        value = situation.spec.cluster.env.get(name)
        unread = unread_on(situation.plan.machines.fabric, name)
        if value is not None and not unread:
            yield situation.warning(
                CheckCode.PINNED,
                f"cluster.env.{name}",
                f"the index is {value} on some node, and another on the next; NCCL finds it by "
                "itself since 2.21.",
                "Remove the line.",
                value,
                without_variable(situation, name),
            )


def moving_graphs(situation: Situation) -> Iterator[Checked]:
    """CUDA graphs in segments of memory that grow, with buffers that NCCL registers."""
    env = situation.spec.cluster.env
    # As the engine's own validate_args has it (megatron-core 0.19.2).
    graphs = _option(situation, "cuda-graph-impl") == "transformer_engine"
    growing = "expandable_segments:True" in env.get(SEGMENTS, "")
    if not graphs or not growing or env.get(REGISTER) == "0":
        return
    yield situation.error(
        CheckCode.OPTION_AGAINST,
        f"cluster.env.{SEGMENTS}",
        "NCCL registers the buffers of a CUDA graph, which segments that grow move: the engine "
        "stops.",
        f'Set cluster.env.{REGISTER}="0", or leave one of the two out.',
        env[SEGMENTS],
        f'cluster.env.{REGISTER}="0"',
    )


def recomputed_overlap(situation: Situation) -> Iterator[Checked]:
    """The overlap of the experts' traffic, where every layer is computed again."""
    name = "overlap-moe-expert-parallel-comm"
    if not _option(situation, name):
        return
    if situation.plan.spec.parallelism.recompute is Recompute.FULL:
        yield situation.error(
            CheckCode.OPTION_AGAINST,
            f"engine.options.{name}",
            "the traffic of the experts cannot be overlapped where every layer is computed again "
            "(recompute: full).",
            "Set parallelism.recompute=selective, or remove it.",
            "true",
            "parallelism.recompute=selective",
        )


RULES = (
    static(CheckCode.WIDTHS, look=widths),
    static(CheckCode.ENGINES_OWN, look=engines_own),
    static(CheckCode.PINNED, look=pinned),
    static(CheckCode.OPTION_AGAINST, look=moving_graphs),
    static(CheckCode.OPTION_AGAINST, look=recomputed_overlap),
)
