# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Performance options become Megatron's flags, and what Megatron rejects is reported."""

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.codes.checks import CheckCode
from seatrial.engines.engine import ArgumentValue, RunProblem, Trial
from seatrial.engines.megatron.command_line import engine_arguments
from seatrial.engines.megatron.engine import engine_environment
from seatrial.engines.megatron.performance_flags import (
    EXECUTED_ON_CPU,
    ON_CPU,
    PERFORMANCE_FLAGS,
    not_on_cpu,
)
from seatrial.engines.megatron.performance_rules import OPTIONS
from seatrial.engines.megatron.run_rules import run_problems
from seatrial.planning.options import NAMES, OptionRule
from seatrial.planning.plan import Plan
from tests.conftest import MEGATRON, resolved

Overrides = tuple[str, ...]


def model(parts: str) -> str:
    """The override with a small model."""
    sizes = "layers: 8, hidden_size: 512, heads: 8, vocab_size: 1000, max_positions: 4096"
    return f"model={{dimensions: {{family: llama, {sizes}, {parts}}}}}"


def experts(parts: str = "", model_parts: str = "") -> Overrides:
    """Overrides with a model with experts, on 2 expert-parallel ranks."""
    moe = f"moe: {{experts: 16, top_k: 4, expert_ffn_hidden_size: 64{parts}}}{model_parts}"
    return model(moe), "parallelism.tp_size=2", "parallelism.ep_size=2"


MOE = experts()
SHARED = experts(", shared_expert_ffn_hidden_size: 64")
LATENT = "latent_attention: {kv_rank: 64, qk_head_dim: 32, rope_head_dim: 16, value_head_dim: 24}"
YARN = "rope_scaling: {kind: yarn, factor: 40, original_positions: 4096, mscale_all_dim: 1.0}"
NO_GPUS = ("cluster={profile: local, processes_per_node: 8}",)
LOCAL_LAYERS = ("engine.options.transformer_impl=local",)
DETERMINISTIC = ("training.deterministic=true",)
UNSHARDED = ("parallelism.sharding=none",)
FSDP = ("parallelism.sharding=fsdp",)
MUON = ("training.optimizer.name=muon",)
FULL = ("parallelism.recompute=full",)
NONE_AGAIN = ("parallelism.recompute=none",)
EP_1 = ("parallelism.ep_size=1",)
EP_16 = ("parallelism.ep_size=16",)
TP_1 = ("parallelism.tp_size=1", "parallelism.sequence_parallel=false")
PP_2 = ("parallelism.pp_size=2",)
VP_2 = (*PP_2, "parallelism.vp_size=2")
GROWING = ("training.batch_schedule=[{global_batch_size: 512, until_tokens: 100M}]",)
ALLGATHER = ("performance.token_dispatcher=allgather",)
H100 = ("cluster.node_type=p5.48xlarge",)
B200 = ("cluster.node_type=p6-b200.48xlarge",)
GB200 = ("cluster.node_type=p6e-gb200.36xlarge", "cluster.nodes=4")
MXFP8 = (*B200, "training.precision=mxfp8")


def again(module: str) -> Overrides:
    """Overrides with which a part of each layer is recomputed."""
    return (f"parallelism.recompute_modules=[{module}]",)


def problems(*overrides: str) -> list[RunProblem]:
    """What Megatron rejects of the good spec with overrides."""
    plan = resolved(*overrides)
    gpu, catalog = plan.machines.accelerator, Catalog()
    node = catalog.node_type(plan.machines.node_type)
    generation = catalog.accelerator(gpu).architecture if gpu else ""
    return run_problems(plan, generation, node.linked_gpus(plan.machines.processes_per_node))


