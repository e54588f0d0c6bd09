# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Every rule fires where it should, is silent where it should be, and its change mends the run."""

from dataclasses import replace

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.checks.check import UNSEEN, Verdict, check, codes_of
from seatrial.checks.probe_facts import CorpusFacts, SplitFacts, TokenizerFacts, Unknown
from seatrial.checks.repairs.repair import Broken, mends
from seatrial.checks.rule import Scope, proposed
from seatrial.codes.checks import CheckCode
from seatrial.codes.datasets import DatasetCode
from seatrial.codes.rendering import RenderCode
from seatrial.codes.resume import ResumeCode
from seatrial.codes.spec import SpecCode
from seatrial.findings import Severity
from tests.unit.checks.described import CORPUS, GPT2, OTHER, PREFIX, Described, pair
from tests.unit.checks.examples import (
    BASE,
    DIGEST,
    EXAMPLES,
    INSTALLED,
    RAW,
    SLOW_VOLUME,
    healthy,
    numbers_for_text,
    one,
    without_unknown_image,
)


def verdict(overrides: tuple[str, ...], data: Described | None, catalog: Catalog) -> Verdict:
    return without_unknown_image(
        check(BASE, "run.yaml", catalog, overrides, data=data or healthy())
    )


def test_every_rule_has_an_example() -> None:
    # Rules about checkpoints and clusters have examples of their own.
    own = {*codes_of(Scope.STATIC), *codes_of(Scope.DATA)} - set(ResumeCode)
    assert own == set(EXAMPLES)


def test_the_base_of_the_examples_is_clean(catalog: Catalog) -> None:
    assert verdict(INSTALLED, None, catalog).findings == ()


def test_an_image_that_the_catalog_does_not_have_is_a_warning(catalog: Catalog) -> None:
    (found,) = check(BASE, "run.yaml", catalog, INSTALLED, data=healthy()).findings
    assert (found.code, found.severity) == (RenderCode.UNKNOWN_IMAGE, Severity.WARNING)


def test_what_an_administrator_has_to_make_is_a_note(catalog: Catalog) -> None:
    found = {f.code: f.severity for f in verdict((), None, catalog).findings}
    assert found == {RenderCode.WORKER_LOCK: Severity.NOTE, RenderCode.VOLUME: Severity.NOTE}


@pytest.mark.parametrize("code", EXAMPLES)
def test_a_rule_fires_at_its_field_and_its_change_mends_it(code: str, catalog: Catalog) -> None:
    example = EXAMPLES[code]
    before = verdict(example.fires, example.data, catalog)
    found = [each for each in before.checked if each.finding.code == code]
    assert found, before.findings
    finding = found[0].finding
    assert finding.where.field == example.field
    assert finding.rule[-1] == "."
    assert finding.fix[-1] == "." or finding.fix.endswith("...")
    if found[0].repair is not None:
        data = example.data or healthy()
        broken = Broken(BASE, "run.yaml", catalog, example.fires, data)
        after = broken.again(found[0].repair.overrides)
        assert mends(before, after, finding), after.findings


@pytest.mark.parametrize("code", EXAMPLES)
def test_a_rule_is_silent_where_nothing_is_wrong(code: str, catalog: Catalog) -> None:
    example = EXAMPLES[code]
    after = verdict(example.silent, example.silent_data, catalog)
    assert code not in {finding.code for finding in after.findings}
    assert after.situation is not None, after.findings


FOUNDRY = (
    *("engine.name=llm-foundry", "model={preset: mpt-125m}", "training.sequence_length=2048"),
    "parallelism={tp_size: 1, pp_size: 1, cp_size: 1, sharding: fsdp, recompute: none}",
)
LOADED = "data.tokenizer=/data/tokenizer.json"


TRAIN, VAL = f"{PREFIX}/train", f"{PREFIX}/val"


def in_splits(**changed: SplitFacts | Unknown) -> Described:
    """Data in MDS, of which a split is changed."""
    splits: dict[str, SplitFacts | Unknown] = dict.fromkeys((TRAIN, VAL), SplitFacts(9, 2048))
    return Described(splits=splits | {f"{PREFIX}/{name}": facts for name, facts in changed.items()})


