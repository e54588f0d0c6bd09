# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A good spec: its values, its defaults, and where each value stands."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from seatrial.codes.spec import SpecCode
from seatrial.errors import FindingsError
from seatrial.findings import Finding
from seatrial.spec.loader import LoadedSpec, load, loads
from seatrial.spec.model import Activation, Family, Norm, Positions
from seatrial.spec.run import RunSpec
from seatrial.spec.training import DecayStyle, Precision

HERE = Path(__file__).parent
GOOD = (HERE / "good.yaml").read_text(encoding="utf-8")


@pytest.fixture
def loaded() -> LoadedSpec:
    return load(HERE / "good.yaml")


def with_training(lines: str) -> LoadedSpec:
    """The good spec with another training section."""
    return loads(GOOD.replace("training: {tokens: 150B}", f"training: {lines}"), "run.yaml")


def test_the_values_are_those_of_the_file(loaded: LoadedSpec) -> None:
    spec = loaded.spec
    assert spec.name == "slim-7b"
    assert spec.model.preset == "gpt3-7.5b"
    assert spec.data.sources is not None
    assert [source.from_ for source in spec.data.sources] == [
        "hf://datasets/cerebras/SlimPajama-627B@2d0accdd58c5d5511943ca1f5ff0e3eb5e293543"
    ]
    assert spec.data.tokenizer == "hf://gpt2"
    assert spec.training.tokens == 150_000_000_000
    assert (spec.cluster.profile, spec.cluster.node_type) == ("eks", "p4d.24xlarge")
    assert spec.cluster.nodes == 2


def test_what_is_not_given_has_the_documented_default(loaded: LoadedSpec) -> None:
    spec = loaded.spec
    assert spec.training.micro_batch_size == "auto"
    assert spec.training.precision is Precision.BF16
    assert spec.training.learning_rate.style is DecayStyle.COSINE
    assert spec.training.learning_rate.warmup.fraction == 0.01
    assert spec.parallelism.tp_size == "auto"
    assert spec.data.split == (98.0, 2.0, 0.0)
    assert spec.data.mock is None
    assert spec.checkpoints.keep_last == 3
    assert spec.cluster.storage.mount == "/data"
    assert spec.cluster.env == {}
    assert spec.engine.name == "megatron"
    assert spec.initial_weights is None
    assert spec.continue_from is None


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("150B", 150 * 10**9),
        ("1.5T", 15 * 10**11),
        ("2.5M", 2_500_000),
        ("100k", 100_000),
        ("1500", 1500),
        ("2_000", 2000),
        ("1e9", 10**9),
    ],
)
def test_counts_are_read_as_people_write_them(written: str, meant: int) -> None:
    assert with_training(f"{{tokens: {written}}}").spec.training.tokens == meant


def test_sizes_are_read_as_people_write_them() -> None:
    spec = loads(GOOD, "run.yaml", ("cluster.storage.capacity=1.5Ti",)).spec
    assert spec.cluster.storage.capacity == 1_649_267_441_664


@pytest.mark.parametrize("size", ["1.5Ti", "16Ti", "2T", "123456789B"])
def test_a_size_that_is_written_as_data_is_read_back(size: str) -> None:
    spec = loads(GOOD, "run.yaml", (f"cluster.storage.capacity={size}",)).spec
    dumped = spec.model_dump(mode="json", by_alias=True)
    assert RunSpec.model_validate(dumped) == spec


def test_what_others_named_may_have_names_that_a_run_may_not() -> None:
    spec = loads(
        GOOD,
        "run.yaml",
        (
            'cluster.namespace="7b-team"',
            "cluster.queue=team.gpu",
            "cluster.service_account=trainer.ml",
            "cluster.image_pull_secret=registry.example",
            "cluster.storage.claim=lustre.shared",
        ),
    ).spec
    assert spec.cluster.namespace == "7b-team"
    assert spec.cluster.image_pull_secret == "registry.example"


def test_wsd_with_an_anneal_is_accepted() -> None:
    rate = with_training("{tokens: 1B, learning_rate: {style: wsd, anneal: {fraction: 0.1}}}")
    anneal = rate.spec.training.learning_rate.anneal
    assert anneal is not None
    assert anneal.fraction == 0.1


@pytest.mark.parametrize(
    "address",
    ["/data/a", "a/b", "./a:b", "a:b", "abfs://c@a.dfs.core.windows.net/x", "az://c/x", "gs://b"],
)
def test_addresses_that_can_be_read(address: str) -> None:
    spec = loads(GOOD, "run.yaml", (f"data.sources[0].from={address}",)).spec
    assert spec.data.sources is not None
    assert spec.data.sources[0].from_ == address


def test_an_address_without_its_colon_is_not_taken_for_a_path() -> None:
    with pytest.raises(FindingsError, match="no colon after the scheme") as caught:
        loads(GOOD, "run.yaml", ("data.sources[0].from=s3//bucket/corpus",))
    assert caught.value.findings[0].fix == "Write 's3://bucket/corpus'."


def test_ordinary_text_may_hold_a_no_break_space() -> None:
    spec = loads(GOOD + "description: 7\u00a0B on two nodes\n", "run.yaml").spec
    assert spec.description == "7\u00a0B on two nodes"


def test_a_section_cannot_be_changed(loaded: LoadedSpec) -> None:
    with pytest.raises(ValidationError):
        loaded.spec.name = "other"  # type: ignore[misc]
    with pytest.raises(ValidationError):
        loaded.spec.training.seed = 1  # type: ignore[misc]