Row = tuple[str, Overrides, Overrides]
TABLE: dict[tuple[str, str], Row] = {
    ("parameter_overlap", "only with gradient overlap"): (
        "true",
        ("performance.gradient_overlap=false",),
        (),
    ),
    ("parameter_overlap", "sharding none"): ("true", UNSHARDED, FSDP),
    ("parameter_overlap", "save-params-interval"): (
        "true",
        ("engine.options.save-params-interval=10",),
        (),
    ),
    ("gradient_overlap", "always overlaps"): ("false", FSDP, ()),
    ("parameter_overlap", "always overlaps"): ("false", FSDP, ()),
    ("tensor_overlap", "needs a GPU"): ("true", NO_GPUS, H100),
    ("tensor_overlap", "tp is 1"): ("true", (*H100, *TP_1), H100),
    ("tensor_overlap", "not in one NVLink domain"): (
        "true",
        (*H100, "parallelism.tp_size=16"),
        H100,
    ),
    ("tensor_overlap", "multicast"): ("true", (), H100),
    ("tensor_overlap", "silently"): ("true", (*H100, model("mtp_layers: 1")), H100),
    ("tensor_overlap", "nvfp4"): ("true", (*B200, "training.precision=nvfp4"), B200),
    ("tensor_overlap", "sequence parallelism"): (
        "true",
        (*H100, "parallelism.sequence_parallel=false"),
        H100,
    ),
    ("tensor_overlap", "Transformer Engine's layers"): ("true", (*H100, *LOCAL_LAYERS), H100),
    ("tensor_overlap", "not deterministic"): ("true", (*H100, *DETERMINISTIC), H100),
    ("pipeline_overlap", "only stages with several chunks"): ("true", PP_2, VP_2),
    ("pipeline_overlap", "two stages"): ("false", VP_2, PP_2),
    ("grouped_experts", "no experts"): ("true", (), MOE),
    ("grouped_experts", "needs a GPU"): ("true", (*MOE, *NO_GPUS), MOE),
    ("grouped_experts", "moe_act"): ("false", (*MOE, *again("moe_act")), MOE),
    ("fused_routing", "no experts"): ("true", (), MOE),
    ("fused_routing", "needs a GPU"): ("true", (*MOE, *NO_GPUS), MOE),
    ("fused_routing", "Transformer Engine's layers"): ("true", (*MOE, *LOCAL_LAYERS), MOE),
    ("token_dispatcher", "no experts"): ("deepep", (), MOE),
    ("token_dispatcher", "needs a GPU"): (
        "hybridep",
        (*MOE, *NO_GPUS),
        (*MOE, *NO_GPUS, *ALLGATHER),
    ),
    ("token_dispatcher", "ep is 1"): ("deepep", (*MOE, *EP_1), (*MOE, *EP_1, *ALLGATHER)),
    ("token_dispatcher", "GB200"): ("deepep", (*MOE, *GB200), (*MOE, *B200)),
    ("token_dispatcher", "several NVLink domains"): (
        "hybridep",
        (*MOE, *EP_16),
        (*MOE, *EP_16, "cluster.env.HYBRID_EP_MULTINODE='1'"),
    ),
    ("expert_overlap", "no experts"): ("true", (), MOE),
    ("expert_overlap", "needs a GPU"): ("true", (*MOE, *NO_GPUS), MOE),
    ("expert_overlap", "ep is 1"): ("true", (*MOE, *EP_1), MOE),
    ("expert_overlap", "allgather"): ("true", (*MOE, *ALLGATHER), MOE),
    ("expert_overlap", "Transformer Engine's layers"): ("true", (*MOE, *LOCAL_LAYERS), MOE),
    ("expert_overlap", "chunks per stage"): ("true", (*MOE, *PP_2), (*MOE, *VP_2)),
    ("expert_overlap", "full recomputation"): ("true", (*MOE, *FULL), MOE),
    ("expert_overlap", "whole mixture-of-experts"): ("true", (*MOE, *again("moe")), MOE),
    ("expert_overlap", "fp32"): ("true", (*MOE, "training.precision=fp32"), MOE),
    ("expert_overlap", "FSDP"): ("true", (*MOE, *FSDP), MOE),
    ("expert_overlap", "multi-token"): (
        "true",
        experts(model_parts=", mtp_layers: 2"),
        experts(model_parts=", mtp_layers: 1"),
    ),
    ("expert_overlap", "shared expert overlap is on"): (
        "true",
        (*SHARED, "performance.shared_expert_overlap=true"),
        SHARED,
    ),
    ("shared_expert_overlap", "model has no experts"): ("true", (), SHARED),
    ("shared_expert_overlap", "needs a GPU"): ("true", (*SHARED, *NO_GPUS), SHARED),
    ("shared_expert_overlap", "ep is 1"): ("true", (*SHARED, *EP_1), SHARED),
    ("shared_expert_overlap", "allgather"): ("true", (*SHARED, *ALLGATHER), SHARED),
    ("shared_expert_overlap", "no shared experts"): ("true", MOE, SHARED),
    ("shared_expert_overlap", "expert overlap is on"): (
        "true",
        (*SHARED, "performance.expert_overlap=true"),
        SHARED,
    ),
    ("shared_expert_overlap", "recomputed"): ("true", (*SHARED, *again("shared_experts")), SHARED),
    ("fused_loss", "needs a GPU"): ("true", NO_GPUS, ()),
    ("fused_loss", "not deterministic"): ("true", DETERMINISTIC, ()),
    ("fused_layers", "needs a GPU"): ("true", NO_GPUS, ()),
    ("moments", "distributed optimizer"): ("bf16", FSDP, ()),
    ("moments", "Muon"): ("bf16", MUON, ()),
    ("optimizer_offload", "distributed optimizer"): ("0.5", UNSHARDED, ()),
    ("optimizer_offload", "only with AdamW"): ("0.5", MUON, ()),
    ("optimizer_offload", "fp8-param-gather"): (
        "0.5",
        (*MXFP8, "engine.options.fp8-param-gather=true"),
        MXFP8,
    ),
    ("activation_offload", "needs a GPU"): ("2", (*NONE_AGAIN, *NO_GPUS), NONE_AGAIN),
    ("activation_offload", "pipeline"): ("2", (*NONE_AGAIN, *PP_2), NONE_AGAIN),
    ("activation_offload", "not both"): ("2", (), NONE_AGAIN),
    ("activation_offload", "at least one layer"): (
        "2",
        (*NONE_AGAIN, "performance.activation_offload=36"),
        NONE_AGAIN,
    ),
    ("cuda_graphs", "needs a GPU"): ("layers", NO_GPUS, ()),
    ("cuda_graphs", "Transformer Engine's layers"): ("layers", LOCAL_LAYERS, ()),
    ("cuda_graphs", "expandable segments"): (
        "layers",
        ("cluster.env.PYTORCH_CUDA_ALLOC_CONF='expandable_segments:True'",),
        (
            "cluster.env.PYTORCH_CUDA_ALLOC_CONF='expandable_segments:True'",
            "cluster.env.NCCL_GRAPH_REGISTER='0'",
        ),
    ),
    ("cuda_graphs", "cannot contain experts"): ("step", MOE, ()),
    ("cuda_graphs", "full recomputation"): (
        "layers",
        FULL,
        (*FULL, "performance.cuda_graphs=step"),
    ),
    ("cuda_graphs", "graphs of the router do not work if whole"): (
        "layers",
        (*MOE, *again("moe")),
        MOE,
    ),
    ("cuda_graphs", "dropped or padded"): (
        "layers",
        (*MOE, "engine.options.moe-expert-capacity-factor=1.0"),
        MOE,
    ),
    ("cuda_graphs", "in the host's memory"): (
        "layers",
        (*NONE_AGAIN, "performance.activation_offload=2"),
        NONE_AGAIN,
    ),
    ("cuda_graphs", "training.batch_schedule"): ("layers", (*PP_2, *GROWING), GROWING),
    ("cuda_graphs", "attention with dropout"): (
        "layers",
        ("training.attention_dropout=0.1",),
        ("training.attention_dropout=0.1", *again("layernorm")),
    ),
    ("cuda_graphs", "feed-forward block with dropout"): (
        "layers",
        (model("rope_theta: 10000.0"), "training.hidden_dropout=0.1", *again("mlp")),
        (model("rope_theta: 10000.0"), "training.hidden_dropout=0.1"),
    ),
}
"""By option and words of the rule: a value, overrides with which it is rejected, and accepted."""