def foundry_errors(catalog: Catalog, data: Described, *overrides: str) -> list[tuple[str, str]]:
    found = verdict((*FOUNDRY, *INSTALLED, *overrides), data, catalog).findings
    return [(f.code, f.where.field) for f in found if f.severity is Severity.ERROR]


def test_the_default_timeout_of_the_engine_is_compared_with_a_save_too(catalog: Catalog) -> None:
    verdict = check(BASE, "run.yaml", catalog, (SLOW_VOLUME,))
    (found,) = [each for each in verdict.findings if each.code == CheckCode.SHORT_PATIENCE]
    assert "time out after 10 min, which is Megatron's default" in found.rule
    calm = (SLOW_VOLUME, "checkpoints.asynchronous=true")
    again = check(BASE, "run.yaml", catalog, calm).findings
    assert CheckCode.SHORT_PATIENCE not in {each.code for each in again}


@pytest.mark.parametrize("location", ["s3://bucket/checkpoints", "az://container/checkpoints"])
def test_no_engine_keeps_checkpoints_in_a_bucket(location: str, catalog: Catalog) -> None:
    given = f"checkpoints.location={location}"
    found = foundry_errors(catalog, in_splits(), given)
    assert (CheckCode.NO_DIRECTORY, "checkpoints.location") in found
    assert foundry_errors(catalog, in_splits(), "checkpoints.location=/data/checkpoints") == []


@pytest.mark.parametrize("named", [True, False])
def test_llm_foundry_wants_a_tokenizers_class(named: bool, catalog: Catalog) -> None:
    facts = TokenizerFacts(50_257, ends_documents=True, names_class=named)
    data = replace(in_splits(), tokenizers={"/data/tokenizer.json": facts})
    found = foundry_errors(catalog, data, LOADED)
    assert found == ([] if named else [(CheckCode.NO_TOKENIZER, "data.tokenizer")])


@pytest.mark.parametrize(
    ("facts", "code", "words"),
    [
        (Unknown.ABSENT, DatasetCode.ABSENT, f"{VAL}/index.json does not exist."),
        (Unknown.UNREADABLE, DatasetCode.HEADER, f"{VAL}/index.json is not an MDS index."),
        (SplitFacts(9, 2048, "shard.1"), DatasetCode.ABSENT, f"{VAL}/shard.1 is in the index but"),
        (SplitFacts(9, 2048, "", "shard.1"), DatasetCode.SIZE, f"size of {VAL}/shard.1 differs"),
        (
            SplitFacts(9, 1024),
            CheckCode.NO_SAMPLES,
            "have 1,024 tokens, but the sequence length is 2,0",
        ),
        (SplitFacts(0), CheckCode.NO_SAMPLES, f"{VAL} has no samples."),
        (SplitFacts(9), None, ""),
    ],
)
def test_samples_are_there_and_of_the_runs_length(
    facts: SplitFacts | Unknown, code: str | None, words: str, catalog: Catalog
) -> None:
    found = verdict((*FOUNDRY, *INSTALLED), in_splits(val=facts), catalog).findings
    errors = [finding for finding in found if finding.severity is Severity.ERROR]
    assert [finding.code for finding in errors] == ([code] if code else [])
    assert all(words in finding.rule for finding in errors)
    # What a run does not read may be absent.
    assert foundry_errors(catalog, in_splits(val=facts), "training.evaluation.batches=0") == []


def test_samples_that_cannot_be_seen_are_named(catalog: Catalog) -> None:
    found = verdict(FOUNDRY, in_splits(train=Unknown.UNSEEN), catalog).findings
    (finding,) = [finding for finding in found if finding.code == CheckCode.UNSEEN]
    assert TRAIN in finding.rule


NO_BIN = Described({PREFIX: Unknown.NO_BIN})


@pytest.mark.parametrize(
    ("data", "overrides", "code", "words"),
    [
        (one(index_version=7), (), DatasetCode.HEADER, ".idx has version 7"),
        (one(idx_bytes=0), (), DatasetCode.HEADER, ".idx has 0 bytes"),
        (NO_BIN, (), DatasetCode.ABSENT, f"{PREFIX}.bin does not exist; only {PREFIX}.idx does."),
        (
            Described({PREFIX: pair()}, {GPT2: Unknown.UNREADABLE}),
            (),
            CheckCode.NO_TOKENIZER,
            "exists, but cannot be read as a tokenizer",
        ),
        (numbers_for_text(), (RAW,), CheckCode.TEXT_FIELD, "'text' in the documents is not text"),
    ],
)
def test_what_is_wrong_with_data_is_named_as_it_is(
    data: Described, overrides: tuple[str, ...], code: str, words: str, catalog: Catalog
) -> None:
    errors = [
        finding
        for finding in verdict(overrides, data, catalog).findings
        if finding.severity is Severity.ERROR
    ]
    assert [finding.code for finding in errors] == [code]
    assert words in errors[0].rule


