# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A custom pipeline layout, in the notation of Megatron's `--pipeline-model-parallel-layout`.

Letters stand for the parts of a model, `|` separates stages, and `*` repeats a letter or a group:
`Et*3|(tt|)*29,m|L` has 32 stages. The engine's parser is in
`megatron/core/transformer/pipeline_parallel_layer_layout.py`; this one accepts no string that the
engine rejects, and rejects a few that the engine would read differently than a reader.
"""

import re
from dataclasses import dataclass
from functools import cache

EMBEDDING, LAYER, PREDICTION, LOSS = "E", "t", "m", "L"
MEANINGS = {
    EMBEDDING: "the embedding",
    LAYER: "a layer",
    PREDICTION: "a layer for multi-token prediction",
    LOSS: "output and loss",
}
MOST_PARTS = 10_000
"""Maximum number of letters and stages, so that a mistyped repetition does not fill the memory."""

_REPEATED = re.compile(r"\(([^()]+)\)\*([0-9]{1,9})|([^()*,])\*([0-9]{1,9})|([^()*,])")


class LayoutError(ValueError):
    """A layout breaks a rule."""

    def __init__(self, rule: str, fix: str) -> None:
        """Take the broken rule as a sentence, and the fix."""
        super().__init__(rule)
        self.rule = rule
        self.fix = fix


@dataclass(frozen=True, slots=True)
class PipelineLayout:
    """The content of every stage, before stages are assigned to ranks."""

    stages: tuple[str, ...]
    """The letters of each stage, in the order of the forward pass.

    Stage s is chunk s // pp_size of pipeline rank s % pp_size."""

    @property
    def layers(self) -> int:
        """Number of the model's own layers."""
        return sum(stage.count(LAYER) for stage in self.stages)

    @property
    def mtp_layers(self) -> int:
        """Number of layers for multi-token prediction."""
        return sum(stage.count(PREDICTION) for stage in self.stages)

    @property
    def mtp_stage(self) -> int | None:
        """Index of the stage with the layers for multi-token prediction; None if there are none."""
        return next((i for i, stage in enumerate(self.stages) if PREDICTION in stage), None)

    def __str__(self) -> str:
        """Return the layout in the engine's notation, without repetitions."""
        return "|".join(self.stages)


@cache
def parse_layout(text: str) -> PipelineLayout:
    """Return the layout; raise `LayoutError` with the first rule that it breaks."""
    layout = PipelineLayout(tuple(_expanded(text).split("|")))
    _check_ends(layout)
    _check_prediction(layout)
    return layout


def _expanded(text: str) -> str:
    """Return the text with all repetitions written out, and without commas."""
    parts: list[str] = []
    length = position = 0
    text = text.replace(",", "")
    while position < len(text):
        found = _REPEATED.match(text, position)
        if found is None:
            raise LayoutError(
                f"`{text[position:]}` is not a repetition: `*` follows a letter or a group in "
                "parentheses and precedes a number, and groups contain no groups.",
                "Write repetitions as t*3 or (tt|)*3.",
            )
        group, times, letter, own_times, plain = found.groups()
        part = _expanded(group) if group else letter or plain
        count = int(times or own_times or 1)
        length += len(part) * count
        if length > MOST_PARTS:
            raise LayoutError(
                f"the layout has more than {MOST_PARTS:,} letters.", "Correct the repetitions."
            )
        if len(part) == 1 and part not in (*MEANINGS, "|"):
            raise LayoutError(
                f"`{part}` stands for no part of a model.",
                f"Use {', '.join(f'{letter} for {what}' for letter, what in MEANINGS.items())}.",
            )
        parts.append(part * count)
        position = found.end()
    return "".join(parts)


def _check_ends(layout: PipelineLayout) -> None:
    """Check that the embedding is first and the loss is last."""
    letters = "".join(layout.stages)
    for letter, place, stage, fits in (
        (EMBEDDING, "first", layout.stages[0], layout.stages[0].startswith(EMBEDDING)),
        (LOSS, "last", layout.stages[-1], layout.stages[-1].endswith(LOSS)),
    ):
        if letters.count(letter) != 1:
            raise LayoutError(
                f"a layout has {letter} ({MEANINGS[letter]}) once, but this one has it "
                f"{letters.count(letter)} times.",
                f"Use {letter} once, in the {place} stage.",
            )
        if not fits:
            raise LayoutError(
                f"{letter} ({MEANINGS[letter]}) is {place} in the {place} stage, but that stage "
                f"is `{stage}`.",
                f"Move {letter} to the {'start' if place == 'first' else 'end'} of the {place} "
                "stage.",
            )


def _check_prediction(layout: PipelineLayout) -> None:
    """Check that layers for multi-token prediction follow the others, in one stage."""
    letters = "".join(layout.stages)
    if PREDICTION + LAYER in letters:
        raise LayoutError(
            f"{PREDICTION} (multi-token prediction) follows all layers, but a {LAYER} comes after "
            "it.",
            f"Move {PREDICTION} behind the last {LAYER}.",
        )
    holding = [stage for stage in layout.stages if PREDICTION in stage]
    if len(holding) > 1:
        raise LayoutError(
            f"all layers for multi-token prediction are in one stage, but {PREDICTION} is in "
            f"{len(holding)} stages.",
            f"Put every {PREDICTION} in the same stage.",
        )