def rules() -> dict[tuple[str, str], OptionRule]:
    """Every rule by its option and text."""
    return {
        (option.name, rule.rule): rule
        for option in OPTIONS
        for rule in (*option.rules, *filter(None, (option.required,)))
    }


def meant(option: str, words: str) -> OptionRule:
    (found,) = [rule for (name, text), rule in rules().items() if name == option and words in text]
    return found


def test_each_rule_is_in_the_table() -> None:
    assert {(key[0], meant(*key).rule) for key in TABLE} == set(rules())
    assert len(TABLE) == len(rules())


@pytest.mark.parametrize("key", TABLE, ids="-".join)
def test_a_value_of_the_spec_that_megatron_rejects_is_reported(key: tuple[str, str]) -> None:
    value, rejected, accepted = TABLE[key]
    rule, field = meant(*key), f"performance.{key[0]}"
    (found,) = [each for each in problems(f"{field}={value}", *rejected) if each.field == field]
    assert (found.rule, found.override) == (rule.rule, rule.by)
    if rule.by:
        assert found.fix == f"Set {rule.by}, or remove this option."
        mended = problems(f"{field}={value}", *rejected, rule.by)
        assert [each.rule for each in mended if each.field == field] == []
    needs = bool(rule.by) and not rule.clashes
    assert found.code is (CheckCode.OPTION_NEEDS if needs else CheckCode.OPTION_AGAINST)
    fine = [each.rule for each in problems(f"{field}={value}", *accepted) if each.field == field]
    assert fine == []


