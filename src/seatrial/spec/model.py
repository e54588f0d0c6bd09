# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A model's dimensions, complete: what a preset holds, and what a spec may write out."""

from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import ConfigDict, Field, ValidationInfo, field_validator, model_validator

from seatrial.codes.spec import SpecCode
from seatrial.spec.base import SpecModel, broken, require_one_of
from seatrial.spec.scalars import Flag, NonNegativeFloat, PositiveFloat

# Far above any model, and low enough for a loop over layers, heads or experts to end.
MOST_PARTS = 10_000
"""Layers, heads or experts of a model, at most."""
WIDEST = 10_000_000
"""Width of a matrix, at most."""
LONGEST = 1_000_000_000
"""Entries of a vocabulary, or positions of a sequence, at most."""

Parts = Annotated[int, Field(strict=True, gt=0, le=MOST_PARTS)]
Width = Annotated[int, Field(strict=True, gt=0, le=WIDEST)]
Entries = Annotated[int, Field(strict=True, gt=0, le=LONGEST)]


class Family(StrEnum):
    """A family gives a model its usual parts; each part can still be set on its own."""

    GPT = "gpt"
    """Learned positions, LayerNorm, GELU, biases, embeddings tied (GPT-2, GPT-3)."""
    LLAMA = "llama"
    """Rotary positions, RMSNorm, SwiGLU, no biases, embeddings apart (Llama, Mixtral, Qwen)."""
    MPT = "mpt"
    """As GPT, in LLM Foundry: what its MPT recipes train (released MPT-7B has ALiBi, no biases)."""


class Positions(StrEnum):
    """How a model knows where a token stands."""

    LEARNED = "learned"
    """A trained table of `max_positions` rows."""
    ROPE = "rope"
    """Rotary embedding of queries and keys; no parameters."""
    ALIBI = "alibi"
    """A bias on attention scores that grows with distance; no parameters."""


class Norm(StrEnum):
    """The normalisation of a layer's input."""

    LAYERNORM = "layernorm"
    """Mean and variance, with weight and bias."""
    LAYERNORM_NO_BIAS = "layernorm-no-bias"
    """Mean and variance, with weight only."""
    RMSNORM = "rmsnorm"
    """Root mean square, with weight only."""


class Activation(StrEnum):
    """The non-linearity of the feed-forward block."""

    GELU = "gelu"
    """One projection up, GELU, one down."""
    SWIGLU = "swiglu"
    """Two projections up, one gating the other through SiLU, one down."""


