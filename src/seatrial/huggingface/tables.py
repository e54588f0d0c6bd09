# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""One table per model type: how its config.json describes a model (transformers 5.22.2)."""

from dataclasses import dataclass, field
from typing import Any

from seatrial.huggingface.experts import (
    ExpertGroups,
    ExpertsInEveryLayer,
    Latent,
    SequenceBalancing,
    SharedExperts,
)
from seatrial.huggingface.fields import REQUIRED, ConfigFields
from seatrial.huggingface.layers import (
    AlternatingWindow,
    LayersWithoutRope,
    SparseLayers,
    SwitchedWindow,
    Window,
)
from seatrial.huggingface.parts import Custom, Found, Implied, Only, Part, Same
from seatrial.huggingface.rotary import Rotary
from seatrial.spec.model import Activation, Architecture, Family, Norm, Positions
from seatrial.spec.model_parts import RouterScore

EXACT_GELU = "exact_gelu"
"""The key in the found dimensions that says that GELU is exact, not approximated by tanh."""


@dataclass(frozen=True, slots=True)
class ModelTable:
    """How the config.json of a model type describes a model."""

    model_type: str
    class_name: str
    """The transformers class."""
    parts: tuple[Part, ...]
    init_std: float = 0.02
    """The standard deviation of initial weights that transformers uses if none is stated."""
    ignored: dict[str, str] = field(default_factory=dict)
    """Fields of this type that do not change the model, with the reason."""


def _read_biases(fields: ConfigFields, found: Found) -> None:
    attention = fields.flag("attention_bias", False)
    if attention != fields.flag("mlp_bias", False):
        rule = "the engine supports biases in all linear layers or in none."
        fields.refuse("attention_bias", rule, attention)
    found["linear_bias"] = attention


def _write_biases(model: Architecture) -> dict[str, Any]:
    return {"attention_bias": model.linear_bias, "mlp_bias": model.linear_bias}


def _read_even_heads(fields: ConfigFields, found: Found) -> None:
    hidden, heads = found["hidden_size"], found["heads"]
    if heads and hidden % heads:
        rule = f"transformers requires a hidden_size that is divisible by {heads} heads."
        fields.refuse("hidden_size", rule, hidden)


_GELU = {"gelu_new": False, "gelu_pytorch_tanh": False, "gelu_fast": False, "gelu": True}


def _gelu(name: str, usual: str) -> Custom:
    """Return the field that names the variant of GELU."""

    def read(fields: ConfigFields, found: Found) -> None:
        said = fields.typed(name, str, usual)
        if said not in _GELU:
            fields.refuse(name, "for this model type, the engine supports GELU.", said)
        found[EXACT_GELU] = _GELU[said]

    return Custom(read, lambda _: {name: usual})


BIASES = Custom(_read_biases, _write_biases)
EVEN_HEADS = Custom(_read_even_heads, lambda _: {})
NO_BIAS = Only(
    "attention_bias", (False,), "the engine supports biases in all linear layers or in none.", False
)
SILU = Only("hidden_act", ("silu",), "for this model type, the engine supports SwiGLU.", "silu")
LENGTHS = (
    Same("num_hidden_layers", "layers"),
    Same("hidden_size", "hidden_size"),
    Same("num_attention_heads", "heads"),
    Same("vocab_size", "vocab_size"),
    Same("max_position_embeddings", "max_positions"),
)
SIZES = (*LENGTHS, Same("intermediate_size", "ffn_hidden_size"))
KV_HEADS = Same("num_key_value_heads", "kv_heads")
OPTIONAL_KV_HEADS = Same("num_key_value_heads", "kv_heads", default=None)
HEAD_DIM = Same("head_dim", "head_dim", default=None)
UNTIED = Same("tie_word_embeddings", "tied_embeddings", bool, False)
TIED = Same("tie_word_embeddings", "tied_embeddings", bool, True)
TOP_K = Same("num_experts_per_tok", "moe.top_k", spellings=("experts_per_token",))
EXPERT_SIZE = Same("moe_intermediate_size", "moe.expert_ffn_hidden_size")
PREDICTION = Same(
    "num_nextn_predict_layers", "mtp_layers", default=0, spellings=("num_mtp_layers",)
)


