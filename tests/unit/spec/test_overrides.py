# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Overrides: what they can set, and what is said about those that cannot be applied."""

import shlex
from pathlib import Path

import pytest

from seatrial.codes.spec import SpecCode
from seatrial.errors import FindingsError
from seatrial.findings import Finding
from seatrial.spec.loader import loads
from seatrial.spec.run import RunSpec

GOOD = (Path(__file__).parent / "good.yaml").read_text(encoding="utf-8")


def spec_with(*overrides: str) -> RunSpec:
    return loads(GOOD, "run.yaml", overrides).spec


def findings_of(*overrides: str) -> tuple[Finding, ...]:
    with pytest.raises(FindingsError) as caught:
        loads(GOOD, "run.yaml", overrides)
    return caught.value.findings


def test_a_field_of_a_section_is_set() -> None:
    assert spec_with("training.tokens=10B").training.tokens == 10**10
    assert spec_with("cluster.nodes=8").cluster.nodes == 8


def test_sections_that_are_not_in_the_file_are_made() -> None:
    spec = spec_with("training.learning_rate.warmup.steps=2000", "checkpoints.keep_last=9")
    assert spec.training.learning_rate.warmup.steps == 2000
    assert spec.checkpoints.keep_last == 9


def test_an_item_of_a_list_is_set() -> None:
    spec = spec_with("data.sources[0].files='*.parquet'", "data.sources[0].sample_files=3")
    assert spec.data.sources is not None
    assert spec.data.sources[0].files == "*.parquet"
    assert spec.data.sources[0].sample_files == 3


def test_a_whole_section_or_list_is_set() -> None:
    spec = spec_with("data.sources=[{prepared: /data/a}, {prepared: /data/b}]")
    assert spec.data.sources is not None
    assert [source.prepared for source in spec.data.sources] == ["/data/a", "/data/b"]
    assert spec_with("engine={name: llm-foundry}").engine.name == "llm-foundry"


@pytest.mark.parametrize("nothing", ["null", "~"])
def test_null_takes_a_value_back(nothing: str) -> None:
    spec = spec_with(f"training.tokens={nothing}", "training.steps=10")
    assert (spec.training.tokens, spec.training.steps) == (None, 10)


def test_null_takes_a_section_and_a_default_back() -> None:
    spec = spec_with("parallelism.tp_size=8", "parallelism=null", "training.precision=null")
    assert spec_with("cluster.env={A: a, B: b}", "cluster.env.A=null").cluster.env == {"B": "b"}
    plain = spec_with()
    assert spec.parallelism == type(plain.parallelism)()
    assert spec.training.precision == type(plain.training).model_fields["precision"].default


def test_what_is_required_cannot_be_taken_back() -> None:
    (finding,) = findings_of("name=null")
    assert finding.one_line() == "override name: name has no value. Add a value."
    (finding,) = findings_of("data.sources[0]=null")
    assert finding.fix == "Set the whole list: data.sources=[...]."


@pytest.mark.parametrize(
    ("override", "fix"),
    [
        ("cluster.secrets=hf", "Write the items in brackets: [ITEM, ITEM]."),
        (
            "cluster.secrets=[hf]",
            "Write the section in braces: {KEY: VALUE}; valid keys are secret, key, env, mount.",
        ),
        ("cluster.env=A", "Write the section in braces: {KEY: VALUE}."),
        ("cluster.env={A: [1]}", "Write a single string after the = sign."),
    ],
)
def test_an_override_is_not_told_of_lines_and_hyphens(override: str, fix: str) -> None:
    (finding,) = findings_of(override)
    assert finding.fix == fix


def test_the_last_of_two_holds() -> None:
    assert spec_with("cluster.nodes=4", "cluster.nodes=8").cluster.nodes == 8


def test_the_first_equals_sign_ends_the_key() -> None:
    spec = spec_with("cluster.env.XLA_FLAGS=--a=b")
    assert spec.cluster.env == {"XLA_FLAGS": "--a=b"}


def test_quotes_make_text_of_a_number() -> None:
    assert spec_with('cluster.env.NCCL_IB_TIMEOUT="22"').cluster.env["NCCL_IB_TIMEOUT"] == "22"
    (finding,) = findings_of("cluster.env.NCCL_IB_TIMEOUT=22")
    assert finding.one_line() == (
        "override cluster.env.NCCL_IB_TIMEOUT: must be text, not 22. Put the value in quotes "
        "inside the argument: 'cluster.env.NCCL_IB_TIMEOUT=\"22\"'."
    )


def test_an_item_after_a_dot_gets_the_brackets_it_needs() -> None:
    (finding,) = findings_of("data.sources.0.from=x")
    assert finding.fix == "Write the index of a list item in brackets: data.sources[0].from=VALUE."


