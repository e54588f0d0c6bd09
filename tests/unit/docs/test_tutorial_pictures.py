# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The tutorial's pictures are of what was recorded, which is as the plan and the page have it."""

import json

import pytest

from docs.tools.tutorial.draw import drawn
from docs.tools.tutorial.record import FIGURES, LAYOUTS, RECORDED
from docs.tools.tutorial.traffic import messages
from docs.tools.tutorial.walk import DIRECTORY
from seatrial.planning.search.pipeline_schedule import schedule

TOLD = json.loads(RECORDED.read_text(encoding="utf-8"))


def test_the_pictures_are_of_what_was_recorded() -> None:
    stale = [
        name
        for name, text in drawn(TOLD).items()
        if (FIGURES / name).read_text(encoding="utf-8") != text
    ]
    assert stale == [], "run: python -m docs.tools.tutorial.draw"


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_engine_put_ranks_where_the_plan_has_them(name: str) -> None:
    told = TOLD[name]
    for rank, place in zip(told["ranks"], told["plan"]["places"], strict=True):
        assert {axis: rank["place"][axis] for axis in place} == place


@pytest.mark.parametrize("name", LAYOUTS)
def test_weights_gradients_and_optimizer_are_as_planned(name: str) -> None:
    told = TOLD[name]
    for rank in told["ranks"]:
        planned = told["plan"]["memory"][rank["place"]["pp"]]
        for part in ("weights", "gradients", "optimizer"):
            assert rank["memory"][part] == planned[part], part


@pytest.mark.parametrize(
    ("name", "phase", "kind"),
    [
        ("dp", "gradients", "reduce_scatter_tensor"),
        ("tp", "forward", "all_gather_into_tensor"),
        ("pp", "backward", "isend"),
        ("cp", "forward", "all_gather_into_tensor"),
        ("ep", "forward", "all_to_all_single"),
    ],
)
def test_each_form_of_parallelism_sends_what_its_page_says(
    name: str, phase: str, kind: str
) -> None:
    shown, _ = messages(TOLD[name]["ranks"])
    assert (phase, kind) in {(message.phase, message.kind) for message in shown}


def test_activations_of_stages_are_nearly_as_planned() -> None:
    told = TOLD["pp"]
    for rank in told["ranks"]:
        planned = told["plan"]["memory"][rank["place"]["pp"]]
        assert rank["memory"]["activations"] == pytest.approx(planned["activations"], rel=0.15)


def test_stages_do_their_passes_in_the_planned_order() -> None:
    told = TOLD["pp"]
    plan = told["plan"]
    slots = schedule((1.0,) * plan["layout"]["pp_size"], plan["micro_batches"], 1)
    for rank in told["ranks"]:
        passes = sorted(rank["passes"], key=lambda passed: float(passed["begin"]))
        seen = [
            (passed["doing"], passed["number"])
            for passed in passes
            if passed["doing"] in ("forward", "backward")
        ]
        mine = sorted(
            (slot for slot in slots if slot.stage == rank["place"]["pp"]), key=lambda s: s.begin
        )
        reckoned = [("forward" if slot.forward else "backward", slot.micro_batch) for slot in mine]
        assert seen == reckoned


@pytest.mark.parametrize(
    ("name", "phases", "count", "given", "said"),
    [
        ("dp", ("gradients", "optimizer"), 2, 6.0, "22.5 MiB in total compared with 6 MiB"),
        ("tp", ("forward", "backward"), 180, 22.5, "180 messages of 128 KiB, 22.5 MiB"),
        ("pp", ("forward",), 24, 3.0, "1 MiB per step in each direction"),
        ("cp", ("forward",), 32, 4.0, "makes 32"),
        ("ep", ("forward",), 16, 4.0, "makes 16"),
        ("ep", ("optimizer",), 2, 3.0, "which makes two"),
    ],
)
def test_the_page_counts_what_the_pictures_show(
    name: str, phases: tuple[str, ...], count: int, given: float, said: str
) -> None:
    shown, _ = messages(TOLD[name]["ranks"])
    sizes = [
        size
        for message in shown
        for size in message.sizes
        if message.phase in phases and message.kind != "broadcast"
    ]
    assert len(sizes) == count
    assert sum(sizes) / 2**20 == pytest.approx(given, rel=0.02)
    assert said in (DIRECTORY / "parallelism.md").read_text(encoding="utf-8")
