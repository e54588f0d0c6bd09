# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Spec -> Plan: the arithmetic, and what every refusal says."""

from dataclasses import replace

import pytest

from seatrial.catalog.catalog import Catalog, Kind
from seatrial.engines.registry import ENGINES
from seatrial.errors import FindingsError
from seatrial.planning.plan import Origin
from seatrial.planning.planner import plan_run
from seatrial.planning.resolve import resolve_basis
from seatrial.recipes.shipped import recipe
from seatrial.rendering.spec_config import spec_text
from seatrial.spec.loader import load, loads
from tests.conftest import loaded, plan_spec, resolved

CUSTOM_MOE = (
    "model={dimensions: {family: llama, layers: 8, hidden_size: 512, heads: 8, vocab_size: 32000, "
    "max_positions: 4096, moe: {experts: 8, top_k: 2, expert_ffn_hidden_size: 1024}}}"
)


def refusals(*overrides: str) -> list[str]:
    """The findings of a spec that cannot become a plan, one line each."""
    with pytest.raises(FindingsError) as caught:
        resolved(*overrides)
    return [
        f"{finding.code} {finding.where.field}: {finding.rule} {finding.fix}"
        for finding in caught.value.findings
    ]


def test_names_of_model_profile_and_node_type_are_told_together() -> None:
    wrong = ("model.preset=gpt3-7.5x", "cluster.profile=EKX", "cluster.node_type=p4d.25xlarge")
    found = refusals(*wrong)
    for field in ("model.preset", "cluster.profile", "cluster.node_type"):
        assert sum(f" {field}: " in line for line in found) == 1, found
    assert len(found) == 3


def test_the_hyperpod_documents_log(catalog: Catalog) -> None:
    plan = plan_spec(load(recipe("hyperpod-gpt3-7.5b").path), catalog)
    assert plan.length.steps == 508_626
    assert plan.length.samples == 146_484_375
    assert plan.length.validation_samples == 5_863_680
    assert plan.length.test_samples == 11_520
    assert plan.layout.dp_size == 1
    assert plan.batch.micro_batches == 288
    assert plan.stage_parameters == (941_594_624,)
    assert plan.schedule.warmup_samples == 183_105
    assert plan.schedule.decay_samples == 126_953_125


def test_the_hyperpod_documents_benchmark_is_one_override(catalog: Catalog) -> None:
    # Its sections 5.1 and 5.2: --train-iters 50, --lr-decay-iters 45, --lr-warmup-iters 2,
    # --eval-iters 0 and --split 100,0,0.
    path = recipe("hyperpod-gpt3-7.5b").path
    plan = plan_spec(load(path, ("training.benchmark_steps=50",)), catalog)
    flags = ENGINES[plan.spec.engine.name].arguments(plan)
    wanted = {"train-iters": 50, "lr-decay-iters": 45, "lr-warmup-iters": 2}
    wanted |= {"eval-iters": 0, "global-batch-size": 288}
    assert {name: flags[name] for name in wanted} == wanted
    assert flags["split"] == "100,0,0"
    assert not [name for name, value in flags.items() if name.endswith("-samples") and value]
    assert plan.save_every_steps == 50
    assert plan.checkpoint_location == "/fsx/gpt3-7-5b/checkpoints-benchmark"
    full = plan_spec(load(path), catalog)
    assert (plan.layout, plan.batch, plan.stages) == (full.layout, full.batch, full.stages)
    assert plan.data_location == full.data_location
    # A pod loads the spec again, which then sets the options that the planner chose.
    again = plan_spec(loads(spec_text(plan.spec), "run.yaml"), catalog)
    assert replace(again, origins=plan.origins) == plan


@pytest.mark.parametrize("value", ["0", "-1", "many", "true", "1.5"])
def test_a_benchmark_needs_a_number_of_steps(value: str) -> None:
    path = recipe("hyperpod-gpt3-7.5b").path
    with pytest.raises(FindingsError, match=r"training\.benchmark_steps"):
        load(path, (f"training.benchmark_steps={value}",))


