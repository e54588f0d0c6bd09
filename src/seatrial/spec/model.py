# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The complete dimensions of a model, from a preset or from a spec."""

import re
from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from seatrial.codes.spec import SpecCode
from seatrial.spec.base import SpecModel, added_later, broken, require_one_of
from seatrial.spec.model_parts import (
    MOST_PARTS,
    WIDEST,
    AttentionWindow,
    Entries,
    LatentAttention,
    MixtureOfExperts,
    Parts,
    RopeScaling,
    Width,
)
from seatrial.spec.scalars import Flag, NonNegativeFloat, PositiveFloat
from seatrial.spec.secrets import shown


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
    CLAMPED_SWIGLU = "clamped-swiglu"
    """SwiGLU of gpt-oss: inputs limited to 7, sigmoid scaled by 1.702, 1 added to the other."""
    SQUARED_RELU = "squared-relu"
    """Up projection, square of ReLU, down projection (Nemotron-4)."""

    @property
    def gated(self) -> bool:
        """True if there are two up projections."""
        return self in (Activation.SWIGLU, Activation.CLAMPED_SWIGLU)


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
        # Specs and presets both contain it; built once, they share its schema.
        defer_build=False,
        json_schema_extra={
            "required": ["family", "layers", "hidden_size", "heads", "vocab_size", "max_positions"]
        },
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
    norm_epsilon: PositiveFloat = added_later(1e-5)
    """Constant that a norm adds to the variance."""
    norm_centered_at_one: Flag = added_later(False)
    """True if norms store their weight minus 1 (Nemotron-4)."""
    rope_scaling: RopeScaling | None = added_later()
    """Change of the rotary frequencies for longer sequences."""
    rotary_fraction: Annotated[float, Field(gt=0, le=1)] = added_later(1.0)
    """Share of each head that is rotated."""
    no_rope_every: Parts | None = added_later()
    """Every how many layers attention has no rotary positions; not set for none."""
    window: AttentionWindow | None = added_later()
    """Sliding-window attention."""
    attention_sinks: Flag = added_later(False)
    """True if each head has a learned logit that takes attention from all tokens (gpt-oss)."""
    latent_attention: LatentAttention | None = added_later()
    """Multi-latent attention (DeepSeek, Kimi-K2) instead of `kv_heads` and `head_dim`."""
    mtp_layers: Annotated[int, Field(strict=True, ge=0, le=MOST_PARTS)] = added_later(0)
    """Layers for multi-token prediction, each of which predicts one token further ahead."""
    mtp_loss_coefficient: NonNegativeFloat = added_later(0.1)
    """Weight of the loss of multi-token prediction."""

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
        elif isinstance(latent := filled.get("latent_attention"), dict):
            parts = (_size(latent.get(part), WIDEST) for part in ("qk_head_dim", "rope_head_dim"))
            filled.setdefault("head_dim", sum(parts) or 1)
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

    @field_validator("rotary_fraction", "no_rope_every", "rope_scaling")
    @classmethod
    def _needs_rotary_positions[T](cls, value: T, info: ValidationInfo) -> T:
        positions = info.data.get("positions")
        default = cls.model_fields[info.field_name or ""].default
        if value != default and positions not in (None, Positions.ROPE):
            raise broken(
                f"it changes rotary positions, but positions is {positions}.",
                "Remove it, or set positions: rope.",
            )
        return value

    @field_validator("latent_attention")
    @classmethod
    def _fits_latent_attention(
        cls, latent: LatentAttention | None, info: ValidationInfo
    ) -> LatentAttention | None:
        if latent is None:
            return None
        # The latent vectors have their own norms; keys and values of all heads are computed.
        unfit = {
            "kv_heads": info.data.get("kv_heads") != info.data.get("heads"),
            "qk_norm": info.data.get("qk_norm"),
            "qkv_bias": info.data.get("qkv_bias"),
            "linear_bias": info.data.get("linear_bias"),
            "rotary_fraction": info.data.get("rotary_fraction") != 1,
            "positions": info.data.get("positions") is not Positions.ROPE,
        }
        for name in (name for name, wrong in unfit.items() if wrong and name in info.data):
            raise broken(
                f"latent attention does not support {name}: {info.data[name]}.",
                f"Remove {name}, or remove latent_attention.",
            )
        return latent

    @property
    def is_moe(self) -> bool:
        """True if the model is a mixture of experts."""
        return self.moe is not None

    def replace(self, **changes: Any) -> Self:
        """Return a validated copy with some dimensions changed."""
        return type(self).model_validate(self.model_dump() | changes)


_COMMIT = re.compile(r"[0-9a-f]{40}")
_HUB_NAME = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*(@\S+)?")


def hub_address(address: str) -> tuple[str, str]:
    """Split an address into its name on the Hub and the commit; the commit is empty for a path."""
    name, _, revision = address.partition("@")
    if _HUB_NAME.fullmatch(address) and _COMMIT.fullmatch(revision):
        return name, revision
    return address, ""


def _published(address: object) -> object:
    """Check the address of a config.json: a name on the Hub with a commit, or a path."""
    if not isinstance(address, str):
        return address
    address = address.removeprefix("hf://")
    if hub_address(address)[1] or not _HUB_NAME.fullmatch(address) or address.endswith(".json"):
        return address
    name = address.partition("@")[0]
    raise broken(
        f"{shown(address)} has no commit: a branch or a tag can change, and a run must stay the "
        "same.",
        f"Write {name}@COMMIT with the 40 digits of the commit; seatrial init --model {name}@main "
        f"looks it up. For a directory, write ./{name}.",
    )


PublishedAddress = Annotated[str, Field(min_length=1), BeforeValidator(_published)]
"""The address of a published config.json."""


class ModelSpec(SpecModel):
    """The model to train: a preset, a model by its published config.json, or dimensions."""

    preset: str | None = None
    """Model preset from the catalog; see `seatrial catalog list models`."""
    huggingface: PublishedAddress | None = added_later()
    """Model by its config.json: `OWNER/NAME@COMMIT`, or a path from the working directory."""
    dimensions: Architecture | None = Field(default=None, validate_default=True)
    """Custom dimensions; start from `seatrial catalog show models NAME`."""

    @field_validator("dimensions")
    @classmethod
    def _exactly_one(cls, dimensions: object, info: ValidationInfo) -> object:
        require_one_of(info.data, dimensions, "preset", "huggingface", "dimensions")
        return dimensions

    @property
    def field(self) -> str:
        """The field of a spec that names the model, for messages."""
        chosen = "preset" if self.preset else "huggingface" if self.huggingface else "dimensions"
        return f"model.{chosen}"
