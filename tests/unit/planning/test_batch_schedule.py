# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A batch schedule: how long each batch size is used, and what follows from it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial.catalog.catalog import Catalog
from seatrial.checkpoints.setup import Versions
from seatrial.codes.planning import PlanCode
from seatrial.codes.spec import SpecCode
from seatrial.engines.megatron.checkpoints import setup_from_arguments
from seatrial.engines.registry import ENGINES
from seatrial.errors import FindingsError
from seatrial.planning.length import batch_phases, first_step_from, samples_after, steps_within
from seatrial.planning.plan import Plan
from seatrial.planning.planner import plan_run
from seatrial.planning.resolve import resolve_basis
from seatrial.planning.run_budget import budget_of
from seatrial.reports.plan_phrases import early_batch_words
from seatrial.spec.training import EarlyBatch
from tests.conftest import loaded, resolved

# Good: gpt3-7.5b, 1000 steps of 1024 sequences of 2048 tokens, micro-batch 4, dp 4.
SCHEDULE = (
    "training.batch_schedule=[{global_batch_size: 256, until_tokens: 105M}, "
    "{global_batch_size: 512, until_tokens: 200M}]"
)
SEQUENCE = 2048
FIRST = 201
"""105M tokens are 51,269 sequences, which 201 steps of 256 exceed."""
SECOND = 91
"""200M tokens are 97,656 sequences; 46,200 of them remain."""


def test_each_batch_size_is_used_until_its_tokens_are_trained() -> None:
    length = resolved(SCHEDULE).length
    assert [(p.global_batch_size, p.first_step, p.first_sample) for p in length.phases] == [
        (256, 0, 0),
        (512, FIRST, FIRST * 256),
        (1024, FIRST + SECOND, FIRST * 256 + SECOND * 512),
    ]
    assert length.steps_by_phase == (FIRST, SECOND, 1000 - FIRST - SECOND)
    assert length.samples == FIRST * 256 + SECOND * 512 + (1000 - FIRST - SECOND) * 1024
    assert length.tokens == length.samples * SEQUENCE


def test_the_length_in_tokens_is_reached_with_fewer_steps_of_the_last_batch_size() -> None:
    plan = resolved(SCHEDULE, "training.steps=null", "training.tokens=1B")
    samples = plan.length.samples
    assert samples * SEQUENCE >= 10**9 > (samples - 1024) * SEQUENCE
    assert samples == plan.length.samples_after(plan.length.steps)


def test_the_length_in_samples_is_rounded_down_to_whole_steps() -> None:
    length = resolved(SCHEDULE, "training.steps=null", "training.samples=500000").length
    assert length.samples <= 500_000 < length.samples + 1024
    assert length.samples == length.samples_after(length.steps)