def test_a_benchmark_replaces_every_length(catalog: Catalog) -> None:
    rate = "training.learning_rate={style: wsd, anneal: {samples: 100000}}"
    words = ("training.benchmark_steps=20", rate, "checkpoints={every_hours: 2}")
    plan = plan_spec(load(recipe("hyperpod-gpt3-7.5b").path, words), catalog)
    assert plan.schedule.anneal_samples == 2 * 288
    assert plan.save_every_steps == 20


def test_a_plan_knows_every_number() -> None:
    plan = resolved()
    assert plan.machines.world_size == 16
    assert plan.layout.dp_size == 4
    assert plan.batch.micro_batches == 64
    assert plan.batch.tokens_per_step == 1024 * 2048
    assert plan.length.tokens == 1000 * 1024 * 2048
    assert plan.checkpoint_location == "/data/slim-7b/checkpoints"
    assert plan.model.tokenizer == "hf://gpt2"
    assert plan.machines.fabric == "efa"


def test_a_plan_says_where_values_came_from() -> None:
    origins = resolved().origins
    assert origins["parallelism.tp_size"] is Origin.YOU
    assert origins["training.sequence_length"] is Origin.CATALOG
    assert origins["cluster.fabric"] is Origin.CATALOG
    assert origins["checkpoints.location"] is Origin.DEFAULT
    assert origins["training.learning_rate.peak"] is Origin.DEFAULT


def test_the_lowest_learning_rate_is_a_tenth_as_a_person_writes_it() -> None:
    schedule = resolved("training.learning_rate.peak=0.003").schedule
    assert str(schedule.minimum) == "0.0003"


def test_tokens_finish_the_last_step_and_samples_leave_out_a_part() -> None:
    tokens = resolved("training.steps=null", "training.tokens=150B")
    assert tokens.length.steps == 71_526
    samples = resolved("training.steps=null", "training.samples=102500")
    assert samples.length.steps == 100
    assert samples.length.samples == 102_500


def test_equal_plans_have_equal_digests_and_others_do_not() -> None:
    assert resolved().digest == resolved().digest
    assert resolved().digest != resolved("training.seed=1").digest


def test_an_auto_with_one_possible_value_takes_it() -> None:
    plan = resolved("parallelism.ep_size=auto", "parallelism.vp_size=auto")
    assert (plan.layout.ep_size, plan.layout.vp_size) == (1, 1)
    assert plan.origins["parallelism.ep_size"] is Origin.DEFAULT


def test_kept_choices_that_leave_fields_open_are_refused() -> None:
    fields = ("parallelism.tp_size", "training.micro_batch_size", "checkpoints.every_steps")
    basis = resolve_basis(loaded(*(f"{field}=auto" for field in fields)), Catalog())
    assert basis.open_fields == list(fields)
    with pytest.raises(FindingsError) as caught:
        plan_run(basis, kept={})
    (finding,) = caught.value.findings
    assert finding.code == "ST-PLAN-001"
    assert finding.rule == (
        "parallelism.tp_size, training.micro_batch_size are auto, but the planner chose no value."
    )


