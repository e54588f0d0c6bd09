# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A plan becomes the engine's command line."""

import pytest

from seatrial.engines.megatron.command_line import command_line, engine_arguments
from seatrial.engines.megatron.flags_from_spec import FLAGS
from seatrial.engines.megatron.parser_options import Takes, known_options
from tests.conftest import resolved


def words(*overrides: str) -> str:
    """The command line of the good spec with overrides."""
    return " ".join(command_line(engine_arguments(resolved(*overrides))))


def test_flags_are_unique_and_of_the_engine() -> None:
    names = [flag.name for flag in FLAGS]
    assert len(names) == len(set(names))
    assert set(names) <= set(known_options())


def test_every_flag_gets_what_it_takes() -> None:
    arguments = engine_arguments(resolved())
    for name, value in arguments.items():
        if value is None or value is False:
            continue
        takes = known_options()[name].takes
        assert (value is True) == (takes is Takes.SWITCH), name


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ((), "--tensor-model-parallel-size 4 --pipeline-model-parallel-size 1"),
        ((), "--sequence-parallel --use-distributed-optimizer"),
        ((), "--train-iters 1000"),
        (("training.steps=null", "training.samples=2048000"), "--train-samples 2048000"),
        (("training.precision=fp16",), "--fp16"),
        (
            ("training.learning_rate={style: wsd, anneal: {fraction: 0.1}}",),
            "--lr-wsd-decay-iters 100 --lr-wsd-decay-style linear",
        ),
        (("model.preset=llama3-8b",), "--group-query-attention --num-query-groups 8"),
        (("model.preset=llama3-8b",), "--rotary-base 500000"),
        (("model.preset=llama3-8b",), "--untie-embeddings-and-output-weights"),
        (
            ("parallelism.recompute=full",),
            "--recompute-granularity full --recompute-method uniform",
        ),
        (
            (
                "parallelism.recompute=selective",
                "parallelism.recompute_modules=[layernorm, core_attn]",
            ),
            "--recompute-granularity selective --recompute-modules layernorm core_attn",
        ),
        (
            (
                "parallelism.pp_size=2",
                "parallelism.embedding_as_layer=true",
                "parallelism.loss_as_layer=true",
            ),
            "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split",
        ),
        (
            ("data={sources: [{prepared: /d/a, weight: 3}, {prepared: /d/b, weight: 1.5}]}",),
            "--data-path 3 /d/a 1.5 /d/b",
        ),
        (("data={sources: [{from: s3://b/c}]}",), "--data-args-path /data/slim-7b/data/blend.txt"),
        (("engine.options.cuda-graph-modules=[attn, mlp]",), "--cuda-graph-modules attn mlp"),
        (("engine.options.manual_gc=true",), "--manual-gc"),
    ],
)
def test_fields_become_flags(overrides: tuple[str, ...], expected: str) -> None:
    assert expected in words(*overrides)


def test_a_schedule_counts_what_the_length_counts() -> None:
    samples = words("training.steps=null", "training.samples=2048000")
    assert "--lr-decay-samples 2048000" in samples
    assert "iters" not in samples.replace("--eval-iters", "")
    assert "samples" not in words()