@pytest.mark.parametrize("key", TABLE, ids="-".join)
def test_the_planner_never_chooses_what_megatron_rejects(key: tuple[str, str]) -> None:
    _, rejected, _ = TABLE[key]
    others = [each for each in rejected if not each.startswith(f"performance.{key[0]}=")]
    assert [each for each in problems(*others) if each.field == f"performance.{key[0]}"] == []


def flags(option: str, plan: Plan) -> dict[str, ArgumentValue]:
    """The flags that an option sets in a plan."""
    arguments = engine_arguments(plan)
    names = [flag.name for flag in PERFORMANCE_FLAGS if flag.field == f"performance.{option}"]
    return {name: arguments[name] for name in names if arguments[name] not in (None, False)}


DISPATCHER = "moe-token-dispatcher-type"


@pytest.mark.parametrize(
    ("option", "value", "context", "expected"),
    [
        ("gradient_overlap", "true", (), {"overlap-grad-reduce": True}),
        ("gradient_overlap", "false", (), {}),
        ("parameter_overlap", "true", (), {"overlap-param-gather": True}),
        ("parameter_overlap", "false", (), {}),
        ("tensor_overlap", "true", (), {"tp-comm-overlap": True}),
        ("tensor_overlap", "false", (), {}),
        ("pipeline_overlap", "true", VP_2, {}),
        ("pipeline_overlap", "false", VP_2, {"no-overlap-p2p-communication": True}),
        ("pipeline_overlap", "false", (), {}),
        ("expert_overlap", "true", MOE, {"overlap-moe-expert-parallel-comm": True}),
        ("expert_overlap", "false", MOE, {}),
        ("shared_expert_overlap", "true", SHARED, {"moe-shared-expert-overlap": True}),
        ("shared_expert_overlap", "false", SHARED, {}),
        ("token_dispatcher", "alltoall", MOE, {DISPATCHER: "alltoall"}),
        ("token_dispatcher", "allgather", MOE, {DISPATCHER: "allgather"}),
        (
            "token_dispatcher",
            "deepep",
            MOE,
            {DISPATCHER: "flex", "moe-flex-dispatcher-backend": "deepep"},
        ),
        (
            "token_dispatcher",
            "hybridep",
            MOE,
            {DISPATCHER: "flex", "moe-flex-dispatcher-backend": "hybridep"},
        ),
        ("token_dispatcher", "auto", MOE, {DISPATCHER: "alltoall"}),
        ("token_dispatcher", "auto", (), {}),
        ("grouped_experts", "true", MOE, {"moe-grouped-gemm": True}),
        ("grouped_experts", "false", MOE, {}),
        (
            "fused_routing",
            "true",
            MOE,
            {"moe-permute-fusion": True, "moe-router-fusion": True},
        ),
        ("fused_routing", "false", MOE, {}),
        ("fused_loss", "true", (), {"cross-entropy-loss-fusion": True}),
        ("fused_loss", "false", (), {}),
        (
            "cuda_graphs",
            "layers",
            (),
            {"cuda-graph-impl": "transformer_engine", "cuda-graph-modules": ("attn", "mlp")},
        ),
        (
            "cuda_graphs",
            "layers",
            MOE,
            {
                "cuda-graph-impl": "transformer_engine",
                "cuda-graph-modules": ("attn", "moe_router", "moe_preprocess"),
            },
        ),
        ("cuda_graphs", "step", (), {"cuda-graph-impl": "full_iteration"}),
        ("cuda_graphs", "none", (), {}),
        (
            "moments",
            "bf16",
            (),
            {
                "use-precision-aware-optimizer": True,
                "exp-avg-dtype": "bf16",
                "exp-avg-sq-dtype": "bf16",
            },
        ),
        ("moments", "fp32", (), {}),
        (
            "optimizer_offload",
            "0.5",
            (),
            {
                "optimizer-cpu-offload": True,
                "optimizer-offload-fraction": 0.5,
                "overlap-cpu-optimizer-d2h-h2d": True,
            },
        ),
        ("optimizer_offload", "0", (), {}),
        ("activation_offload", "2", NONE_AGAIN, {"cpu-offloading-num-layers": 2}),
        ("activation_offload", "0", NONE_AGAIN, {}),
    ],
)
def test_an_option_becomes_flags(
    option: str, value: str, context: Overrides, expected: dict[str, ArgumentValue]
) -> None:
    assert flags(option, resolved(f"performance.{option}={value}", *context)) == expected


