# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Parts of a table for experts and latent attention, as DeepSeek's configurations have them."""

from dataclasses import dataclass
from typing import Any

from seatrial.huggingface.fields import ConfigFields
from seatrial.huggingface.parts import Found, Same
from seatrial.spec.model import Architecture
from seatrial.spec.model_parts import Balancing


@dataclass(frozen=True, slots=True)
class ExpertsInEveryLayer:
    """Experts whose size is `intermediate_size` (Mixtral, gpt-oss)."""

    def read(self, fields: ConfigFields, found: Found) -> None:
        """Use the size for experts; no layer is dense."""
        size = fields.size("intermediate_size")
        found |= {"moe.expert_ffn_hidden_size": size, "ffn_hidden_size": size}

    def write(self, model: Architecture) -> dict[str, Any]:
        """Write the size of an expert."""
        moe = model.moe
        size = model.ffn_hidden_size if moe is None else moe.expert_ffn_hidden_size
        return {"intermediate_size": size}


@dataclass(frozen=True, slots=True)
class SharedExperts:
    """Shared experts, given as a number of routed experts' sizes."""

    def read(self, fields: ConfigFields, found: Found) -> None:
        """Multiply."""
        shared = fields.size("n_shared_experts")
        found["moe.shared_expert_ffn_hidden_size"] = shared * found["moe.expert_ffn_hidden_size"]

    def write(self, model: Architecture) -> dict[str, Any]:
        """Divide; what is left over shows when the fields are read back."""
        moe = model.moe
        if moe is None:
            return {"n_shared_experts": 0}
        shared = moe.shared_expert_ffn_hidden_size // moe.expert_ffn_hidden_size
        return {"n_shared_experts": shared}


@dataclass(frozen=True, slots=True)
class ExpertGroups:
    """Groups of experts, and the method that selects a token's experts; one group is none."""

    ungrouped: str = ""
    """The method without groups; empty if the type has no field for it."""
    grouped: str = ""
    """The method with groups."""
    default: Any = 1
    """The number of groups, and of groups per token, if a config.json does not state them."""

    def read(self, fields: ConfigFields, found: Found) -> None:
        """Read the groups, unless the method does not use them."""
        groups = fields.size("n_group", self.default)
        chosen = fields.size("topk_group", self.default)
        method = fields.take("topk_method", self.ungrouped)
        if method not in (self.ungrouped, self.grouped):
            rule = "the engine does not select the experts of a token this way."
            fields.refuse("topk_method", rule, method)
        if groups > 1 and method == self.grouped:
            found |= {"moe.groups": groups, "moe.groups_per_token": chosen}

    def write(self, model: Architecture) -> dict[str, Any]:
        """Write the groups, and the method if the type has it."""
        moe = model.moe
        groups = None if moe is None else moe.groups
        chosen = None if moe is None else moe.groups_per_token
        config: dict[str, Any] = {"n_group": groups or 1, "topk_group": chosen or 1}
        if self.grouped:
            config["topk_method"] = self.grouped if groups else self.ungrouped
        return config


@dataclass(frozen=True, slots=True)
class SequenceBalancing:
    """The auxiliary loss of a router that a bias balances: per sequence, or none."""

    def read(self, fields: ConfigFields, found: Found) -> None:
        """Read the coefficient. Transformers does not know these fields."""
        weight = fields.typed("aux_loss_alpha", float, None)
        by_sequence = fields.flag("seq_aux", True)
        if weight:
            kind = Balancing.SEQUENCE if by_sequence else Balancing.BATCH
            found |= {"moe.balancing": kind, "moe.aux_loss_coefficient": weight}
        elif found.get("moe.expert_bias"):
            found["moe.balancing"] = Balancing.NONE

    def write(self, model: Architecture) -> dict[str, Any]:
        """Write the coefficient, if there is one."""
        moe = model.moe
        if moe is None or moe.balancing is Balancing.NONE:
            return {}
        sequence = moe.balancing is Balancing.SEQUENCE
        return {"aux_loss_alpha": moe.aux_loss_coefficient, "seq_aux": sequence}


@dataclass(frozen=True, slots=True)
class Latent:
    """Multi-latent attention."""

    def read(self, fields: ConfigFields, found: Found) -> None:
        """Read the ranks and the sizes of a head's parts."""
        for part in _LATENT:
            part.read(fields, found)
        if not fields.has("q_lora_rank"):
            # Missing and null differ: transformers uses 1536 if it is missing.
            fields.take("q_lora_rank")
        rank = fields.typed("q_lora_rank", int, None)
        found["latent_attention.q_rank"] = rank
        kv_heads = fields.size("num_key_value_heads", found["heads"])
        if kv_heads != found["heads"]:
            rule = f"latent attention has as many key/value heads as heads, {found['heads']}."
            fields.refuse("num_key_value_heads", rule, kv_heads)
        # Derived by transformers from the parts.
        for name in ("head_dim", "qk_head_dim"):
            fields.take(name, None)

    def write(self, model: Architecture) -> dict[str, Any]:
        """Write the ranks and sizes; a model without latent attention has none to write."""
        latent = model.latent_attention
        rank = None if latent is None else latent.q_rank
        config: dict[str, Any] = {"q_lora_rank": rank, "num_key_value_heads": model.kv_heads}
        for part in _LATENT:
            config |= part.write(model)
        return config


_LATENT = (
    Same("kv_lora_rank", "latent_attention.kv_rank"),
    Same("qk_nope_head_dim", "latent_attention.qk_head_dim"),
    Same("qk_rope_head_dim", "latent_attention.rope_head_dim"),
    Same("v_head_dim", "latent_attention.value_head_dim"),
)
