# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The complete dimensions of a model, from a preset or from a spec."""

from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import ConfigDict, Field, ValidationInfo, field_validator, model_validator

from seatrial.codes.spec import SpecCode
from seatrial.spec.base import SpecModel, broken, require_one_of
from seatrial.spec.scalars import Flag, NonNegativeFloat, PositiveFloat

# Far larger than any model, but small enough for loops over layers, heads or experts.
MOST_PARTS = 10_000
"""Maximum number of layers, heads or experts in a model."""
WIDEST = 10_000_000
"""Maximum width of a matrix."""
LONGEST = 1_000_000_000
"""Maximum number of vocabulary entries, or of positions in a sequence."""

Parts = Annotated[int, Field(strict=True, gt=0, le=MOST_PARTS)]
Width = Annotated[int, Field(strict=True, gt=0, le=WIDEST)]
Entries = Annotated[int, Field(strict=True, gt=0, le=LONGEST)]


class Family(StrEnum):
    """A model family, which sets the defaults of other dimensions; you can override each."""

    GPT = "gpt"
    """Learned positions, LayerNorm, GELU, biases, tied embeddings (GPT-2, GPT-3)."""
    LLAMA = "llama"
    """Rotary positions, RMSNorm, SwiGLU, no biases, untied embeddings (Llama, Mixtral, Qwen)."""
    MPT = "mpt"
    """Same as GPT, as in LLM Foundry's MPT recipes (released MPT-7B has ALiBi and no biases)."""


class Positions(StrEnum):
    """Position encoding."""

    LEARNED = "learned"
    """Learned table with `max_positions` rows."""
    ROPE = "rope"
    """Rotary embedding (RoPE) of queries and keys, without parameters."""
    ALIBI = "alibi"
    """Bias on attention scores that grows with distance, without parameters."""


class Norm(StrEnum):
    """Normalisation of a block's input."""

    LAYERNORM = "layernorm"
    """LayerNorm with weight and bias."""
    LAYERNORM_NO_BIAS = "layernorm-no-bias"
    """LayerNorm with weight only."""
    RMSNORM = "rmsnorm"
    """RMSNorm with weight only."""


class Activation(StrEnum):
    """Activation function of the feed-forward block."""

    GELU = "gelu"
    """Up projection, GELU, down projection."""
    SWIGLU = "swiglu"
    """Two up projections, one gating the other through SiLU, and a down projection."""


class MixtureOfExperts(SpecModel):
    """The experts that replace the feed-forward block of a layer."""

    experts: Parts
    """Routed experts per layer."""
    top_k: Parts
    """Routed experts per token."""
    expert_ffn_hidden_size: Width
    """Hidden size of one routed expert."""
    shared_expert_ffn_hidden_size: Annotated[int, Field(strict=True, ge=0, le=WIDEST)] = 0
    """Hidden size of the shared expert, which processes every token; 0 for none."""
    dense_layers: Annotated[int, Field(strict=True, ge=0, le=MOST_PARTS)] = 0
    """Number of leading layers with a dense feed-forward block; less than `layers`."""
    aux_loss_coefficient: NonNegativeFloat = 0.01
    """Weight of the load-balancing loss."""

    @field_validator("top_k")
    @classmethod
    def _not_above_experts(cls, top_k: int, info: ValidationInfo) -> int:
        experts = info.data.get("experts")
        if experts is not None and top_k > experts:
            raise broken(
                f"a token cannot be routed to {top_k} of {experts} experts.",
                f"Use at most {experts}.",
            )
        return top_k


_FAMILY_PARTS: dict[Family, dict[str, Any]] = {
    Family.GPT: {
        "positions": Positions.LEARNED,
        "norm": Norm.LAYERNORM,
        "activation": Activation.GELU,
        "linear_bias": True,
        "tied_embeddings": True,
    },
    Family.LLAMA: {
        "positions": Positions.ROPE,
        "norm": Norm.RMSNORM,
        "activation": Activation.SWIGLU,
        "linear_bias": False,
        "tied_embeddings": False,
    },
    Family.MPT: {
        "positions": Positions.LEARNED,
        "norm": Norm.LAYERNORM,
        "activation": Activation.GELU,
        "linear_bias": True,
        "tied_embeddings": True,
    },
}


def _size(value: Any, most: int) -> int:
    """Return the value if it is a valid size, otherwise 0."""
    return value if isinstance(value, int) and 0 < value <= most else 0