def test_a_broken_pair_is_not_recommended(catalog: Catalog) -> None:
    data = Described({OTHER: pair(bin_bytes=1), PREFIX + "_2": pair()})
    found = verdict((), data, catalog).checked[0]
    assert found.repair == proposed(f"data.sources[0].prepared={PREFIX}_2")


def test_what_was_not_seen_is_named_and_its_rules_do_not_count(catalog: Catalog) -> None:
    unseen = Described({PREFIX: Unknown.UNSEEN}, {GPT2: Unknown.UNSEEN})
    seen, blind = verdict(INSTALLED, None, catalog), verdict(INSTALLED, unseen, catalog)
    assert [f.where.field for f in blind.findings] == ["data.sources[0].prepared", "data.tokenizer"]
    assert {f.code for f in blind.findings} == {CheckCode.UNSEEN}
    assert "not mounted at /data on this host" in blind.findings[0].rule
    assert blind.clean
    assert blind.not_run[UNSEEN] == seen.rules_run - blind.rules_run > 10
    assert CheckCode.UNREADABLE in blind.applied, "there is no corpus that was not seen"


ON_EFA = ("cluster.profile=eks", "cluster.node_type=p5.48xlarge")


@pytest.mark.parametrize(
    ("machines", "name", "value", "code"),
    [
        (ON_EFA, "NCCL_TUNER_PLUGIN", "none", CheckCode.SLOWING),
        ((), "NCCL_TUNER_PLUGIN", "none", CheckCode.SLOWING),
        (ON_EFA, "NCCL_NET_PLUGIN", "none", CheckCode.SLOWING),
        ((), "NCCL_NET_PLUGIN", "none", None),
        (ON_EFA, "FI_PROVIDER", "tcp", CheckCode.SLOWING),
        (ON_EFA, "FI_PROVIDER", "sockets", CheckCode.SLOWING),
        (ON_EFA, "FI_PROVIDER", "efa", None),
        ((), "FI_PROVIDER", "efa", CheckCode.UNREAD),
        # NCCL reaches EFA through a plugin: its own transport for InfiniBand has no part in it.
        (ON_EFA, "NCCL_IB_HCA", "mlx5", CheckCode.UNREAD),
        (ON_EFA, "NCCL_IB_DISABLE", "1", CheckCode.UNREAD),
        (ON_EFA, "NCCL_IB_GID_INDEX", "3", CheckCode.UNREAD),
        ((), "NCCL_IB_GID_INDEX", "3", CheckCode.PINNED),
        ((), "NCCL_IB_HCA", "mlx5", None),
        ((), "nccl_debug", "INFO", CheckCode.UNREAD),
    ],
)
def test_what_a_variable_does_depends_on_the_network(
    machines: tuple[str, ...], name: str, value: str, code: str | None, catalog: Catalog
) -> None:
    image = f"cluster.image={DIGEST}"
    overrides = (*machines, image, f'cluster.env={{{name}: "{value}"}}')
    found = verdict(overrides, None, catalog).findings
    said = [finding for finding in found if finding.where.field == f"cluster.env.{name}"]
    assert [finding.code for finding in said] == ([code] if code else [])
    assert not any("TCP" in finding.rule for finding in said if code == CheckCode.UNREAD)


def test_a_placeholder_is_named(catalog: Catalog) -> None:
    own = (INSTALLED[1], "cluster.image=YOUR-REGISTRY/worker:1.0")
    found = verdict(own, None, catalog).findings
    assert [(f.code, f.where.field, f.severity) for f in found] == [
        (SpecCode.PLACEHOLDER, "cluster.image", Severity.NOTE)
    ]
    named = (*INSTALLED, "description=put YOUR-NAME in")
    assert verdict(named, None, catalog).findings == ()


