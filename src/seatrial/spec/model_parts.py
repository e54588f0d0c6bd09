# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The parts of a model that have dimensions of their own: experts, latent attention, windows."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, ValidationInfo, field_validator

from seatrial.spec.base import SpecModel, added_later, broken
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


class RouterScore(StrEnum):
    """The function that turns the router's logits into scores."""

    SOFTMAX = "softmax"
    """Softmax over the experts."""
    SIGMOID = "sigmoid"
    """Sigmoid of each logit (DeepSeek-V3, Kimi-K2, GLM-4.5)."""


class Balancing(StrEnum):
    """The load-balancing loss of the router."""

    BATCH = "batch"
    """Auxiliary loss over the tokens of a micro-batch."""
    SEQUENCE = "sequence"
    """Auxiliary loss over the tokens of each sequence."""
    NONE = "none"
    """No auxiliary loss; with `expert_bias`, the bias alone balances the experts."""


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
    layer_interval: Parts = added_later(1)
    """Every how many layers after `dense_layers` have experts; the others are dense."""
    score: RouterScore = added_later(RouterScore.SOFTMAX)
    """Function that turns the router's logits into scores."""
    normalize_top_k: Flag = added_later(True)
    """True if the weights of a token's experts are scaled to a sum of 1 (only with several)."""
    scaling_factor: PositiveFloat = added_later(1.0)
    """Factor on the weights of a token's experts."""
    groups: Parts | None = added_later()
    """Number of groups of experts; a token is routed within the best `groups_per_token`."""
    groups_per_token: Parts | None = added_later()
    """Number of groups that a token's experts come from; required with `groups`."""
    balancing: Balancing = added_later(Balancing.BATCH)
    """Load-balancing loss of the router."""
    expert_bias: Flag = added_later(False)
    """True to balance experts by a bias on their scores, updated after each step."""
    bias_update_rate: PositiveFloat = added_later(0.001)
    """Change of an expert's bias per step; used only with `expert_bias`."""

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

    @field_validator("groups")
    @classmethod
    def _divides_experts(cls, groups: int | None, info: ValidationInfo) -> int | None:
        experts = info.data.get("experts")
        if groups is not None and experts is not None and experts % groups:
            raise broken(
                f"{experts} experts are not divisible by {groups} groups.",
                f"Use a divisor of {experts}.",
            )
        return groups

    @field_validator("groups_per_token")
    @classmethod
    def _holds_top_k(cls, chosen: int | None, info: ValidationInfo) -> int | None:
        groups, experts, top_k = (info.data.get(n) for n in ("groups", "experts", "top_k"))
        if "groups" not in info.data or (groups is None) == (chosen is None):
            if not groups or not chosen or not experts or not top_k:
                return chosen
            if chosen > groups or chosen * (experts // groups) < top_k:
                raise broken(
                    f"{chosen} of {groups} groups do not hold the {top_k} experts of a token.",
                    f"Use {-(-top_k // (experts // groups))} to {groups}.",
                )
            return chosen
        raise broken("groups and groups_per_token must be set together.", "Set both, or neither.")

    @field_validator("expert_bias")
    @classmethod
    def _needs_sigmoid(cls, expert_bias: bool, info: ValidationInfo) -> bool:
        if expert_bias and info.data.get("score") is RouterScore.SOFTMAX:
            raise broken(
                "expert_bias requires sigmoid scores.", "Set score: sigmoid, or remove expert_bias."
            )
        return expert_bias

    def has_experts(self, layer: int) -> bool:
        """True if the layer with this index, counted from 0, has experts."""
        after = layer - self.dense_layers
        return after >= 0 and after % self.layer_interval == self.layer_interval - 1


class LatentAttention(SpecModel):
    """Multi-latent attention (MLA): keys and values share one compressed vector per token."""

    kv_rank: Width
    """Size of the compressed vector from which keys and values are computed."""
    q_rank: Width | None = None
    """Size of the compressed vector from which queries are computed; not set for none."""
    qk_head_dim: Width
    """Size of a head's query and key without the rotary part."""
    rope_head_dim: Width
    """Size of the rotary part of a head's query; all heads share one rotary key."""
    value_head_dim: Width
    """Size of a head's value."""


class RopeScalingKind(StrEnum):
    """How rotary frequencies are changed for longer sequences."""

    LINEAR = "linear"
    """All positions divided by the factor."""
    YARN = "yarn"
    """Low frequencies divided by the factor, high ones kept, with a ramp between them (YaRN)."""
    LLAMA3 = "llama3"
    """As Llama 3.1: low frequencies divided by the factor, with a smooth transition."""


class RopeScaling(SpecModel):
    """A change of the rotary frequencies for sequences longer than those of the first training."""

    kind: RopeScalingKind
    """How frequencies are changed."""
    factor: PositiveFloat
    """By how much the length grows."""
    original_positions: Entries = 8192
    """Length of the sequences in the first training; used by `yarn` and `llama3`."""
    low_frequency_factor: PositiveFloat = added_later(1.0)
    """Lower limit of the transition; used only by `llama3`."""
    high_frequency_factor: PositiveFloat = added_later(4.0)
    """Upper limit of the transition; used only by `llama3`."""
    beta_fast: PositiveFloat = added_later(32.0)
    """Rotations above which a frequency is kept; used only by `yarn`."""
    beta_slow: PositiveFloat = added_later(1.0)
    """Rotations below which a frequency is divided; used only by `yarn`."""
    mscale: NonNegativeFloat = added_later(1.0)
    """Growth of attention scores with the factor; used only by `yarn`."""
    mscale_all_dim: NonNegativeFloat = added_later(0.0)
    """The same for the parts of a head without rotary positions; used only by `yarn`."""
    rounded: Flag = added_later(True)
    """True if the ramp between kept and divided frequencies begins and ends at whole numbers."""


class AttentionWindow(SpecModel):
    """Sliding-window attention: a token attends to the last `tokens` tokens, itself included."""

    tokens: Entries
    """Tokens in the window, with the current token."""
    full_every: Parts | None = None
    """Every how many layers attention is full; not set if every layer has the window."""
