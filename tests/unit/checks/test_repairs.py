# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Repairs are tried before they are proposed, and a warning is not mended against its owner."""

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.checks.check import check
from seatrial.checks.codes import CheckCode
from seatrial.checks.fixing import applied
from seatrial.checks.repairs.repair import Broken, is_weighed, repair_of
from seatrial.findings import has_errors
from seatrial.planning.codes import PlanCode
from seatrial.rendering.codes import RenderCode
from seatrial.spec.codes import SpecCode
from tests.unit.checks.examples import BASE


def repaired(overrides: tuple[str, ...], code: str, catalog: Catalog) -> tuple[str, ...]:
    broken = Broken(BASE, "run.yaml", catalog, overrides)
    found = [each for each in broken.again().checked if each.finding.code == code]
    assert found, broken.again().findings
    return repair_of(broken, found[0])


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
    assert "cluster.secrets gives HF_TOKEN already" in found[0].fix
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
    assert repair[0] == f"training.{wrong.strip(' :')}=null"
    assert not change or repair[1:] == change
    assert applied(text, repair) == BASE


def test_a_secret_under_a_misspelt_key_is_not_shown(catalog: Catalog) -> None:
    text = BASE.replace("name: example", "name: example\ndescripton: hf_" + "a" * 34)
    broken = Broken(text, "run.yaml", catalog)
    assert not any("hf_" in str(repair_of(broken, found)) for found in broken.again().checked)


def test_choices_of_a_missing_field_are_named(catalog: Catalog) -> None:
    sizes = "layers: 2, hidden_size: 256, heads: 4, vocab_size: 50257, max_positions: 1024"
    found = check(BASE, "run.yaml", catalog, (f"model={{dimensions: {{{sizes}}}}}",)).findings
    assert "one of: gpt, " in found[0].fix


@pytest.mark.parametrize(
    ("overrides", "weighed"),
    [
        (("training.tokens=1B",), True),
        (("training.micro_batch_size=3",), False),
        (("data.tokenizer=hf://meta-llama/Llama-2-7b-hf",), True),
    ],
)
def test_what_only_the_owner_can_decide_is_left_to_them(
    overrides: tuple[str, ...], weighed: bool, catalog: Catalog
) -> None:
    found = Broken(BASE, "run.yaml", catalog, overrides).again().findings
    assert any(is_weighed(finding) for finding in found) is weighed, found