def test_a_family_supplies_what_dimensions_leave_out() -> None:
    text = GOOD.replace(
        "model: {preset: gpt3-7.5b}",
        "model:\n  dimensions: {family: llama, layers: 2, hidden_size: 64, heads: 4, "
        "vocab_size: 100, max_positions: 128}",
    )
    model = loads(text, "run.yaml").spec.model.dimensions
    assert model is not None
    assert (model.family, model.positions) == (Family.LLAMA, Positions.ROPE)
    assert (model.norm, model.activation) == (Norm.RMSNORM, Activation.SWIGLU)
    assert (model.kv_heads, model.head_dim, model.ffn_hidden_size) == (4, 16, 256)
    assert not model.linear_bias
    assert not model.tied_embeddings


@pytest.mark.parametrize(
    ("heads", "fix"),
    [
        ("heads: 7", "Use 8 or 4;"),
        # Heads that share those of keys and values come in multiples of them.
        ("heads: 24, kv_heads: 8", "Use 32 or 16;"),
    ],
)
def test_heads_that_do_not_divide_the_width_are_told_which_do(heads: str, fix: str) -> None:
    text = GOOD.replace(
        "model: {preset: gpt3-7.5b}",
        f"model:\n  dimensions: {{family: llama, layers: 2, hidden_size: 64, {heads}, "
        "vocab_size: 100, max_positions: 128}",
    )
    with pytest.raises(FindingsError) as refused:
        loads(text, "run.yaml")
    (finding,) = refused.value.findings
    assert finding.where.field == "model.dimensions.heads"
    assert finding.fix.startswith(fix)


@pytest.mark.parametrize(
    ("field", "place"),
    [
        ("name", (2, 7)),
        ("data.sources[0].from", (6, 13)),
        ("training.tokens", (8, 20)),
        ("cluster.nodes", (9, 57)),
    ],
)
def test_where_a_value_stands(loaded: LoadedSpec, field: str, place: tuple[int, int]) -> None:
    where = loaded.where(field)
    assert (where.line, where.column) == place
    assert where.field == field
    assert where.file == str(HERE / "good.yaml")


def test_a_section_stands_at_its_key(loaded: LoadedSpec) -> None:
    where = loaded.where("data.sources")
    assert (where.line, where.column) == (5, 3)


def test_where_an_absent_value_would_stand(loaded: LoadedSpec) -> None:
    absent = loaded.where("data.sources[0].weight")
    assert (absent.line, absent.column, absent.field) == (6, 7, "data.sources[0].weight")
    assert loaded.where("checkpoints.keep_last").line == 1


@pytest.mark.parametrize("ending", ["\r\n", "\r"])
def test_line_endings_of_other_systems_are_read_and_counted(ending: str) -> None:
    loaded = loads(GOOD.replace("\n", ending), "run.yaml")
    assert loaded.spec.cluster.nodes == 2
    assert loaded.where("cluster.nodes").line == 9


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(GOOD, encoding="utf-8-sig")
    assert load(path).where("apiVersion").column == 13


def test_a_line_separator_is_no_line_for_an_editor_and_none_for_us() -> None:
    text = GOOD.replace("name: slim-7b", 'description: "a\u2028b"\nname: slim_7b')
    with pytest.raises(FindingsError, match="is not a valid run name") as caught:
        loads(text, "run.yaml")
    assert caught.value.findings[0].where.line == 3


def test_the_words_of_other_yaml_versions_stay_text() -> None:
    text = GOOD + "description: 2024-01-01\n"
    assert loads(text, "run.yaml").spec.description == "2024-01-01"
    assert loads(GOOD + "description: no\n", "run.yaml").spec.description == "no"


@pytest.mark.parametrize("value", ["tokenizer.json", "./tokenizer", "llama.model", "hf://gpt2"])
def test_a_tokenizer_is_a_name_on_the_hub_or_a_file(value: str) -> None:
    assert loads(GOOD.replace("hf://gpt2", value), "run.yaml").spec.data.tokenizer == value


def test_an_unknown_key_with_the_name_of_a_secret_is_first_taken_for_a_misspelt_one() -> None:
    """Nobody has to revoke 150 billion tokens; a value of the form of a token is another thing."""
    (found,) = refused("training.token=150B")
    assert (found.code, found.fix) == (SpecCode.UNKNOWN_KEY, "Did you mean tokens?")
    assert "150B" not in str(found.to_dict())
    assert [each.code for each in refused("cluster.hf_token=abc")] == [SpecCode.SECRET]
    assert [each.code for each in refused("cluster.env.token=abc")] == [SpecCode.SECRET]
    form = refused("training.token=nvapi-" + "aB3" * 20)
    assert [each.code for each in form] == [SpecCode.SECRET]


def refused(override: str) -> tuple[Finding, ...]:
    with pytest.raises(FindingsError) as raised:
        loads(GOOD, "run.yaml", (override,))
    return raised.value.findings


def test_a_bare_word_is_no_tokenizer() -> None:
    with pytest.raises(FindingsError, match="hf://NAME"):
        loads(GOOD.replace("hf://gpt2", "gpt2"), "run.yaml")


def test_an_option_with_the_number_of_a_token_is_no_secret() -> None:
    options = {"user-token": 32001, "some-key": "7", "app_token": "<|app|>"}
    given = tuple(f"engine.options.{name}={value}" for name, value in options.items())
    assert loads(GOOD, "run.yaml", given).spec.engine.options == {**options, "some-key": 7}
    for secret in ("engine.options.user-token=plain", "cluster.env.HF_TOKEN='5'"):
        with pytest.raises(FindingsError) as caught:
            loads(GOOD, "run.yaml", (secret,))
        assert {each.code for each in caught.value.findings} == {SpecCode.SECRET}
