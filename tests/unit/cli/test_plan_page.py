# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The page of a plan, line by line, at two widths; and as HTML."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.planning.layout import Layout
from seatrial.planning.plan import Machines, Origin
from seatrial.planning.planner import plan_run
from seatrial.planning.resolve import resolve_basis
from seatrial.planning.run_budget import Duration, budget_of
from seatrial.planning.saving.interval import rate_of
from seatrial.planning.saving.run_saves import Saves
from seatrial.planning.saving.save_budget import SavedRun, save_budget
from seatrial.planning.search.sizing import Fewest, LargestModel, Limits
from seatrial.reports.node_map import node_pictures
from seatrial.reports.plan_html import html_page
from seatrial.reports.plan_json import estimate_data
from seatrial.reports.plan_phrases import (
    duration,
    duration_with_error,
    layout_words,
    new_volume_words,
    object_store_words,
    option_lines,
    rate,
    schedule_words,
    stage_words,
    three,
    with_error,
)
from seatrial.reports.plan_text import (
    Page,
    bar,
    cost_words,
    length_words,
    page_lines,
    say_page,
)
from seatrial.spec.checkpoints import CheckpointsSpec
from seatrial.spec.cluster import Operator
from seatrial.spec.parallelism import Sharding
from seatrial.spec.training import Precision
from tests.conftest import resolved
from tests.unit.cli.made_up_plan import made_up_page, with_figures
from tests.unit.planning.search.asked import opened

GOLDEN = Path(__file__).parents[2] / "golden" / "plan"


