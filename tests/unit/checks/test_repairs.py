# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Repairs are tried before they are proposed, and a warning is not mended against its owner."""

from dataclasses import replace

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.checks.check import check
from seatrial.checks.repairs.consequences import UNKNOWN, part_of
from seatrial.checks.repairs.repair import Broken, effects_of, repair_of
from seatrial.checks.repairs.yaml_edits import applied
from seatrial.checks.rule import Repair, RepairKind
from seatrial.codes.checks import CheckCode
from seatrial.codes.planning import PlanCode
from seatrial.codes.rendering import RenderCode
from seatrial.codes.spec import SpecCode
from seatrial.findings import has_errors
from seatrial.spec.fields import all_fields
from tests.unit.checks.examples import BASE


def repaired(overrides: tuple[str, ...], code: str, catalog: Catalog) -> tuple[str, ...]:
    broken = Broken(BASE, "run.yaml", catalog, overrides)
    found = [each for each in broken.again().checked if each.finding.code == code]
    assert found, broken.again().findings
    repair = repair_of(broken, found[0])
    return repair.overrides if repair else ()


@pytest.mark.parametrize(
    ("overrides", "code"),
    [
        (("training.global_batch_size=130",), PlanCode.BATCH),
        (("cluster.nodes=3", "parallelism.pp_size=4"), PlanCode.WORLD),
        (("parallelism.tp_size=5",), PlanCode.HEADS),
        (("parallelism.pp_size=5", "cluster.nodes=5"), PlanCode.STAGES),
        (("training.sequence_length=2047",), PlanCode.SEQUENCE_PARALLEL),
        (("name=7b_test",), SpecCode.CONTRADICTION),
        (("training.micro_batch_size=32", "parallelism.recompute=none"), PlanCode.NO_FIT),
        (("data.split=[0, 0, 0]",), SpecCode.CONTRADICTION),
        (
            ("training.batch_schedule=[{global_batch_size: 64, until_tokens: 900T}]",),
            PlanCode.BATCH_SCHEDULE,
        ),
    ],
)
def test_a_repair_leaves_no_error(overrides: tuple[str, ...], code: str, catalog: Catalog) -> None:
    repair = repaired(overrides, code, catalog)
    assert repair
    after = check(BASE, "run.yaml", catalog, (*overrides, *repair))
    assert not has_errors(after.findings)


def test_an_image_that_moves_is_not_replaced_by_another(catalog: Catalog) -> None:
    moving = ("cluster.image=example.com/team/megatron:main",)
    assert repaired(moving, CheckCode.MOVING_IMAGE, catalog) == ()


def test_other_variables_stay_when_one_is_removed(catalog: Catalog) -> None:
    env = ('cluster.env={NCCL_SHM_DISABLE: "1", NCCL_DEBUG: INFO}',)
    assert repaired(env, CheckCode.SLOWING, catalog) == ('cluster.env={"NCCL_DEBUG": "INFO"}',)


def test_a_secret_that_is_given_by_reference_only_leaves_the_variables(catalog: Catalog) -> None:
    given = "cluster.secrets=[{secret: huggingface, key: token, env: HF_TOKEN}]"
    plain = "cluster.env={HF_TOKEN: hf_" + "a" * 30 + ", NCCL_DEBUG: INFO}"
    overrides = (given, plain)
    found = Broken(BASE, "run.yaml", catalog, overrides).again().findings
    assert "cluster.secrets already sets HF_TOKEN" in found[0].fix
    repair = repaired(overrides, SpecCode.SECRET, catalog)
    assert repair == ('cluster.env={"NCCL_DEBUG": "INFO"}',)
    assert not has_errors(check(BASE, "run.yaml", catalog, (*overrides, *repair)).findings)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("cluster.queue=My_Queue", "cluster.queue=my-queue"),
        ("cluster.namespace=My.Team", "cluster.namespace=my-team"),
    ],
)
def test_a_name_that_kubernetes_refuses_is_rewritten(
    wrong: str, right: str, catalog: Catalog
) -> None:
    assert repaired((wrong,), SpecCode.CONTRADICTION, catalog) == (right,)


def test_what_leaves_other_errors_is_taken_only_where_nothing_is_better(catalog: Catalog) -> None:
    five = ("parallelism.pp_size=5",)
    for code in (PlanCode.STAGES, PlanCode.WORLD):
        repair = repaired(five, code, catalog)
        after = check(BASE, "run.yaml", catalog, (*five, *repair))
        assert not has_errors(after.findings), repair