REFUSALS = {
    # Azure's chart as it comes: tp 8 × pp 16 on 2 nodes of 8.
    "azure-defaults": (
        ("model.preset=175b", "parallelism.tp_size=8", "parallelism.pp_size=16"),
        "ST-LAYOUT-001 cluster.nodes: 16 ranks are not divisible by tp 8 × pp 16 = 128. Use "
        "nodes in multiples of 16, or parallelism.pp_size=2.",
    ),
    "expert-grid": (
        (
            CUSTOM_MOE,
            "parallelism.ep_size=8",
            "parallelism.tp_size=1",
            "cluster.nodes=3",
            "cluster.processes_per_node=4",
            "parallelism.sequence_parallel=false",
        ),
        "ST-LAYOUT-002 parallelism.ep_size: 12 ranks are not divisible by etp 1 × ep 8 × pp "
        "1 = 8, the expert grid. Use ep_size 1, 2 or 4.",
    ),
    "heads-odd": (
        ("model.preset=gpt2-xl", "parallelism.tp_size=2"),
        "ST-LAYOUT-003 parallelism.tp_size: 25 attention heads are not divisible by tp_size "
        "2. Use tp_size 1 or 5.",
    ),
    "kv-heads": (
        (
            "model={dimensions: {family: llama, layers: 8, hidden_size: 768, heads: 12, "
            "kv_heads: 6, vocab_size: 32000, max_positions: 4096, ffn_hidden_size: 2048}}",
            "parallelism.tp_size=4",
        ),
        "ST-LAYOUT-003 parallelism.tp_size: 6 key-value heads are not divisible by tp_size "
        "4. Use tp_size 1 or 2.",
    ),
    "width": (
        (
            "model={dimensions: {family: gpt, layers: 8, hidden_size: 512, heads: 8, "
            "vocab_size: 32000, max_positions: 4096, ffn_hidden_size: 1022}}",
        ),
        "ST-LAYOUT-004 parallelism.tp_size: ffn_hidden_size 1022 is not divisible by tp_size "
        "4. Use tp_size 1 or 2.",
    ),
    "stages": (
        ("parallelism.tp_size=1", "parallelism.sequence_parallel=false", "parallelism.pp_size=8"),
        "ST-LAYOUT-005 parallelism.pp_size: 36 layers are not divisible by pp_size 8. Use "
        "pp_size 6 or 9, or keep pp_size 8 and use first_stage_layers 3 and last_stage_layers 3.",
    ),
    "stages-but-for-two": (
        (
            "model.preset=llama3-405b",
            "cluster={profile: aks, node_type: Standard_ND96isr_H100_v5, nodes: 64}",
            "parallelism.tp_size=8",
            "parallelism.pp_size=8",
            "parallelism.vp_size=8",
        ),
        "ST-LAYOUT-005 parallelism.pp_size: 126 layers are not divisible by pp_size 8. Use "
        "pp_size 7 or 9, or keep pp_size 8 and set embedding_as_layer and loss_as_layer to true.",
    ),
    "counted-stages": (
        ("parallelism.pp_size=4", "parallelism.loss_as_layer=true"),
        "ST-LAYOUT-005 parallelism.pp_size: 37 layers, counting loss, are not divisible by "
        "pp_size 4. Use pp_size 1 or 37.",
    ),
    "counted-chunks": (
        (
            "parallelism.pp_size=2",
            "parallelism.vp_size=4",
            "parallelism.embedding_as_layer=true",
            "parallelism.loss_as_layer=true",
        ),
        "ST-LAYOUT-006 parallelism.vp_size: a stage of 19 layers, counting embedding and "
        "loss, is not divisible into 4 chunks. Use vp_size 1.",
    ),
    "recompute-experts-of-a-dense-model": (
        ("parallelism.recompute=selective", "parallelism.recompute_modules=[moe_act]"),
        "ST-LAYOUT-013 parallelism.recompute_modules: moe_act cannot be recomputed: the "
        "model is dense, so it has no experts. Remove moe_act.",
    ),
    "recompute-latents": (
        ("parallelism.recompute=selective", "parallelism.recompute_modules=[mla_up_proj]"),
        "ST-LAYOUT-013 parallelism.recompute_modules: mla_up_proj cannot be recomputed: "
        "Seatrial does not support models with multi-latent attention. Remove mla_up_proj.",
    ),
    "recompute-biases": (
        ("parallelism.recompute=selective", "parallelism.recompute_modules=[mlp]"),
        "ST-LAYOUT-013 parallelism.recompute_modules: mlp cannot be recomputed: with biases "
        "in the MLP, the engine never finishes the first step. Remove mlp.",
    ),
    "recompute-norms-in-fp8": (
        (
            "cluster={profile: aks, node_type: Standard_ND96isr_H100_v5, nodes: 2}",
            "training.precision=fp8",
            "parallelism.recompute=selective",
            "parallelism.recompute_modules=[layernorm]",
        ),
        "ST-LAYOUT-013 parallelism.recompute_modules: layernorm cannot be recomputed: fp8 "
        "with delayed scaling does not support this module. Remove layernorm.",
    ),
    "stage-ends": (
        ("parallelism.pp_size=4", "parallelism.first_stage_layers=7"),
        "ST-LAYOUT-005 parallelism.first_stage_layers: 29 of 36 layers remain for 3 middle "
        "stages. Choose first_stage_layers and last_stage_layers so that the number of remaining "
        "layers is divisible by 3.",
    ),
    "ends-of-one-stage": (
        ("parallelism.last_stage_layers=7",),
        "ST-LAYOUT-005 parallelism.last_stage_layers: pp_size is 1, so all layers are in "
        "one stage. Remove the field, or use a larger pp_size.",
    ),
    "chunks": (
        ("parallelism.pp_size=4", "parallelism.vp_size=2"),
        "ST-LAYOUT-006 parallelism.vp_size: a stage of 9 layers is not divisible into 2 "
        "chunks. Use vp_size 1.",
    ),
    "chunks-of-one-stage": (
        ("parallelism.vp_size=2",),
        "ST-LAYOUT-006 parallelism.vp_size: the interleaved schedule needs more than one pipeline "
        "stage, but pp_size is 1. Use vp_size 1, or a larger pp_size.",
    ),
    "experts-of-a-dense-model": (
        ("parallelism.ep_size=2",),
        "ST-LAYOUT-007 parallelism.ep_size: the model is dense, so it has no experts to split. "
        "Use ep_size 1.",
    ),
    "experts": (
        (
            CUSTOM_MOE,
            "parallelism.ep_size=16",
            "parallelism.tp_size=1",
            "parallelism.sequence_parallel=false",
        ),
        "ST-LAYOUT-007 parallelism.ep_size: 8 experts are not divisible by ep_size 16. Use "
        "ep_size 2, 4 or 8.",
    ),
    "experts-without-sequence-parallel": (
        (CUSTOM_MOE, "parallelism.sequence_parallel=false"),
        "ST-LAYOUT-008 parallelism.sequence_parallel: a mixture-of-experts model with tp_size 4 "
        "requires sequence parallelism. Use true, or tp_size 1.",
    ),
    "sequence-parallel": (
        ("training.sequence_length=2046",),
        "ST-LAYOUT-008 training.sequence_length: 2046 tokens per rank are not divisible by "
        "tp_size 4 (sequence parallelism). Use 2044 or 2048.",
    ),
    "context": (
        ("training.sequence_length=2046", "parallelism.cp_size=2"),
        "ST-LAYOUT-009 training.sequence_length: 2046 tokens are not divisible by 4: each of "
        "2 cp ranks has two chunks. Use 2044 or 2048.",
    ),
    "positions": (
        ("training.sequence_length=4096",),
        "ST-LAYOUT-010 training.sequence_length: 4096 tokens exceed the 2048 learned "
        "positions of the model. Use at most 2048, or a larger "
        "model.dimensions.max_positions.",
    ),
    "batch": (
        ("training.global_batch_size=1000",),
        "ST-BATCH-002 training.global_batch_size: 1000 sequences are not divisible by "
        "micro-batch 4 × dp 4 = 16. Use 992 or 1008.",
    ),
    "batch-over-nodes": (
        ("training.global_batch_size=512", "cluster.nodes=3"),
        "ST-BATCH-002 training.global_batch_size: 512 sequences are not divisible by "
        "micro-batch 4 × dp 6 = 24. Use 504 or 528. Or use 2 or 4 nodes.",
    ),
    "node-type-by-its-gpu": (
        ("cluster.node_type=A100",),
        "ST-PLAN-002 cluster.node_type: there is no node type 'A100' in the catalog. "
        "Use one of: p4d.24xlarge, p4de.24xlarge.",
    ),
    "interleaved-batch": (
        ("parallelism.pp_size=4", "parallelism.vp_size=3", "training.global_batch_size=24"),
        "ST-BATCH-003 training.global_batch_size: 6 micro-batches are not a multiple of "
        "pp_size 4, as the interleaved schedule requires. Use 16 or 32, or vp_size 1.",
    ),
    "too-short": (
        ("training.steps=null", "training.samples=1000"),
        "ST-LENGTH-001 training.samples: 1000 samples are fewer than one global batch of "
        "1024. Use at least 1024 samples.",
    ),
    "warmup": (
        ("training.learning_rate.warmup={steps: 1000}",),
        "ST-LENGTH-002 training.learning_rate.warmup: the warm-up ends after 1,024,000 "
        "samples, but the decay ends after 1,024,000. Make the warm-up shorter than the "
        "decay.",
    ),
    "no-save": (
        ("checkpoints.every_steps=5000",),
        "ST-LENGTH-003 checkpoints.every_steps: the run ends at step 1,000, before its first "
        "save at step 5,000. Use at most 1000, or make the run longer.",
    ),
    "qkv-width": (
        (
            "model={dimensions: {family: llama, layers: 8, hidden_size: 768, heads: 12, "
            "kv_heads: 1, head_dim: 64, vocab_size: 32000, max_positions: 4096, "
            "ffn_hidden_size: 2304}}",
            "parallelism.tp_size=3",
            "cluster.nodes=3",
        ),
        "ST-LAYOUT-003 parallelism.tp_size: 1 key-value head is not divisible by tp_size 3. "
        "Use tp_size 1, 2 or 4.",
    ),
    "more-stages-than-layers": (
        ("parallelism.pp_size=9007199254740991",),
        "ST-LAYOUT-005 parallelism.pp_size: pp_size 9007199254740991 exceeds the 36 "
        "layers of the model. Use at most 36.",
    ),
    "expert-bias": (
        (
            CUSTOM_MOE.replace("max_positions: 4096", "max_positions: 4096, linear_bias: true"),
            "parallelism.ep_size=1",
            "parallelism.etp_size=2",
        ),
        "ST-LAYOUT-012 parallelism.etp_size: experts with biases do not support tensor "
        "parallelism (etp_size above 1). Use etp_size 1, or set linear_bias: false in "
        "model.dimensions.",
    ),
    "rate": (
        ("training.learning_rate.minimum=0.5",),
        "ST-LENGTH-004 training.learning_rate.minimum: the minimum 0.5 is above the peak 0.0003. "
        "Use at most 0.0003; 3e-05 is usual.",
    ),
    "retention": (
        ("checkpoints.keep_every_steps=250",),
        "ST-LENGTH-005 checkpoints.keep_every_steps: 250 is not a multiple of every_steps, which "
        "is 100. Use 200 or 300.",
    ),
    "no-validation-data": (
        ("data.split=[100, 0, 0]",),
        "ST-LENGTH-006 data.split: the split has no data for validation, but each evaluation "
        "reads 10 batches. Use a split such as [98, 2, 0], or set "
        "training.evaluation.batches=0.",
    ),
    "precision": (
        ("training.precision=fp8",),
        "ST-PLAN-006 training.precision: a100-40gb does not support fp8. Use bf16.",
    ),
    "fabric": (
        ("cluster.fabric=infiniband",),
        "ST-PLAN-007 cluster.fabric: p4d.24xlarge nodes have no infiniband network. "
        "Use one of: efa, none.",
    ),
    "image-without-tag": (
        ("cluster.image=nope",),
        "ST-PLAN-008 cluster.image: 'nope' is not an image in the catalog, and has no tag or "
        "digest. Write REPOSITORY:TAG. To list the names, run seatrial catalog list "
        "images.",
    ),
    "capacity": (
        ("cluster.storage={tier: fsx-lustre-250, capacity: 2Ti}",),
        "ST-PLAN-009 cluster.storage.capacity: fsx-lustre-250 offers 1.17 TiB plus multiples "
        "of 2.34 TiB. Use 3600Gi.",
    ),
    "unknown-preset": (
        ("model.preset=gpt3-17b",),
        "ST-PLAN-002 model.preset: there is no model 'gpt3-17b' in the catalog. "
        "Did you mean gpt3-18.4b or moonlight-16b-a3b?",
    ),
    "unknown-node-type": (
        ("cluster.node_type=p9.huge",),
        "ST-PLAN-002 cluster.node_type: there is no node type 'p9.huge' in the catalog. "
        "To list the names, run seatrial catalog list node-types.",
    ),
    "processes": (
        ("cluster.processes_per_node=16",),
        "ST-PLAN-004 cluster.processes_per_node: 16 processes would share the 8 GPUs on "
        "p4d.24xlarge. Use at most 8.",
    ),
    "local-without-processes": (
        ("cluster={profile: local}",),
        "ST-PLAN-004 cluster.processes_per_node: local has no GPUs, so "
        "cluster.processes_per_node is required. Set it, for example "
        "cluster.processes_per_node=2.",
    ),
    "engine": (
        ("model.preset=mpt-7b",),
        "ST-PLAN-005 model.preset: mpt-7b needs the engine llm-foundry, not megatron. "
        "Use engine.name=llm-foundry, or a different preset.",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_a_refusal_says_what_would_fit(name: str) -> None:
    overrides, expected = REFUSALS[name]
    lines = refusals(*overrides)
    assert expected in lines, lines


def warnings(*overrides: str) -> list[str]:
    """The codes of the warnings of a plan."""
    return [str(finding.code) for finding in resolved(*overrides).findings]


def test_a_good_plan_has_no_warnings() -> None:
    assert warnings() == []


@pytest.mark.parametrize(
    ("overrides", "code"),
    [
        (("model.preset=llama3-8b", "training.sequence_length=16384"), "ST-LAYOUT-010"),
        (("parallelism.tp_size=16",), "ST-LAYOUT-011"),
        (("parallelism.tp_size=1", "parallelism.sequence_parallel=false"), "ST-PLAN-010"),
    ],
)
def test_what_works_at_a_cost_is_a_warning(overrides: tuple[str, ...], code: str) -> None:
    assert warnings(*overrides) == [code]


def test_the_image_must_be_of_the_engine() -> None:
    (line,) = refusals("cluster.image=worker-llm-foundry")
    assert "worker-llm-foundry is for llm-foundry, but the engine is megatron." in line
    assert "worker-megatron" in line


def test_a_description_is_not_part_of_a_plans_identity() -> None:
    assert resolved("description=words").digest == resolved().digest


def test_several_rules_are_reported_at_once() -> None:
    lines = refusals("parallelism.pp_size=5", "parallelism.ep_size=2")
    codes = {line.split()[0] for line in lines}
    assert codes == {"ST-LAYOUT-001", "ST-LAYOUT-005", "ST-LAYOUT-007"}


def test_a_wrong_tp_size_is_one_mistake() -> None:
    lines = refusals("parallelism.tp_size=3")
    codes = {f"ST-LAYOUT-{number} parallelism.tp_size" for number in ("003", "004")}
    assert {line.split(":")[0] for line in lines} == codes


def test_findings_point_at_the_line_of_the_field() -> None:
    with pytest.raises(FindingsError) as caught:
        resolved("training.seed=1", "cluster.nodes=3")
    (finding,) = [f for f in caught.value.findings if f.where.field.startswith("training")]
    assert (finding.where.file, finding.where.line) == ("run.yaml", 8)


@pytest.mark.parametrize("name", Catalog().names(Kind.MODELS))
def test_fixes_of_a_bad_tp_are_right(name: str, catalog: Catalog) -> None:
    """Following the fix of the first refusal never leads to the same refusal again."""
    heads = catalog.model(name).architecture.heads
    bad = next(n for n in range(2, heads + 2) if heads % n)
    engine = f"engine.name={catalog.model(name).engine}"
    base = (f"model.preset={name}", engine, f"cluster.nodes={bad}", "parallelism.ep_size=1")
    lines = refusals(*base, f"parallelism.tp_size={bad}")
    (line,) = [line for line in lines if "attention heads are not" in line]
    fix = int(line.rstrip(".").rsplit(" ", 1)[1])
    mended = refusals(*base, f"parallelism.tp_size={fix}", "checkpoints.every_steps=5000")
    assert not [line for line in mended if "attention heads" in line]