def as_the_engine_counts(schedule: list[tuple[int, int]], samples: int) -> list[int]:
    """The batch size of every step, as `update_train_iters` of megatron-core 0.19.2 counts them."""
    consumed, sizes = 0, []
    while consumed < samples:
        size = [batch for start, batch in schedule if consumed >= start][-1]
        sizes.append(size)
        consumed += size
    return sizes


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(0, 90_000)), max_size=3),
    st.integers(1, 64),
    st.integers(1, 400),
    st.integers(1, 300),
)
def test_steps_and_samples_are_those_of_the_engine(
    early: list[tuple[int, int]], last: int, sequence: int, steps: int
) -> None:
    starts = sorted({tokens for _, tokens in early})
    schedule = tuple(
        EarlyBatch(global_batch_size=size, until_tokens=tokens + 1)
        for (size, _), tokens in zip(early, starts, strict=False)
    )
    phases = batch_phases(schedule, last, sequence)
    begins = [0, *(one.until_tokens // sequence for one in schedule)]
    sizes = [*(one.global_batch_size for one in schedule), last]
    total = samples_after(phases, steps)
    engine = as_the_engine_counts(list(zip(begins, sizes, strict=True)), total)
    assert len(engine) == steps
    assert sum(engine) == total
    assert steps_within(phases, total) == first_step_from(phases, total) == steps


def test_the_learning_rate_is_counted_in_the_samples_of_the_steps() -> None:
    rate = "{style: wsd, warmup: {steps: 300}, anneal: {steps: 600}}"
    plan = resolved(SCHEDULE, f"training.learning_rate={rate}")
    after = plan.length.samples_after
    assert plan.schedule.warmup_samples == after(300) == FIRST * 256 + SECOND * 512 + 8 * 1024
    assert plan.schedule.anneal_samples == after(1000) - after(400)
    rate = "{style: wsd, warmup: {steps: 30}, anneal: {steps: 800}}"
    plan = resolved(SCHEDULE, f"training.learning_rate={rate}")
    assert plan.schedule.anneal_samples == after(1000) - after(200)


def refused(*overrides: str) -> list[tuple[str, str, str]]:
    with pytest.raises(FindingsError) as caught:
        resolved(*overrides)
    return [(str(f.code), f.where.field, f.rule) for f in caught.value.findings]


def entries(*pairs: tuple[int, str]) -> str:
    listed = (f"{{global_batch_size: {size}, until_tokens: {tokens}}}" for size, tokens in pairs)
    return f"training.batch_schedule=[{', '.join(listed)}]"


@pytest.mark.parametrize(
    ("schedule", "code", "field", "rule"),
    [
        (
            entries((256, "200M"), (512, "100M")),
            SpecCode.CONTRADICTION,
            "training.batch_schedule[1].until_tokens",
            "this batch size ends at 100,000,000 tokens, but the one before it ends at "
            "200,000,000.",
        ),
        (
            entries((256, "100M"), (1024, "200M")),
            SpecCode.CONTRADICTION,
            "training.batch_schedule[1].global_batch_size",
            "1024 sequences are not fewer than the 1024 that follow; the batch size can only grow.",
        ),
        (
            entries((258, "100M")),
            SpecCode.CONTRADICTION,
            "training.batch_schedule[0].global_batch_size",
            "258 sequences cannot be split into micro-batches of 4.",
        ),
        (
            entries((260, "100M")),
            PlanCode.BATCH,
            "training.batch_schedule[0].global_batch_size",
            "260 sequences are not divisible by micro-batch 4 × dp 4 = 16.",
        ),
        (
            entries((256, "2047")),
            PlanCode.BATCH_SCHEDULE,
            "training.batch_schedule[0].until_tokens",
            "no step has this batch size: 0 tokens are trained before it, and it ends at 2,047.",
        ),
        (
            entries((256, "100k"), (512, "200k")),
            PlanCode.BATCH_SCHEDULE,
            "training.batch_schedule[1].until_tokens",
            "no step has this batch size: 524,288 tokens are trained before it, and it ends at "
            "200,000.",
        ),
        (
            entries((256, "1T")),
            PlanCode.BATCH_SCHEDULE,
            "training.batch_schedule[0].until_tokens",
            "the run ends after 524,288,000 tokens, so its batch size never grows beyond this one.",
        ),
    ],
)
def test_a_schedule_that_cannot_run_is_refused(
    schedule: str, code: str, field: str, rule: str
) -> None:
    assert refused(schedule) == [(code, field, rule)]


def test_a_batch_may_grow_by_any_factor() -> None:
    assert resolved(entries((64, "100M"))).length.largest_growth == 16
    assert resolved(SCHEDULE).length.largest_growth == 2
    assert resolved().length.largest_growth == 1


def test_every_batch_size_needs_whole_rounds_of_an_interleaved_pipeline() -> None:
    layout = ("parallelism={tp_size: 2, pp_size: 4, vp_size: 3}",)
    ((code, field, rule),) = refused(entries((264, "10M")), *layout)
    assert (code, field) == (
        PlanCode.INTERLEAVED_BATCH,
        "training.batch_schedule[0].global_batch_size",
    )
    assert rule.startswith("33 micro-batches are not a multiple of pp_size 4")


def test_the_planner_chooses_a_layout_for_every_batch_size() -> None:
    free = ("parallelism=null", "training.micro_batch_size=auto")
    plan = resolved(*free)
    small = resolved(*free, entries((300, "10M")))
    assert 300 % (plan.batch.micro_batch_size * plan.layout.dp_size)
    assert 300 % (small.batch.micro_batch_size * small.layout.dp_size) == 0


def flags(plan: Plan) -> dict[str, object]:
    return dict(ENGINES["megatron"].arguments(plan))


def test_the_engine_gets_the_schedule_in_tokens_and_everything_else_in_samples() -> None:
    plan = resolved(SCHEDULE)
    given = flags(plan)
    assert given["step-batch-size-schedule"] == "0:256,105000000:512,200000000:1024"
    assert given["train-samples"] == plan.length.samples
    assert given["lr-warmup-samples"] == plan.schedule.warmup_samples
    assert given["lr-decay-samples"] == plan.schedule.decay_samples
    assert given["eval-global-batch-size"] == 1024
    absent = ("global-batch-size", "train-iters", "lr-warmup-iters", "lr-decay-iters")
    assert not [name for name in absent if given.get(name) is not None]
    before = flags(resolved())
    added = ("step-batch-size-schedule", "eval-global-batch-size", "train-samples")
    assert not [name for name in added if before.get(name) is not None]


def test_time_is_the_sum_over_the_batch_sizes() -> None:
    spec = loaded(SCHEDULE)
    run = plan_run(resolve_basis(spec, Catalog()))
    assert run.chosen is not None
    small, middle, large = run.phase_seconds
    assert 0 < small < middle < large == run.chosen.time.total
    duration = budget_of(run, Catalog()).duration
    assert duration is not None
    rest = 1000 - FIRST - SECOND
    assert duration.training == pytest.approx(small * FIRST + middle * SECOND + large * rest)
    words = early_batch_words(run)
    assert words[0].startswith(f"first 256 for {FIRST} steps of ")
    assert words[1].startswith(f"then 512 for {SECOND} steps of ")
    assert words[2].startswith("then 1,024; ")


def test_a_benchmark_measures_the_last_batch_size() -> None:
    plan = resolved(SCHEDULE, "training.benchmark_steps=20")
    assert plan.length.samples == 20 * 1024
    assert len(plan.length.phases) == 1


def test_a_plan_without_a_schedule_keeps_its_form() -> None:
    data = resolved().to_dict()
    assert "phases" not in data["length"]
    assert "batch_schedule" not in data["spec"]["training"]
    assert len(resolved(SCHEDULE).to_dict()["length"]["phases"]) == 3


def test_llm_foundry_refuses_a_schedule() -> None:
    foundry = ("engine.name=llm-foundry", "model={preset: mpt-7b}", SCHEDULE)
    plan = resolved(*foundry, "parallelism=null", "training.micro_batch_size=1")
    fields = [problem.field for problem in ENGINES["llm-foundry"].plan_problems(plan)]
    assert "training.batch_schedule" in fields


def test_a_checkpoint_states_the_last_batch_size_and_the_schedule_in_samples() -> None:
    plan = resolved(SCHEDULE)
    # The engine's own argument is one micro-batch per rank.
    given = flags(plan) | {"global-batch-size": 16}
    setup = setup_from_arguments(given, Versions("", "", ""), plan.layout.world_size)
    assert setup.global_batch_size == 1024
    assert setup.data_order.train_samples == plan.length.samples
    assert setup.schedule is not None
    assert setup.schedule.warmup_samples == plan.schedule.warmup_samples