def _rms(epsilon: float) -> Same:
    return Same("rms_norm_eps", "norm_epsilon", float, epsilon)


def _aux_loss(weight: float) -> Same:
    return Same("router_aux_loss_coef", "moe.aux_loss_coefficient", float, weight)


def _family(family: Family, **dimensions: Any) -> Implied:
    return Implied({"family": family, **dimensions})


LLAMA_FAMILY = _family(Family.LLAMA)
LLAMA_BASE = (LLAMA_FAMILY, *SIZES, HEAD_DIM, UNTIED, SILU)
ROUTED = (
    EXPERT_SIZE,
    TOP_K,
    SharedExperts(),
    Same("first_k_dense_replace", "moe.dense_layers"),
    Only("moe_layer_freq", (1,), "the engine supports experts in every layer after dense ones.", 1),
    Only("ep_size", (1,), "the experts of the config.json are divided over ranks.", 1),
)
ROUTED_EXPERTS = Same("n_routed_experts", "moe.experts", spellings=("num_local_experts",))
SCALED = Same("routed_scaling_factor", "moe.scaling_factor", float, 1.0)
SIGMOID = Implied({"moe.score": RouterScore.SIGMOID, "moe.expert_bias": True})
_DROPOUT = "dropout is a setting of training"

_TABLES = (
    ModelTable(
        "gpt2",
        "GPT2LMHeadModel",
        (
            _family(
                Family.GPT,
                positions=Positions.LEARNED,
                norm=Norm.LAYERNORM,
                activation=Activation.GELU,
                linear_bias=True,
            ),
            Same("n_layer", "layers"),
            Same("n_embd", "hidden_size"),
            Same("n_head", "heads"),
            Same("vocab_size", "vocab_size"),
            Same("n_positions", "max_positions"),
            Same("n_inner", "ffn_hidden_size", default=None),
            Same("layer_norm_epsilon", "norm_epsilon", float, 1e-5),
            TIED,
            EVEN_HEADS,
            _gelu("activation_function", "gelu_new"),
            Only("scale_attn_weights", (True,), "the engine scales attention scores.", True),
            Only(
                "scale_attn_by_inverse_layer_idx",
                (False,),
                "the engine does not scale attention scores by layer.",
                False,
            ),
            Only("add_cross_attention", (False,), "cross-attention is not supported.", False),
        ),
        ignored=dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), _DROPOUT)
        | {
            "n_ctx": "an older name of n_positions",
            "n_special": "not read by transformers",
            "predict_special_tokens": "not read by transformers",
            "reorder_and_upcast_attn": "the precision of attention scores, not their meaning",
        }
        | dict.fromkeys(
            (
                "summary_activation",
                "summary_first_dropout",
                "summary_proj_to_labels",
                "summary_type",
                "summary_use_proj",
                "task_specific_params",
            ),
            "a head for classification, not for language modelling",
        ),
    ),
    ModelTable(
        "llama",
        "LlamaForCausalLM",
        (
            *LLAMA_BASE,
            OPTIONAL_KV_HEADS,
            _rms(1e-6),
            EVEN_HEADS,
            BIASES,
            Rotary(),
            Only("rope_interleaved", (False,), "this model type rotates halves.", False),
        ),
        ignored={"is_llama_config": "says the same as model_type"},
    ),
    ModelTable(
        "mistral",
        "MistralForCausalLM",
        (*LLAMA_BASE, KV_HEADS, _rms(1e-6), NO_BIAS, Rotary(), Window(4096)),
    ),
    ModelTable(
        "qwen2",
        "Qwen2ForCausalLM",
        (
            *LLAMA_BASE,
            KV_HEADS,
            _rms(1e-6),
            Implied({"qkv_bias": True}),
            Rotary(),
            SwitchedWindow(),
            Only("use_mrope", (False,), "positions in images are not supported.", False),
        ),
    ),
    ModelTable(
        "qwen3",
        "Qwen3ForCausalLM",
        (
            LLAMA_FAMILY,
            *SIZES,
            Same("head_dim", "head_dim", default=128),
            UNTIED,
            SILU,
            KV_HEADS,
            _rms(1e-6),
            NO_BIAS,
            Implied({"qk_norm": True}),
            Rotary(),
            SwitchedWindow(),
        ),
    ),
    ModelTable(
        "smollm3",
        "SmolLM3ForCausalLM",
        (
            LLAMA_FAMILY,
            *SIZES,
            HEAD_DIM,
            TIED,
            SILU,
            KV_HEADS,
            _rms(1e-6),
            BIASES,
            Rotary(2000000.0),
            LayersWithoutRope(),
            Only(
                "use_sliding_window",
                (False,),
                "the engine does not support a window in the layers without rotary positions only.",
                False,
            ),
        ),
        ignored={
            "sliding_window": "used only with use_sliding_window",
            "max_window_layers": "used only with use_sliding_window",
            "layer_types": "derived from no_rope_layers; used only with use_sliding_window",
        },
    ),
    ModelTable(
        "phi3",
        "Phi3ForCausalLM",
        (
            *LLAMA_BASE,
            OPTIONAL_KV_HEADS,
            _rms(1e-5),
            NO_BIAS,
            Rotary(fraction=1.0, scalings=()),
            Window(),
        ),
        ignored=dict.fromkeys(("resid_pdrop", "embd_pdrop"), _DROPOUT)
        | {"original_max_position_embeddings": "used only with a rotary scaling"},
    ),
    ModelTable(
        "nemotron",
        "NemotronForCausalLM",
        (
            _family(
                Family.LLAMA,
                norm=Norm.LAYERNORM,
                norm_centered_at_one=True,
                activation=Activation.SQUARED_RELU,
            ),
            *SIZES,
            HEAD_DIM,
            UNTIED,
            KV_HEADS,
            Same("norm_eps", "norm_epsilon", float, 1e-5),
            Only(
                "hidden_act", ("relu2",), "for this model type, the engine supports relu2.", "relu2"
            ),
            BIASES,
            Rotary(fraction=0.5, scalings=()),
        ),
        init_std=0.0134,
    ),
    ModelTable(
        "starcoder2",
        "Starcoder2ForCausalLM",
        (
            _family(Family.GPT, norm=Norm.LAYERNORM, activation=Activation.GELU),
            *SIZES,
            HEAD_DIM,
            TIED,
            KV_HEADS,
            Same("norm_epsilon", "norm_epsilon", float, 1e-5),
            _gelu("hidden_act", "gelu_pytorch_tanh"),
            Same("use_bias", "linear_bias", bool, True),
            Rotary(),
            Window(),
            Only("norm_type", ("layer_norm",), "this model type has LayerNorm.", "layer_norm"),
            Only("mlp_type", ("default",), "this model type has no gate.", "default"),
        ),
        init_std=0.018042,
        ignored=dict.fromkeys(("residual_dropout", "embedding_dropout"), _DROPOUT)
        | dict.fromkeys(
            ("attention_softmax_in_fp32", "scale_attention_softmax_in_fp32"),
            "the precision of attention scores, not their meaning",
        )
        | {
            "activation_function": "a field of StarCoder; this model type reads hidden_act",
            "layer_norm_epsilon": "a field of StarCoder; this model type reads norm_epsilon",
            "scale_attn_weights": "a field of StarCoder; scores are always scaled",
        },
    ),
    ModelTable(
        "mixtral",
        "MixtralForCausalLM",
        (
            LLAMA_FAMILY,
            *LENGTHS,
            HEAD_DIM,
            UNTIED,
            SILU,
            KV_HEADS,
            _rms(1e-5),
            NO_BIAS,
            Rotary(1000000.0),
            Window(),
            ExpertsInEveryLayer(),
            Same("num_local_experts", "moe.experts", spellings=("num_experts",)),
            TOP_K,
            _aux_loss(0.001),
            Only("router_jitter_noise", (0.0,), "the engine adds no noise to the router.", 0.0),
        ),
    ),
    ModelTable(
        "qwen3_moe",
        "Qwen3MoeForCausalLM",
        (
            *LLAMA_BASE,
            KV_HEADS,
            _rms(1e-6),
            NO_BIAS,
            Implied({"qk_norm": True}),
            Rotary(),
            SwitchedWindow(by_layer=False),
            Same("num_experts", "moe.experts", spellings=("num_local_experts",)),
            TOP_K,
            EXPERT_SIZE,
            Same("norm_topk_prob", "moe.normalize_top_k", bool, False),
            _aux_loss(0.001),
            SparseLayers(),
            # Three fields of published files that transformers does not read.
            Only("qkv_bias", (False,), "this model type has no biases.", False),
            Only("use_qk_norm", (True,), "this model type normalises queries and keys.", True),
            Only("shared_expert_intermediate_size", (0,), "this type has no shared expert.", 0),
        ),
    ),
    ModelTable(
        "glm4_moe",
        "Glm4MoeForCausalLM",
        (
            *LLAMA_BASE,
            KV_HEADS,
            _rms(1e-5),
            Same("attention_bias", "qkv_bias", bool, False),
            Same("use_qk_norm", "qk_norm", bool, False),
            Rotary(fraction=0.5),
            ROUTED_EXPERTS,
            SIGMOID,
            *ROUTED,
            SCALED,
            ExpertGroups(),
            Same("norm_topk_prob", "moe.normalize_top_k", bool, True),
            SequenceBalancing(),
            PREDICTION,
        ),
    ),
    ModelTable(
        "gpt_oss",
        "GptOssForCausalLM",
        (
            _family(
                Family.LLAMA,
                activation=Activation.CLAMPED_SWIGLU,
                linear_bias=True,
                attention_sinks=True,
            ),
            *LENGTHS,
            Same("head_dim", "head_dim", default=64),
            UNTIED,
            SILU,
            KV_HEADS,
            _rms(1e-5),
            Only("attention_bias", (True,), "this model type has biases in its experts.", True),
            Rotary(
                150000.0,
                usual={
                    "rope_type": "yarn",
                    "factor": 32.0,
                    "beta_fast": 32.0,
                    "beta_slow": 1.0,
                    "truncate": False,
                    "original_max_position_embeddings": 4096,
                },
            ),
            AlternatingWindow(),
            ExpertsInEveryLayer(),
            Same("num_local_experts", "moe.experts", spellings=("num_experts",)),
            TOP_K,
            Only("swiglu_limit", (7.0,), "the engine limits the inputs of SwiGLU to 7.", 7.0),
            Only("swiglu_alpha", (1.702,), "the engine scales the sigmoid by 1.702.", 1.702),
        ),
        ignored={
            "initial_context_length": "stated again in rope_scaling",
            "router_aux_loss_coef": "the default of an optional loss of transformers, which says "
            "nothing about pretraining",
        },
    ),
    ModelTable(
        "deepseek_v2",
        "DeepseekV2ForCausalLM",
        (
            LLAMA_FAMILY,
            *SIZES,
            UNTIED,
            SILU,
            _rms(1e-6),
            EVEN_HEADS,
            NO_BIAS,
            Only("mlp_bias", (False,), "latent attention is supported without biases.", False),
            Latent(),
            Rotary(),
            ROUTED_EXPERTS,
            *ROUTED,
            SCALED,
            ExpertGroups("greedy", "group_limited_greedy"),
            Only("scoring_func", ("softmax",), "this model type has softmax scores.", "softmax"),
            Only(
                "norm_topk_prob",
                (False,),
                "the transformers class does not normalise the weights of experts.",
                False,
            ),
            Implied({"moe.normalize_top_k": False}),
            SequenceBalancing(),
        ),
    ),
    ModelTable(
        "deepseek_v3",
        "DeepseekV3ForCausalLM",
        (
            LLAMA_FAMILY,
            *SIZES,
            UNTIED,
            SILU,
            _rms(1e-6),
            NO_BIAS,
            Latent(),
            Rotary(),
            ROUTED_EXPERTS,
            SIGMOID,
            *ROUTED,
            # Transformers defaults to the values of DeepSeek-V3, which other models do not have.
            Same("routed_scaling_factor", "moe.scaling_factor", float),
            ExpertGroups("noaux_tc", "noaux_tc", default=REQUIRED),
            Only("scoring_func", ("sigmoid",), "this model type has sigmoid scores.", "sigmoid"),
            Same("norm_topk_prob", "moe.normalize_top_k", bool, True),
            Only("rope_interleave", (True,), "the engine reads interleaved weights.", True),
            SequenceBalancing(),
            PREDICTION,
        ),
    ),
)

TABLES = {table.model_type: table for table in _TABLES}
"""The supported model types."""
READ_AS = {"kimi_k2": "deepseek_v3"}
"""Model types of remote code that is the same as a type of transformers."""