def test_every_option_has_a_flag() -> None:
    named = {flag.field.partition(".")[2] for flag in PERFORMANCE_FLAGS if flag.field}
    # Fused layers are the default; a spec may disable one of them alone.
    assert named | {"fused_layers"} == set(NAMES) == {option.name for option in OPTIONS}


def test_offloading_the_optimizer_needs_no_second_option() -> None:
    arguments = engine_arguments(resolved("performance.optimizer_offload=0.5"))
    assert arguments["use-precision-aware-optimizer"] is True
    assert arguments["exp-avg-dtype"] is None


FUSIONS = (
    *("no-rope-fusion", "no-bias-swiglu-fusion", "no-bias-dropout-fusion"),
    *("no-masked-softmax-fusion", "no-gradient-accumulation-fusion"),
)


def test_layers_are_fused_unless_the_spec_says_no() -> None:
    fused, plain = (
        engine_arguments(resolved(f"performance.fused_layers={word}")) for word in ("true", "false")
    )
    assert not any(fused[name] for name in FUSIONS)
    assert all(plain[name] is True for name in FUSIONS)
    one = engine_arguments(resolved("engine.options.no-rope-fusion=true"))
    assert [name for name in FUSIONS if one[name]] == ["no-rope-fusion"]


@pytest.mark.parametrize(
    ("parts", "is_unfused"), [(LATENT, True), (f"{LATENT}, {YARN}", False), (YARN, False)]
)
def test_latent_attention_without_yarn_keeps_its_unfused_rotation(
    parts: str, is_unfused: bool
) -> None:
    plan = resolved(model(parts), "parallelism.tp_size=2")
    assert bool(engine_arguments(plan)["no-rope-fusion"]) is is_unfused


@pytest.mark.parametrize(
    ("overrides", "is_unfused"),
    [
        (experts(model_parts=", linear_bias: true"), True),
        ((*experts(model_parts=", linear_bias: true"), "performance.grouped_experts=false"), False),
        (MOE, False),
        ((model("linear_bias: true"),), False),
    ],
)
def test_grouped_experts_with_biases_are_not_fused_with_dropout(
    overrides: Overrides, is_unfused: bool
) -> None:
    plan = resolved(*overrides)
    assert bool(engine_arguments(plan)["no-bias-dropout-fusion"]) is is_unfused