class Architecture(SpecModel):
    """All dimensions that determine a model's parameters."""

    # The other fields default from the family and the sizes, so an editor must not require them.
    model_config = ConfigDict(
        json_schema_extra={
            "required": ["family", "layers", "hidden_size", "heads", "vocab_size", "max_positions"]
        }
    )

    family: Family
    """Model family."""
    layers: Parts
    """Number of transformer layers."""
    hidden_size: Annotated[int, Field(strict=True, gt=0, le=WIDEST // 4)]
    """Size of the residual stream."""
    heads: Parts
    """Number of attention heads for queries."""
    kv_heads: Parts
    """Number of key/value heads, fewer for grouped-query attention; defaults to `heads`."""
    head_dim: Width
    """Size of one attention head; defaults to `hidden_size / heads` if that is an integer."""
    ffn_hidden_size: Width
    """Hidden size of the feed-forward block; defaults to four times `hidden_size`."""
    vocab_size: Entries
    """Vocabulary size of the tokenizer, before padding."""
    max_positions: Entries
    """Maximum sequence length; with learned positions, the number of rows in the table."""
    positions: Positions
    """Position encoding; defaults to the family's."""
    rope_theta: PositiveFloat = 10000.0
    """Base of the rotary frequencies; used only with rotary positions."""
    norm: Norm
    """Normalisation of each block's input; defaults to the family's."""
    qk_norm: Flag = False
    """True to normalise queries and keys per head."""
    activation: Activation
    """Activation function of the feed-forward block; defaults to the family's."""
    linear_bias: Flag
    """True if linear layers have biases; defaults to the family's."""
    qkv_bias: Flag = False
    """True if query, key and value projections have biases even without `linear_bias`."""
    tied_embeddings: Flag
    """True if the output projection shares the input embedding; defaults to the family's."""
    moe: MixtureOfExperts | None = None
    """Mixture of experts; not set for a dense model."""

    @model_validator(mode="before")
    @classmethod
    def _fill_from_family(cls, given: Any) -> Any:
        """Fill in missing fields from the family and the sizes that are set."""
        if not isinstance(given, dict):
            return given
        # If the family or a size is missing or wrong, report only that error: the fields that
        # depend on it get placeholder values, so that they are not reported as missing too.
        family = given.get("family")
        known = isinstance(family, str) and family in list(Family)
        filled = _FAMILY_PARTS[Family(str(family)) if known else Family.GPT] | given
        hidden = _size(filled.get("hidden_size"), WIDEST // 4)
        heads = _size(filled.get("heads"), MOST_PARTS)
        filled.setdefault("kv_heads", heads or 1)
        filled.setdefault("ffn_hidden_size", 4 * hidden or 1)
        if not hidden or not heads:
            filled.setdefault("head_dim", 1)
        else:
            filled.setdefault("head_dim", 0 if hidden % heads else hidden // heads)
        return filled

    @field_validator("kv_heads")
    @classmethod
    def _shares_heads_evenly(cls, kv_heads: int, info: ValidationInfo) -> int:
        heads = info.data.get("heads")
        if heads is not None and heads % kv_heads:
            divisors = ", ".join(str(n) for n in range(1, heads + 1) if heads % n == 0)
            raise broken(
                f"{heads} heads are not divisible by {kv_heads} key/value heads.",
                f"Use a divisor of {heads}, such as {divisors}.",
            )
        return kv_heads

    @field_validator("head_dim", mode="before")
    @classmethod
    def _follows_from_heads(cls, head_dim: Any, info: ValidationInfo) -> Any:
        hidden, heads = info.data.get("hidden_size"), info.data.get("heads")
        if head_dim == 0 and hidden and heads and hidden % heads:
            shared = info.data.get("kv_heads") or 1
            # If kv_heads is not set, it equals heads and does not constrain them.
            shared = 1 if shared == heads else shared
            fitting = (n for n in range(shared, MOST_PARTS + 1, shared) if hidden % n == 0)
            near = sorted(fitting, key=lambda n: (abs(n - heads), -n))[:2]
            raise broken(
                f"hidden_size {hidden} is not divisible by {heads} heads.",
                f"Use {' or '.join(map(str, near))}; or add head_dim, the size of one head.",
                SpecCode.MISSING,
                instead="heads",
            )
        return head_dim

    @field_validator("moe")
    @classmethod
    def _some_layer_has_experts(
        cls, moe: MixtureOfExperts | None, info: ValidationInfo
    ) -> MixtureOfExperts | None:
        layers = info.data.get("layers")
        if moe is not None and layers is not None and moe.dense_layers >= layers:
            raise broken(
                f"no layer is left for experts: all {layers} layers are dense.",
                f"Use at most {layers - 1}, or remove moe.",
                inside=("dense_layers",),
            )
        return moe

    @property
    def is_moe(self) -> bool:
        """True if the model is a mixture of experts."""
        return self.moe is not None

    def replace(self, **changes: Any) -> Self:
        """Return a validated copy with some dimensions changed."""
        return type(self).model_validate(self.model_dump() | changes)


class ModelSpec(SpecModel):
    """The model to train: either a preset or dimensions."""

    preset: str | None = None
    """Model preset from the catalog; see `seatrial catalog list models`."""
    dimensions: Architecture | None = Field(default=None, validate_default=True)
    """Custom dimensions; start from `seatrial catalog show models NAME`."""

    @field_validator("dimensions")
    @classmethod
    def _exactly_one(cls, dimensions: object, info: ValidationInfo) -> object:
        require_one_of(info.data, dimensions, "preset", "dimensions")
        return dimensions
