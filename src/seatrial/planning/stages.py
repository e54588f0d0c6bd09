# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The layers of each pipeline stage, by Megatron's rules.

The source is `megatron/core/transformer/transformer_block.py` (get_num_layers_to_build) and the
checks in `transformer_config.py`. Stages are equal with two exceptions. The first and the last
stage can have their own number of layers. Or embedding and loss count as one layer each: then the
first chunk of the first stage and the last chunk of the last stage have one layer fewer. Chunk c of
every stage comes before chunk c + 1 of any stage. A custom layout states the layers of every chunk.
"""

from dataclasses import dataclass

from seatrial.spec.parallelism import ParallelismSpec
from seatrial.spec.pipeline_layout import LAYER, PipelineLayout


@dataclass(frozen=True, slots=True)
class Stage:
    """One pipeline stage."""

    index: int
    """Index of the stage, from 0."""
    chunks: tuple[tuple[int, ...], ...]
    """The layers of each of its chunks, numbered from 0."""
    mtp: bool | None = None
    """With a custom layout, True if it puts the layers for multi-token prediction here.

    None without a custom layout: the last stage has them."""

    @property
    def layers(self) -> tuple[int, ...]:
        """All layers of the stage."""
        return tuple(layer for chunk in self.chunks for layer in chunk)

    def has_mtp(self, pp_size: int) -> bool:
        """Return True if layers for multi-token prediction would be in this stage."""
        return self.index == pp_size - 1 if self.mtp is None else self.mtp


@dataclass(frozen=True, slots=True)
class Uneven:
    """Why layers cannot be split evenly across stages, and the fix."""

    reason: str
    """The broken rule."""
    fix: str
    field: str
    """The spec field to change."""


def stage_sizes(layers: int, pp_size: int, spec: ParallelismSpec) -> list[int] | Uneven:
    """Return the number of layers in each stage, or why they cannot be divided.

    The numbers include embedding and loss if these count as layers.
    """
    first, last = spec.first_stage_layers, spec.last_stage_layers
    layers += spec.embedding_as_layer + spec.loss_as_layer
    middle = layers - (first or 0) - (last or 0)
    stages = pp_size - (first is not None) - (last is not None)
    if stages < 0 or (pp_size == 1 and (first or last)):
        field = "first_stage_layers" if first is not None else "last_stage_layers"
        return Uneven(
            f"pp_size is {pp_size}, so all layers are in one stage.",
            "Remove the field, or use a larger pp_size.",
            field,
        )
    if middle < 0 or (stages == 0) != (middle == 0) or (stages and middle % stages):
        return _uneven(layers, pp_size, middle, stages, spec)
    share = middle // stages if stages else 0
    sizes = [share] * pp_size
    if first is not None:
        sizes[0] = first
    if last is not None:
        sizes[-1] = last
    return sizes


def _uneven(layers: int, pp_size: int, middle: int, stages: int, spec: ParallelismSpec) -> Uneven:
    """Return the reason and the fix for layers that do not divide evenly."""
    divisors = [n for n in range(1, layers + 1) if layers % n == 0]
    even = " or ".join(str(n) for n in _around(divisors, pp_size))
    counted = counted_words(spec)
    if counted:
        return Uneven(
            f"{layers} layers, counting {counted}, are not divisible by pp_size {pp_size}.",
            f"Use pp_size {even}.",
            "pp_size",
        )
    if spec.first_stage_layers is None and spec.last_stage_layers is None:
        proposal = _counted_ends(layers, pp_size) or _uneven_ends(layers, pp_size)
        return Uneven(
            f"{layers} layers are not divisible by pp_size {pp_size}.",
            f"Use pp_size {even}{proposal}.",
            "pp_size",
        )
    return Uneven(
        f"{middle} of {layers} layers remain for {stages} middle stages.",
        f"Choose first_stage_layers and last_stage_layers so that the number of remaining layers "
        f"is divisible by {stages}."
        if stages
        else f"Make first_stage_layers and last_stage_layers add up to {layers}.",
        "first_stage_layers" if spec.first_stage_layers is not None else "last_stage_layers",
    )


def counted_words(spec: ParallelismSpec) -> str:
    """Return which of embedding and loss count as layers, as text."""
    counted = [("embedding", spec.embedding_as_layer), ("loss", spec.loss_as_layer)]
    return " and ".join(name for name, counts in counted if counts)


def _counted_ends(layers: int, pp_size: int) -> str:
    """Return which fields make the layers divide evenly, as text."""
    if (layers + 2) % pp_size == 0:
        return f", or keep pp_size {pp_size} and set embedding_as_layer and loss_as_layer to true"
    if (layers + 1) % pp_size == 0:
        return f", or keep pp_size {pp_size} and set loss_as_layer to true"
    return ""


def _uneven_ends(layers: int, pp_size: int) -> str:
    """Return sizes of the first and last stage so that the rest divides evenly, as text."""
    if pp_size < 3 or layers < pp_size:
        return ""
    # The ends also contain the embedding or the loss, so they get at most an even share.
    for ends in range(2 * (layers // pp_size), 1, -1):
        if (layers - ends) % (pp_size - 2) == 0 and layers > ends:
            last = (ends + 1) // 2
            first = ends - last
            return (
                f", or keep pp_size {pp_size} and use first_stage_layers {first} and "
                f"last_stage_layers {last}"
            )
    return ""


def _around(numbers: list[int], wanted: int) -> list[int]:
    """Return the nearest numbers below and above the wanted number."""
    below = [n for n in numbers if n < wanted]
    above = [n for n in numbers if n > wanted]
    return below[-1:] + above[:1]


def stages_of(
    sizes: list[int],
    vp_size: int,
    *,
    embedding_as_layer: bool = False,
    loss_as_layer: bool = False,
) -> tuple[Stage, ...]:
    """Return the stages with numbered layers; every size must be divisible by `vp_size`."""
    chunks: list[list[tuple[int, ...]]] = [[] for _ in sizes]
    following = 0
    for chunk in range(vp_size):
        for stage, size in enumerate(sizes):
            first = chunk == stage == 0
            last = chunk == vp_size - 1 and stage == len(sizes) - 1
            share = size // vp_size - (embedding_as_layer and first) - (loss_as_layer and last)
            chunks[stage].append(tuple(range(following, following + share)))
            following += share
    return tuple(Stage(index, tuple(own)) for index, own in enumerate(chunks))


def custom_stages(layout: PipelineLayout, pp_size: int) -> tuple[Stage, ...]:
    """Return the stages of a custom layout, whose number is divisible by `pp_size`."""
    chunks: list[tuple[int, ...]] = []
    following = 0
    for letters in layout.stages:
        chunks.append(tuple(range(following, following := following + letters.count(LAYER))))
    holder = -1 if layout.mtp_stage is None else layout.mtp_stage % pp_size
    return tuple(
        Stage(index, tuple(chunks[index::pp_size]), mtp=index == holder) for index in range(pp_size)
    )