class MixtureOfExperts(SpecModel):
    """The experts that replace the feed-forward block of a layer."""

    experts: Parts
    """Routed experts per layer."""
    top_k: Parts
    """Experts that each token goes through."""
    expert_ffn_hidden_size: Width
    """Inner width of one routed expert."""
    shared_expert_ffn_hidden_size: Annotated[int, Field(strict=True, ge=0, le=WIDEST)] = 0
    """Inner width of the expert that every token goes through; 0 for none."""
    dense_layers: Annotated[int, Field(strict=True, ge=0, le=MOST_PARTS)] = 0
    """Leading layers that keep an ordinary feed-forward block; fewer than `layers`."""
    aux_loss_coefficient: NonNegativeFloat = 0.01
    """Weight of the loss that keeps the experts evenly used."""

    @field_validator("top_k")
    @classmethod
    def _not_above_experts(cls, top_k: int, info: ValidationInfo) -> int:
        experts = info.data.get("experts")
        if experts is not None and top_k > experts:
            raise broken(
                f"a token cannot go through {top_k} of {experts} experts.",
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
    """The value when it can be a size, else 0."""
    return value if isinstance(value, int) and 0 < value <= most else 0


class Architecture(SpecModel):
    """Every dimension that decides a model's parameters."""

    # The family and the sizes supply the rest, so an editor must not ask for it.
    model_config = ConfigDict(
        json_schema_extra={
            "required": ["family", "layers", "hidden_size", "heads", "vocab_size", "max_positions"]
        }
    )

    family: Family
    """What kind of model it is."""
    layers: Parts
    """Transformer layers."""
    hidden_size: Annotated[int, Field(strict=True, gt=0, le=WIDEST // 4)]
    """Width of the residual stream."""
    heads: Parts
    """Attention heads for queries."""
    kv_heads: Parts
    """Attention heads for keys and values, fewer for grouped-query attention; else `heads`."""
    head_dim: Width
    """Width of one attention head; `hidden_size / heads` when absent and a whole number."""
    ffn_hidden_size: Width
    """Inner width of the feed-forward block; four times `hidden_size` when absent."""
    vocab_size: Entries
    """Entries of the tokenizer, before padding."""
    max_positions: Entries
    """Longest sequence; the number of rows of the table when positions are learned."""
    positions: Positions
    """How the model knows where a token stands; the family's own when absent."""
    rope_theta: PositiveFloat = 10000.0
    """Base of the rotary frequencies; no effect without rotary positions."""
    norm: Norm
    """Normalisation of each block's input; the family's own when absent."""
    qk_norm: Flag = False
    """Whether queries and keys are normalised per head."""
    activation: Activation
    """Non-linearity of the feed-forward block; the family's own when absent."""
    linear_bias: Flag
    """Whether linear layers have biases; as in the family when absent."""
    qkv_bias: Flag = False
    """Whether the query, key and value projections have biases although the others have none."""
    tied_embeddings: Flag
    """Whether the output projection is the input embedding; as in the family when absent."""
    moe: MixtureOfExperts | None = None
    """The experts; absent in a dense model."""

    @model_validator(mode="before")
    @classmethod
    def _fill_from_family(cls, given: Any) -> Any:
        """Let the family, and the sizes that are given, supply what is left out."""
        if not isinstance(given, dict):
            return given
        # Where the family or a size is itself absent or wrong, the model is refused for that
        # alone: what would follow from it is filled with anything, so as not to be missed too.
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
                f"{heads} heads cannot share {kv_heads} heads for keys and values evenly.",
                f"Use a divisor of {heads}, such as {divisors}.",
            )
        return kv_heads

    @field_validator("head_dim", mode="before")
    @classmethod
    def _follows_from_heads(cls, head_dim: Any, info: ValidationInfo) -> Any:
        hidden, heads = info.data.get("hidden_size"), info.data.get("heads")
        if head_dim == 0 and hidden and heads and hidden % heads:
            shared = info.data.get("kv_heads") or 1
            # Without a number of its own for keys and values, it follows the heads.
            shared = 1 if shared == heads else shared
            fitting = (n for n in range(shared, MOST_PARTS + 1, shared) if hidden % n == 0)
            near = sorted(fitting, key=lambda n: (abs(n - heads), -n))[:2]
            raise broken(
                f"hidden_size {hidden} is not a multiple of {heads} heads: a head has no whole "
                "width.",
                f"Use {' or '.join(map(str, near))}; or add head_dim, the width of one head.",
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
                f"no layer is left for the experts: all {layers} are dense.",
                f"Use at most {layers - 1}, or remove moe.",
                inside=("dense_layers",),
            )
        return moe

    @property
    def is_moe(self) -> bool:
        """Whether the model is a mixture of experts."""
        return self.moe is not None

    def replace(self, **changes: Any) -> Self:
        """A copy with some dimensions changed, validated again."""
        return type(self).model_validate(self.model_dump() | changes)


class ModelSpec(SpecModel):
    """What is trained: exactly one of a preset and dimensions."""

    preset: str | None = None
    """Name of a model in the catalog; see `seatrial catalog list models`."""
    dimensions: Architecture | None = Field(default=None, validate_default=True)
    """The model's own dimensions; start from `seatrial catalog show models NAME`."""

    @field_validator("dimensions")
    @classmethod
    def _exactly_one(cls, dimensions: object, info: ValidationInfo) -> object:
        require_one_of(info.data, dimensions, "preset", "dimensions")
        return dimensions
