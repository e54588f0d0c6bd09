# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Sweeps: the values of `plan --what-if`, and the variants that `seatrial sweep` launches."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import seatrial.sdk.variants as module
from seatrial.cli.sweep import app
from seatrial.errors import ExitCode, FindingsError, UsageError
from seatrial.recipes.shipped import recipe
from seatrial.runs.history.files import file_history
from seatrial.runs.history.history import RunHistory
from seatrial.runs.launch.launcher import Launched
from seatrial.runs.ledger.host import local_run
from seatrial.runs.status.status import Status
from seatrial.sdk.runs import FoundRun
from seatrial.sdk.sweep import combinations
from seatrial.sdk.variants import plan_variants, run_variants, variants_of
from seatrial.spec.loader import loads
from tests.unit.cli.test_report import written

SPEC = """\
apiVersion: seatrial.dev/v1alpha1
name: pond
model: {preset: stories-260k}
data: {mock: true}
training: {steps: 10, micro_batch_size: 2, global_batch_size: 8}
parallelism: {tp_size: 1, pp_size: 1}
cluster: {profile: local, processes_per_node: 2, storage: {mount: /tmp/pond}}
variants:
  data: []
  tensor: [parallelism.tp_size=2]
"""


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    file = Path("run.yaml")
    file.write_text(SPEC)
    return file


def test_each_variant_is_a_run_of_its_own_on_the_same_data(spec: Path) -> None:
    spec.write_text(SPEC.replace("mock: true", "sources: [{from: ./corpus}]"))
    assert variants_of(spec, ["training.seed=7"]) == {
        "data": ("training.seed=7", "name=pond-data", "data.location=/tmp/pond/pond/data"),
        "tensor": (
            "training.seed=7",
            "name=pond-tensor",
            "data.location=/tmp/pond/pond/data",
            "parallelism.tp_size=2",
        ),
    }


def test_a_variant_changes_no_other_run(spec: Path) -> None:
    with_one, without = loads(SPEC, "spec"), loads(SPEC.partition("variants:")[0], "spec")
    assert with_one.spec.model_dump() == without.spec.model_dump()


def test_the_recipe_compares_six_layouts(spec: Path) -> None:
    spec.write_text(recipe("gpt2-large-ablation").text)
    done = CliRunner().invoke(app, ["run.yaml", "--plan", "cluster.accelerator=h200-141gb"])
    rows = [line.split()[0] for line in done.output.splitlines()]
    names = ["one-gpu", "data", "tensor", "sequence", "context", "pipeline"]
    assert rows[1 : 2 + len(names)] == ["variant", *names]
    plans = plan_variants(spec, ["cluster.accelerator=h200-141gb"]).variants
    layouts = {plan.cells[0]: plan.run.plan.layout for plan in plans if plan.run}
    assert (layouts["context"].cp_size, layouts["pipeline"].pp_size) == (2, 2)


def test_a_variant_without_a_plan_is_an_error(spec: Path) -> None:
    spec.write_text(SPEC.replace("tensor: [parallelism.tp_size=2]", "odd: [parallelism.pp_size=2]"))
    done = CliRunner().invoke(app, ["run.yaml", "--plan"])
    assert done.exit_code == ExitCode.FINDINGS
    assert "no plan  odd: 5 layers are not divisible by pp_size 2." in done.output
    assert "next  fix the variants without a plan" in done.output


def test_a_spec_without_variants_is_refused_with_an_example(spec: Path) -> None:
    spec.write_text(SPEC.partition("variants:")[0])
    with pytest.raises(UsageError, match="has no variants") as refused:
        run_variants(spec)
    example = str(refused.value).partition("such as ")[2].removesuffix(".")
    assert loads(f"{SPEC.partition('variants:')[0]}{example}\n", "spec").spec.variants


def test_nothing_is_launched_if_one_variant_has_no_plan(
    spec: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "launch", lambda *_, **__: pytest.fail("launched"))
    spec.write_text(SPEC.replace("tensor: [parallelism.tp_size=2]", "odd: [parallelism.pp_size=2]"))
    with pytest.raises(FindingsError) as refused:
        run_variants(spec)
    (finding,) = refused.value.findings
    assert finding.rule == "variant odd: 5 layers are not divisible by pp_size 2."