def test_a_batch_that_is_proposed_suits_the_ranks_too(catalog: Catalog) -> None:
    odd = ("training.micro_batch_size=3",)
    found = Broken(BASE, "run.yaml", catalog, odd).again().findings
    assert "126" not in found[0].fix
    assert repaired(odd, SpecCode.CONTRADICTION, catalog) == ("training.global_batch_size=132",)


def test_a_repair_looks_at_what_an_override_says(catalog: Catalog) -> None:
    assert repaired(("name=My_Run",), SpecCode.CONTRADICTION, catalog) == ("name=my-run",)
    env = ('cluster.env={RANK: "1", NCCL_DEBUG: INFO}',)
    kept = ('cluster.env={"NCCL_DEBUG": "INFO"}',)
    assert repaired(env, RenderCode.RESERVED_VARIABLE, catalog) == kept


@pytest.mark.parametrize(
    ("right", "wrong", "change"),
    [
        ("global_batch_size", "global_batch_sise", ("training.global_batch_size=128",)),
        ("  evaluation:", "  evaluation_s:", ()),
    ],
)
def test_a_misspelt_key_is_renamed_where_it_stands(
    right: str, wrong: str, change: tuple[str, ...], catalog: Catalog
) -> None:
    text = BASE.replace(right, wrong)
    broken = Broken(text, "run.yaml", catalog)
    (found,) = broken.again().checked
    repair = repair_of(broken, found)
    assert repair is not None
    assert repair.kind is RepairKind.SAME_RUN
    assert repair.overrides[0] == f"training.{wrong.strip(' :')}=null"
    assert not change or repair.overrides[1:] == change
    assert applied(text, repair.overrides) == BASE


def test_a_secret_under_a_misspelt_key_is_not_shown(catalog: Catalog) -> None:
    text = BASE.replace("name: example", "name: example\ndescripton: hf_" + "a" * 34)
    broken = Broken(text, "run.yaml", catalog)
    assert not any("hf_" in str(repair_of(broken, found)) for found in broken.again().checked)


def test_choices_of_a_missing_field_are_named(catalog: Catalog) -> None:
    sizes = "layers: 2, hidden_size: 256, heads: 4, vocab_size: 50257, max_positions: 1024"
    found = check(BASE, "run.yaml", catalog, (f"model={{dimensions: {{{sizes}}}}}",)).findings
    assert "one of: gpt, " in found[0].fix


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("initial_weights=null", "trains from scratch: 'hf://meta-llama/Llama-2-7b-hf'"),
        (
            "cluster.fabric=none",
            "NCCL uses TCP between nodes and leaves the fabric's 3,200 Gbit/s unused",
        ),
        (
            "model.preset=gpt3-1.3b",
            "a different model: model.preset 'gpt3-7.5b' becomes 'gpt3-1.3b'",
        ),
        ("data.tokenizer=null", "a different tokenizer: data.tokenizer 'hf://gpt2' is removed"),
        ("training.precision=fp8", "this changes the precision"),
        (
            "training.global_batch_size=64",
            "the number of steps stays the same, and the number of tokens changes",
        ),
        ("cluster.nodes=8", "the number of nodes: cluster.nodes 2 becomes 8"),
        ("parallelism.pp_size=2", "this changes the layout"),
    ],
)
def test_a_change_says_what_it_does_to_the_run(change: str, words: str, catalog: Catalog) -> None:
    text = f"{BASE}initial_weights: {{huggingface: 'hf://meta-llama/Llama-2-7b-hf'}}\n"
    broken = Broken(text, "run.yaml", catalog)
    (effect,) = effects_of(broken, Repair(RepairKind.OTHER_RUN, (change,)))
    assert words in effect
    # With the field set by an override, the words are the same.
    again = effects_of(
        replace(broken, overrides=("name=other",)), Repair(RepairKind.OTHER_RUN, (change,))
    )
    assert again == [effect]


def test_every_field_of_a_spec_belongs_to_a_part_of_the_run() -> None:
    unknown = [field.name for field in all_fields().values() if part_of(field.path) == UNKNOWN]
    assert unknown == []


def test_the_start_of_a_run_is_never_left_out(catalog: Catalog) -> None:
    text = f"{BASE}initial_weights: {{from: /data/weights}}\n"
    broken = Broken(text, "run.yaml", catalog)
    repairs = [repair_of(broken, found) for found in broken.again().checked]
    assert repairs
    for repair in filter(None, repairs):
        assert "initial_weights=null" not in repair.overrides