@pytest.fixture(autouse=True)
def unbroken_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines are not broken, whatever width the tests themselves run in."""
    monkeypatch.delenv("COLUMNS", raising=False)


def printed(page: Page, capsys: pytest.CaptureFixture[str]) -> str:
    say_page(page)
    return capsys.readouterr().out


@pytest.mark.parametrize("width", [80, 120])
def test_the_page_is_as_it_should_look(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    text = printed(made_up_page(), capsys)
    assert text == (GOLDEN / f"page-{width}.txt").read_text(encoding="utf-8")
    assert max(len(line) for line in text.splitlines()) <= width


def test_lines_fit_every_width_and_hold_one_fact(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = made_up_page()
    facts = [text for _, text in page_lines(page)]
    # Parts of a whole stand on one line, and a reason with its numbers; nothing is longer.
    assert max(map(len, facts)) <= 120
    assert all(". " not in fact for fact in facts)
    for width in range(60, 201):
        monkeypatch.setenv("COLUMNS", str(width))
        lines = printed(page, capsys).splitlines()
        assert max(map(len, lines)) <= width
        # An error bar stays with its number.
        assert not any(line.strip().startswith("±") or line.endswith("±") for line in lines)


def test_colours_mark_verdict_limits_and_error_bars_on_a_terminal_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = made_up_page()
    plain = printed(page, capsys)
    assert "\033" not in plain
    monkeypatch.setattr("seatrial.reports.terminal.has_colour", lambda _: True)
    text = printed(page, capsys)
    for painted in (
        *("\033[1mopen\033[0m", "\033[1mmemory    \033[0m", "\033[32;1mfits\033[0m"),
        *("\033[36m ± 1.4\033[0m", "\033[1m39.4 GiB\033[0m", "\033[2m(planner)\033[0m"),
    ):
        assert painted in text
    assert re.sub(r"\033\[[\d;]*m", "", text) == plain


def test_uneven_stages_are_listed_by_their_layers() -> None:
    uneven = (
        "parallelism={tp_size: 1, pp_size: 4, vp_size: 1, cp_size: 1, sharding: optimizer, "
        "recompute: none, first_stage_layers: 6, last_stage_layers: 10}"
    )
    assert stage_words(resolved(uneven)) == "6 layers in stage 0, 10 in stages 1–3"
    assert stage_words(resolved()) == ""


def test_equal_save_times_are_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    page = made_up_page()
    saves = page.budget.saves
    assert saves is not None
    times: dict[str, float | None] = {
        "fsx-lustre-125": 30.0,
        "fsx-lustre-250": 21.0,
        "fsx-lustre-500": 21.0,
        "fsx-lustre-1000": 30.0,
        "unknown": None,
    }
    budget = replace(page.budget, saves=replace(saves, write_seconds=times))
    text = printed(replace(page, budget=budget), capsys)
    assert text.count("21.0 s") == 1
    assert "other tiers: fsx-lustre-125, fsx-lustre-1000 30.0 s" in text


def test_the_reason_of_the_interval_and_the_cost_of_a_failure_are_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = made_up_page()
    text = printed(page, capsys)
    assert "loses the least time at one failure in 9.00 days" in text
    # 94.9 min and 15 min on two nodes at 21.96 dollars an hour.
    assert "a failure loses up to 94.9 min of work and 15.0 min to restart, $80.4" in text
    saves = page.budget.saves
    assert saves is not None
    longer = replace(saves, budget=replace(saves.budget, best_every_steps=900))
    origins = {**page.run.plan.origins, "checkpoints.every_steps": Origin.PLANNER}
    limited = replace(
        page,
        budget=replace(page.budget, saves=longer),
        run=replace(page.run, plan=replace(page.run.plan, origins=origins)),
    )
    assert "at most 2 hours of work at risk; every 900 steps loses the least" in printed(
        limited, capsys
    )


def test_what_the_planner_would_choose_is_said_of_a_given_layout(
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = made_up_page(searched=False)
    outcome = page.run.outcome
    assert outcome is not None
    assert page.run.chosen is not None
    slow = replace(page.run.chosen, time=outcome.ranked[2].time)
    text = printed(with_figures(page, slow), capsys)
    assert "with auto, the planner chooses tp 4 · pp 2 · dp 2" in text
    assert "tp 8 · dp 2 gains 6 % from a smaller pipeline bubble" in text
    assert "(you)" in text


@pytest.mark.parametrize(
    ("given", "whose"),
    [
        ((), "planner"),
        (("tp_size=8",), "tp: you"),
        (("tp_size=8", "pp_size=2"), "tp, pp: you"),
        (("tp_size=8", "pp_size=2", "vp_size=1", "cp_size=1"), "you"),
    ],
)
def test_the_sizes_of_the_spec_are_told_from_those_of_the_planner(
    given: tuple[str, ...], whose: str, capsys: pytest.CaptureFixture[str]
) -> None:
    loaded = opened(*(f"parallelism.{each}" for each in given))
    run = plan_run(resolve_basis(loaded, Catalog()), alternatives=True)
    page = replace(made_up_page(), run=run, budget=budget_of(run, Catalog()))
    text = printed(page, capsys)
    assert f"   ({whose})\n" in text
    assert ("with auto, the planner chooses" in text) is bool(given)


def test_small_numbers_keep_their_digits() -> None:
    assert with_error(0.0012, 0.25) == "0.0012 ± 0.0003"
    assert [three(number) for number in (0, 0.42, 4.284, 37312)] == ["0", "0.42", "4.28", "37,300"]
    _, parts = length_words(Duration(8.43 * 86400, 10.0, 0.0), 0.1)
    assert parts == ["training 8.43 days"]


def test_the_sizes_have_one_order_everywhere() -> None:
    layout = Layout(tp_size=4, pp_size=4, cp_size=2, dp_size=8, vp_size=4)
    assert layout_words(layout) == "tp 4 · pp 4 · vp 4 · cp 2 · dp 8"
    assert str(layout) == layout_words(layout)


def test_what_published_runs_hardly_test_is_said_apart(
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = made_up_page()
    assert page.run.chosen is not None
    assert "assumed" not in printed(page, capsys)
    unsure = replace(
        page.run.chosen.memory, error=0.3, assumed=0.25, untested=("copies in fp8", "FSDP")
    )
    chosen = replace(page.run.chosen, memory=unsure)
    page = with_figures(page, chosen)
    said = (
        "memory: within 5 % in nine of ten published runs, plus 25 % assumed for features that "
        "they barely cover: copies in fp8, FSDP"
    )
    assert said in " ".join(printed(page, capsys).split())
    assert said in html_page(page)
    data = estimate_data(chosen)["memory"]
    assert data["relative_error"] == 0.3
    assert data["tested_relative_error"] == pytest.approx(0.05)
    assert data["assumed_relative_error"] == 0.25
    assert data["untested"] == ["copies in fp8", "FSDP"]


def test_limits_are_said_where_they_were_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    page = made_up_page()
    largest = LargestModel(page.run.plan.model.architecture, 25_700_000_000)
    text = printed(replace(page, limits=Limits(Fewest(1, True), largest)), capsys)
    assert (
        "fits on 1 × p4d.24xlarge, and no fewer; a larger number must also divide evenly\n" in text
    )
    assert "on these 2, a model of this shape fits with up to 25.7 B" in text
    assert "; the next larger size that divides evenly does not fit)" in text
    more = replace(largest, largest_tried=True)
    text = printed(replace(page, limits=Limits(Fewest(320, False), more, Sharding.FSDP)), capsys)
    assert "fits on 320 × p4d.24xlarge with fsdp only, but not every smaller number was" in text
    assert "fits with at least 25.7 B" in text
    assert "does not fit)" not in text
    nowhere = printed(replace(page, limits=Limits(None, None)), capsys)
    assert "fits on none of the node counts that were tried (powers of two" in nowhere


def test_a_host_without_gpus_has_a_page_too(
    catalog: Catalog, capsys: pytest.CaptureFixture[str]
) -> None:
    local = "cluster={profile: local, processes_per_node: 4}"
    run = plan_run(resolve_basis(opened("model.preset=gpt3-125m", local), catalog))
    page = Page(run, budget_of(run, catalog), "megatron 0.19.2", "nowhere", "none")
    text = printed(page, capsys)
    assert "no GPU: time and cost are not modelled" in text
    assert "memory" not in text.split("not modelled")[0]
    assert html_page(page).count("<svg") == 0


def test_a_new_volume_is_told_with_its_price_and_one_that_is_there_is_not() -> None:
    priced = Catalog()
    tier = priced.storage("fsx-lustre-250")
    plan = resolved("cluster.storage={tier: fsx-lustre-250, capacity: 6000Gi}")
    said = new_volume_words(plan, priced)
    assert said.startswith("a new volume of 5.86 TiB")
    assert ("a month)" in said) == (tier.price is not None)
    for storage in ("{claim: shared}", "{tier: fsx-lustre-250, volume: {handle: fs-1}}"):
        assert new_volume_words(resolved(f"cluster.storage={storage}"), priced) == ""


def test_checkpoints_in_an_object_store_are_told_with_their_price(catalog: Catalog) -> None:
    run = SavedRun(
        parameters=7_000_000_000,
        precision=Precision.BF16,
        nodes=2,
        node_bandwidth=None,
        steps=1000,
        step_seconds=1.0,
        between_failures=1e6,
        ranks=512,
    )

    def said(tier: str) -> str:
        budget = save_budget(run, CheckpointsSpec(every_steps=100), catalog.storage(tier))
        return object_store_words(Saves(tier, False, budget, {}, rate_of(None), 1e6, 1.0), catalog)

    assert said("amlfs-125") == ""
    assert said("azure-blob") == "no list price for azure-blob: add one to your own catalog"
    words = said("gcs-fuse")
    # 1030 files at $0.005 per thousand.
    assert " a month for these checkpoints and $0.0052 of write operations per save" in words
    assert words.endswith("at the list price of 2026-11, us-east1")
    assert object_store_words(None, catalog) == ""


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("{}", "3e-4, cosine to 3e-5, 10 steps of warm-up"),
        (
            "{peak: 1.25e-4, minimum: 0, style: linear, warmup: {fraction: 0.0}}",
            "1.25e-4, linear to 0, no warm-up",
        ),
        ("{style: constant, warmup: {steps: 1}}", "3e-4, constant, 1 step of warm-up"),
        # Whole steps, as the engines count them.
        ("{style: constant, warmup: {fraction: 0.0159}}", "3e-4, constant, 15 steps of warm-up"),
        ("{style: constant, warmup: {fraction: 0.0009}}", "3e-4, constant, no warm-up"),
        ("{decay: {steps: 800}}", "3e-4, cosine to 3e-5 at step 800, 10 steps of warm-up"),
        (
            "{style: wsd, anneal: {steps: 100}}",
            "3e-4, wsd to 3e-5 in the last 100 steps, 10 steps of warm-up",
        ),
        (
            "{style: inverse-square-root}",
            "3e-4, inverse-square-root, at least 3e-5, 10 steps of warm-up",
        ),
    ],
)
def test_the_learning_rate_is_told_in_a_line(given: str, words: str) -> None:
    assert ", ".join(schedule_words(resolved(f"training.learning_rate={given}"))) == words


def test_learning_rates_are_written_as_in_papers() -> None:
    assert [rate(one) for one in (6e-4, 0.001, 1.2345e-5, 0.02, 0.5, 0)] == [
        *("6e-4", "1e-3", "1.234e-5", "2e-2", "0.5", "0"),
    ]


def test_no_price_says_what_to_do() -> None:
    assert cost_words(None, "p9.huge", 0.1) == (
        "no list price for p9.huge: add one to your own catalog"
    )


class _Tags(HTMLParser):
    """Collects tags, what they load, and whether each is closed."""

    void = ("meta", "line", "!doctype")

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loads += [f"{name}={value}" for name, value in attrs if name in ("src", "href")]
        if tag not in self.void:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_html_is_whole_and_fetches_nothing() -> None:
    text = html_page(made_up_page())
    tags = _Tags()
    tags.feed(text)
    assert tags.open == []
    assert tags.loads == []
    assert "<script" not in text
    assert "url(" not in text
    # Memory of two stages, the step, the schedule.
    assert text.count("<svg") == 4
    assert "prefers-color-scheme: dark" in text
    assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)", text)


def test_the_html_draws_what_the_page_says() -> None:
    text = html_page(made_up_page())
    assert "stage 0, activations: 9.6 GiB" in text
    assert "27.4 ± 1.4 GiB" in text
    assert "tensor-parallel: 5.14 s, 12.0 %" in text
    assert "forward of micro-batch 0, chunk 0" in text


def test_options_that_are_off_have_a_reason(capsys: pytest.CaptureFixture[str]) -> None:
    page = made_up_page()
    off = {each.name: each for each in page.run.options_off}
    assert all(each.reason for each in off.values())
    assert off["grouped_experts"].reason == "the model has no experts."
    assert not off["grouped_experts"].is_possible
    # The page lists only those that a user could switch on.
    assert "off: bf16 moments, optimizer offload, CUDA graphs   (why: --json" in printed(
        page, capsys
    )
    text = html_page(page)
    assert "<dt>grouped experts</dt><dd>the model has no experts.</dd>" in text
    assert "<dt>CUDA graphs</dt><dd>a dense layer keeps the GPU busy" in text


def test_an_option_that_the_spec_switches_off_is_the_users_choice() -> None:
    given = opened("cluster.node_type=p5.48xlarge", "performance.fused_loss=false")
    run = plan_run(resolve_basis(given, Catalog()))
    off = {each.name: each.reason for each in run.options_off}
    assert off["fused_loss"] == "the spec switches it off."
    assert "gradient_overlap" not in off
    on_cpu = opened("cluster={profile: local, processes_per_node: 8}", "model.preset=gpt3-125m")
    assert len(option_lines(plan_run(resolve_basis(on_cpu, Catalog())))) == 1


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(3.06e6, "35.4 days"), (5700, "95.0 min"), (42.8, "42.8 s"), (0.0042, "4.20 ms")],
)
def test_durations_are_said_in_a_fitting_unit(seconds: float, words: str) -> None:
    assert duration(seconds) == words
    assert duration_with_error(seconds, 0.1).startswith(f"{words} ± ")


def test_numbers_have_three_digits() -> None:
    assert [three(n) for n in (37_312, 4.284, 0.0, 12_345_678, 99.96)] == [
        "37,300",
        "4.28",
        "0",
        "12.3 M",
        "100",
    ]


def test_error_bars_have_the_unit_of_their_number() -> None:
    assert with_error(37_312, 0.15) == "37,300 ± 5,600"
    assert with_error(1_372_000, 0.15) == "1.37 M ± 0.21 M"
    assert with_error(440, 0.78) == "440 ± 340"


def machines(nodes: int, per_node: int = 8) -> Machines:
    return Machines("eks", Operator.PYTORCHJOB, "p4d", nodes, per_node, "a100", "efa", "", "fsx")


@pytest.mark.parametrize(
    ("layout", "nodes", "drawn"),
    [
        (
            Layout(tp_size=4, cp_size=1, dp_size=4, pp_size=1),
            2,
            ["node 0  ▕0 0 0 0│1 1 1 1▏", "node 1  ▕2 2 2 2│3 3 3 3▏"],
        ),
        (
            Layout(tp_size=8, cp_size=1, dp_size=64, pp_size=1),
            64,
            [
                *("node 0   ▕0 0 0 0 0 0 0 0▏", "node 1   ▕1 1 1 1 1 1 1 1▏", "…"),
                "node 63  ▕63 63 63 63 63 63 63 63▏",
            ],
        ),
        (Layout(tp_size=2, cp_size=1, dp_size=1, pp_size=4), 1, ["node 0  ▕0 0│1 1│2 2│3 3▏"]),
        (
            Layout(tp_size=4, cp_size=1, dp_size=256, pp_size=1),
            128,
            [
                *("node 0    ▕0 0 0 0│1 1 1 1▏", "node 1    ▕2 2 2 2│3 3 3 3▏", "…"),
                "node 127  ▕254 ×4│255 ×4▏",
            ],
        ),
        (
            Layout(tp_size=8, cp_size=1, dp_size=4, pp_size=4),
            16,
            [
                *("nodes 0–3    ▕0 0 0 0 0 0 0 0▏", "nodes 4–7    ▕1 1 1 1 1 1 1 1▏", "…"),
                "nodes 12–15  ▕3 3 3 3 3 3 3 3▏",
            ],
        ),
    ],
)
def test_a_layout_is_drawn_as_nodes(layout: Layout, nodes: int, drawn: list[str]) -> None:
    assert node_pictures(layout, machines(nodes)) == drawn


def test_bars_are_filled_by_their_share() -> None:
    assert bar(0.5) == "█" * 10 + "░" * 10
    assert bar(1.7) == "█" * 20


def test_the_length_names_what_it_is_made_of() -> None:
    length = Duration(34.4 * 86400, 0.3 * 86400, 0.1 * 86400)
    assert length_words(length, 0.1) == (
        "34.8 days ± 3.5",
        ["training 34.4", "saves 0.30", "failures 0.10 days"],
    )
    alone = Duration(7200.0, 0.0, 0.0)
    assert length_words(alone, 0.1) == ("2.00 hours ± 0.2", ["training 2.00 hours"])


def test_a_run_that_never_ends_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    page = made_up_page()
    text = printed(replace(page, budget=replace(page.budget, duration=None)), capsys)
    assert "never finishes: failures are more frequent than saves" in text