@pytest.mark.usefixtures("spec")
def test_a_failed_variant_is_in_the_table_and_does_not_stop_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A stand-in launches: it writes the events of the second variant only."""
    launched: list[str] = []

    def launch(_: Path, words: tuple[str, ...], **__: object) -> Launched:
        name = next(word for word in words if word.startswith("name=")).partition("=")[2]
        launched.append(name)
        return Launched(name, 1, is_new=True, why="", kind="torchrun", objects=0)

    def wait(self: FoundRun, *_: object) -> Status:
        state = "failed" if self.name == "pond-data" else "succeeded"
        return Status(self.name, "", state, 1, "", "", 1, 0, 0, (), ())

    monkeypatch.setattr(module, "launch", launch)
    monkeypatch.setattr(FoundRun, "wait", wait)
    monkeypatch.setattr(module, "_history", made_up_history)
    done = CliRunner().invoke(app, ["run.yaml", "--json"])
    assert done.exit_code == ExitCode.RUN_FAILED
    printed = json.loads(done.stdout)
    assert launched == ["pond-data", "pond-tensor"]
    assert [(run["variant"], run["state"]) for run in printed["runs"]] == [
        ("data", "failed"),
        ("tensor", "succeeded"),
    ]
    assert "step" not in printed["runs"][0]
    assert printed["runs"][1]["step"] > 0
    assert printed["runs"][1]["planned_step_seconds"] is None
    assert Path(printed["page"]).is_file()
    table = CliRunner().invoke(app, ["run.yaml"]).stdout.splitlines()
    assert table[0].split() == ["variant", "layout", "step", "loss", "state"]
    assert table[1].split(maxsplit=1)[1].split("  ")[0] == "tp 1 · pp 1 · dp 2"
    assert table[1].endswith("failed")
    assert table[-1] == "next    seatrial diagnose pond-data"


def made_up_history(_: object, found: FoundRun) -> RunHistory:
    assert found.here == local_run(Path(), found.name)
    file = Path(f"{found.name}.events.jsonl")
    if found.name == "pond-data":
        file.touch()
    else:
        written(file)
    return replace(file_history(file), name=found.name)


def test_what_if_combines_values_and_keeps_brackets_whole() -> None:
    nodes, model = "cluster.nodes", "model"
    assert list(combinations([f"{nodes}=1,2", f"{model}={{preset: a, size: 2}},x"])) == [
        (f"{nodes}=1", f"{model}={{preset: a, size: 2}}"),
        (f"{nodes}=1", f"{model}=x"),
        (f"{nodes}=2", f"{model}={{preset: a, size: 2}}"),
        (f"{nodes}=2", f"{model}=x"),
    ]
    for wrong in (nodes, f"{nodes}=", "=1", f"{nodes}=1,,2", f"{nodes}=1,2,", f"{nodes}=,1"):
        with pytest.raises(UsageError, match="Use --what-if"):
            list(combinations([wrong]))
    with pytest.raises(UsageError, match="The limit is 64"):
        list(combinations([f"{nodes}=" + ",".join(str(n) for n in range(65))]))


@pytest.mark.parametrize(
    ("what_if", "overrides"),
    [
        (["cluster.nodes=2", "cluster.nodes=4"], []),
        (["cluster.nodes=2,4", "training.tokens=1B,2B", "cluster.nodes=8"], []),
        (["cluster.nodes=2,4", "cluster={nodes: 8}"], []),
        (["cluster.nodes=2,4"], ["cluster.nodes=8"]),
        (["cluster={nodes: 2}"], ["cluster.nodes=8"]),
    ],
)
def test_a_key_that_would_undo_another_is_refused(what_if: list[str], overrides: list[str]) -> None:
    with pytest.raises(UsageError, match=r"overwrites .*cluster\.nodes"):
        list(combinations(what_if, overrides))


def test_a_key_may_refine_a_section_that_was_set_before() -> None:
    (only,) = combinations(["training={tokens: 1B}", "training.seed=3"], ["cluster={nodes: 8}"])
    assert only == ("training={tokens: 1B}", "training.seed=3")
    assert list(combinations(["cluster.nodes=1"], ["cluster.node_type=a"])) == [
        ("cluster.nodes=1",)
    ]


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("nodes", "Did you mean cluster.nodes? A spec has: apiVersion, name, "),
        ("cluster.node", "Did you mean cluster.nodes? "),
        ("cluster.node", "Section cluster has: profile, "),
        ("parallelism.tp", "Section parallelism has: tp_size, pp_size, vp_size, "),
        ("data.sources[0].form", "Section data.sources[0] has: name, from, "),
    ],
)
def test_a_key_that_is_none_is_refused_with_those_there_are(key: str, words: str) -> None:
    with pytest.raises(UsageError, match=f"{re.escape(key)}: unknown field") as caught:
        list(combinations([f"{key}=1,2"]))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "key",
    ["cluster.nodes", "data.sources[0].weight", "engine.options.any-thing", "training"],
)
def test_every_field_may_be_varied(key: str) -> None:
    assert list(combinations([f"{key}=1,2"])) == [(f"{key}=1",), (f"{key}=2",)]