def test_two_secrets_for_one_variable(catalog: Catalog) -> None:
    two = "cluster.secrets=[{secret: a, key: b, env: FOO}, {secret: a, key: c, env: FOO}]"
    (found,) = verdict((*INSTALLED, two), None, catalog).findings
    assert (found.code, found.where.field) == (CheckCode.GIVEN_TWICE, "cluster.secrets[1].env")


def test_a_path_that_leads_off_the_volume_is_not_on_it(catalog: Catalog) -> None:
    off = ("data.sources[0].prepared=/data/../etc/x", "checkpoints.location=/data/../etc/saves")
    codes = {finding.code for finding in verdict(off, None, catalog).findings}
    assert {CheckCode.DATA_PLACE, RenderCode.LOCATION} <= codes


def test_prepared_data_that_are_read_a_few_times_are_a_note(catalog: Catalog) -> None:
    found = verdict(("training.steps=10000",), one(tokens=1_000_000_000), catalog).findings
    (finding,) = [each for each in found if each.code == DatasetCode.EPOCHS]
    assert finding.severity is Severity.NOTE
    assert "2.7 times (1,000,000,000 tokens)" in finding.rule


@pytest.mark.parametrize(
    ("tokens", "severity"),
    [
        # The run reads 262 M tokens, of which 98 % of the corpus are for training.
        (10_000_000, Severity.WARNING),
        (60_000_000, Severity.NOTE),
        (250_000_000, None),
        (0, None),
    ],
)
def test_the_epochs_of_a_corpus_are_judged_by_its_size(
    tokens: int, severity: Severity | None, catalog: Catalog
) -> None:
    facts = CorpusFacts(("a.jsonl",), 1, ("text",), rough_tokens=tokens)
    data = Described({PREFIX: pair()}, corpora={(CORPUS, "*.jsonl"): facts})
    found = verdict((RAW,), data, catalog).findings
    epochs = [each for each in found if each.code == DatasetCode.EPOCHS]
    assert [each.severity for each in epochs] == ([severity] if severity else [])
    for finding in epochs:
        assert finding.where.field == "data.sources[0].from"
        assert "about" in finding.rule
        assert "seatrial data estimate" in finding.fix


def test_the_epochs_of_a_prepared_corpus_are_counted(catalog: Catalog) -> None:
    data = Described({PREFIX: pair()}, prepared={"corpus": 100_000_000})
    found = verdict((RAW,), data, catalog).findings
    (finding,) = [each for each in found if each.code == DatasetCode.EPOCHS]
    assert finding.severity is Severity.NOTE
    assert finding.rule == "the run reads the training data of corpus 2.6 times."


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("hf://openai/gpt-oss-20b@main", True),
        ("hf://openai/gpt-oss-20b-bf16", False),
        ("/weights/gpt-oss-20b", False),
    ],
)
def test_quantised_weights_of_the_runs_model_are_found(
    address: str, found: bool, catalog: Catalog
) -> None:
    overrides = ("model={preset: gpt-oss-20b}", f"initial_weights={{huggingface: {address}}}")
    said = check(BASE, "run.yaml", catalog, overrides, data=healthy()).findings
    rules = [each.rule for each in said if each.code is CheckCode.UNREAD_WEIGHTS]
    assert any("are quantised" in rule for rule in rules) is found


def test_dispatchers_between_nodes_need_infiniband_or_roce(catalog: Catalog) -> None:
    def rule(ep: int, cluster: str) -> str:
        layout = f"parallelism={{tp_size: 1, pp_size: 1, cp_size: 1, ep_size: {ep}}}"
        given = ("model.preset=qwen3-30b-a3b", "data={mock: true}", "training.evaluation=null")
        asked = (*given, layout, cluster, "performance.token_dispatcher=deepep")
        found = verdict(asked, None, catalog).findings
        (warned,) = [each for each in found if each.code == CheckCode.DISPATCHER]
        assert warned.severity is Severity.WARNING
        return warned.rule

    efa = "cluster={profile: eks, node_type: p5.48xlarge, nodes: 2}"
    infiniband = "cluster={profile: aks, node_type: Standard_ND96isr_H100_v5, nodes: 2}"
    assert "not known to work on efa" in rule(16, efa)
    assert "is not known to contain deepep" in rule(8, efa)
    assert "is not known to contain deepep" in rule(16, infiniband)