@pytest.mark.parametrize("text", ["second try: warm", "8", 'it\'s "so": \\x', "true"])
def test_the_advice_about_quotes_works_in_a_shell(text: str) -> None:
    (finding,) = findings_of(f"description={text}")
    _, _, argument = finding.fix.removesuffix(".").partition("argument: ")
    (override,) = shlex.split(argument)
    assert spec_with(override).description == text


def test_quotes_keep_a_colon_in_a_text() -> None:
    assert spec_with("description='second try: warm'").description == "second try: warm"


@pytest.mark.parametrize(
    "text", ["training.tokens", "", "=8", "training..tokens=8", "nodes[x]=8", "-n=8", "a b=8"]
)
def test_what_is_no_key_and_value_is_refused(text: str) -> None:
    (finding,) = findings_of(text)
    assert finding.code == SpecCode.OVERRIDE
    assert finding.one_line() == (
        f"override: {text!r} is not an override. Write KEY=VALUE, such as training.tokens=10B."
    )


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            "data.sources[1].weight=2",
            "data.sources has 1 item; indexes start at 0. "
            "Use data.sources[0], or add the item in the file.",
        ),
        (
            "data.sources.weight=2",
            "data.sources is a list, so it has no key weight. Use an item, such as "
            "data.sources[0].",
        ),
        (
            "training.tokens.unit=B",
            "training.tokens is a value, so it has no key unit. Check the key.",
        ),
        (
            "training[0]=1",
            "training is not a list. Remove [0], or set the list in the file.",
        ),
        (
            "cluster.secrets[0].env=A",
            "the file has no list cluster.secrets. Set the whole list: cluster.secrets=[...].",
        ),
        (
            "data.sources[0].files=*.parquet",
            "YAML reads text that starts with * as an alias. Put the value in quotes inside "
            "the argument: 'data.sources[0].files=\"*.parquet\"'.",
        ),
        (
            "name='slim",
            "this quote is never closed. Close the quote at the end of the value, or remove it.",
        ),
        (
            "description=a: b: c",
            "the line has a second colon, as if the value were a key. Put the value in "
            "quotes inside the argument: 'description=\"a: b: c\"'.",
        ),
        (
            "training.tokens=",
            "there is no value after the = sign. "
            "Add a value, or write training.tokens=null to remove the value in the file.",
        ),
        (
            "description=#1",
            "there is no value after the = sign. "
            "Add a value, or write description=null to remove the value in the file.",
        ),
        (
            "name=!!python/name:os.system",
            "a spec cannot contain YAML tags, such as !!python/name:os.system. Remove the tag.",
        ),
    ],
)
def test_what_cannot_be_applied_says_why(override: str, message: str) -> None:
    (finding,) = findings_of(override)
    assert finding.code == SpecCode.OVERRIDE
    assert finding.one_line() == f"override {override.partition('=')[0]}: {message}"


def test_an_unknown_key_is_said_to_come_from_the_override() -> None:
    (finding,) = findings_of("training.toknes=10B")
    assert finding.code == SpecCode.UNKNOWN_KEY
    assert finding.one_line() == (
        "override training.toknes: training has no key toknes. Did you mean tokens?"
    )


def test_a_wrong_value_is_said_to_come_from_the_override() -> None:
    (finding,) = findings_of("cluster.nodes=two")
    assert str(finding.where) == "override cluster.nodes"


def test_a_contradiction_with_the_file_is_found() -> None:
    (finding,) = findings_of("training.steps=10")
    assert finding.code == SpecCode.CONTRADICTION
    assert str(finding.where) == "run.yaml:8:20 training.tokens"


def test_findings_about_overrides_come_before_those_of_the_file() -> None:
    with pytest.raises(FindingsError) as caught:
        loads(GOOD.replace("nodes: 2", "nodes: 0"), "run.yaml", ("nonsense", "name=Slim"))
    assert [str(finding.where) for finding in caught.value.findings] == [
        "override name",
        "override",
        "run.yaml:9:57 cluster.nodes",
    ]


@pytest.mark.parametrize(
    "override",
    [
        "cluster.env.HF_TOKEN=hf_notARealTokenOnlyATestOfOurs",
        "hf_notARealTokenOnlyATestOfOurs",
        "name=hf_notARealTokenOnlyATestOfOurs",
    ],
)
def test_a_secret_on_the_command_line_is_refused_and_not_repeated(override: str) -> None:
    (finding,) = findings_of(override)
    assert "notARealToken" not in f"{finding.one_line()} {finding.to_dict()}"


def test_hyphens_in_front_of_an_option_are_named() -> None:
    (found,) = findings_of("engine.options.--bf16=true")
    assert found.fix == "Write the option without hyphens in front: engine.options.bf16=VALUE."