def test_a_graph_of_a_whole_step_does_without_the_check_for_nan() -> None:
    name = "no-check-for-nan-in-loss-and-grad"
    assert engine_arguments(resolved("performance.cuda_graphs=step"))[name] is True
    assert not engine_arguments(resolved("performance.cuda_graphs=layers"))[name]


def test_hybridep_gets_the_nvlink_domains_in_its_environment() -> None:
    hybrid = (*MOE, "performance.token_dispatcher=hybridep")
    names = ("NUM_OF_HYBRID_EP_RANKS_PER_NVLINK_DOMAIN", "NVLINK_DOMAIN_SIZE", "USE_MNNVL")

    def variables(*overrides: str) -> list[str | None]:
        return [engine_environment(resolved(*overrides)).get(name) for name in names]

    assert variables(*hybrid) == ["2", "8", "0"]
    assert variables(*hybrid, *EP_16) == ["8", "8", "0"]
    assert variables(*hybrid, *GB200) == ["2", "4", "0"]
    assert variables(*MOE, "performance.token_dispatcher=deepep") == [None] * 3


def test_deepep_may_leave_the_nvlink_domain() -> None:
    assert problems(*MOE, *EP_16, "performance.token_dispatcher=deepep") == []


def test_a_deterministic_run_leaves_out_what_adds_in_any_order() -> None:
    usual, exact = resolved(*H100), resolved(*H100, *DETERMINISTIC)
    for name in ("cross-entropy-loss-fusion", "tp-comm-overlap"):
        assert engine_arguments(usual)[name] is True
        assert not engine_arguments(exact)[name]
    assert problems(*DETERMINISTIC) == []


MANY = (
    *SHARED,
    "performance={shared_expert_overlap: true, token_dispatcher: deepep, cuda_graphs: layers, "
    "moments: bf16, optimizer_offload: 0.5}",
)


@pytest.mark.parametrize(
    "overrides", [(), MANY, (*MOE, *ALLGATHER), (*VP_2,), (*MOE, *NO_GPUS)], ids=str
)
def test_the_twin_has_the_options_that_it_does_not_list(overrides: Overrides) -> None:
    plan = resolved(*overrides)
    twin = MEGATRON.trial_arguments(plan, Trial("", "", mock_tokenizer=True))
    missing = not_on_cpu(plan)
    for option in NAMES:
        wanted = flags(option, plan)
        if option.replace("_", " ") in missing:
            assert all(twin[name] in (None, "alltoall") for name in wanted), option
        else:
            assert {name: twin[name] for name in wanted} == wanted, option
    assert all(twin[name] is None for name in ON_CPU)


def test_a_rehearsal_says_which_options_it_could_not_run() -> None:
    (said,) = [text for text in MEGATRON.not_proven(resolved(*MANY)) if "need a GPU" in text]
    listed = said.partition(": ")[2].split(", ")
    assert {"token dispatcher", "cuda graphs", "moments", "optimizer offload"} <= set(listed)
    assert not {name.replace("_", " ") for name in EXECUTED_ON_CPU} & set(listed)
    assert MEGATRON.not_proven(resolved(*NO_GPUS)) == ()


def test_a_pod_without_gpus_gets_the_arguments_of_the_twin() -> None:
    plan = resolved(*MANY)
    arguments = MEGATRON.pod_arguments(plan, on_cpu=True, scratch="")
    assert all(arguments[name] is None for name in ON_CPU)
    assert arguments[DISPATCHER] == "alltoall"
    assert MEGATRON.pod_arguments(plan, on_cpu=False, scratch="")[DISPATCHER] == "flex"


def test_a_graph_of_the_step_may_offload_activations() -> None:
    given = ("parallelism={tp_size: 4, recompute: none}", "performance.activation_offload=2", *H100)
    assert problems(*given, "performance.cuda_graphs=step") == []
    assert problems(*given, "performance.cuda_graphs=layers")
