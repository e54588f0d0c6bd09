# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Parts of a table that differ by layer: windows, experts, layers without rotary positions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from seatrial.huggingface.fields import ConfigFields
from seatrial.huggingface.parts import Found
from seatrial.spec.model import Architecture

FULL, SLIDING = "full_attention", "sliding_attention"


def period(marked: Sequence[bool]) -> int | None:
    """Return n if every n-th of the layers is marked and no other, otherwise None."""
    first = marked.index(True) + 1 if True in marked else len(marked) + 1
    same = [(layer + 1) % first == 0 for layer in range(len(marked))]
    return first if list(marked) == same else None


def layer_types(model: Architecture) -> list[str]:
    """Return the attention of each layer by its name in transformers."""
    window = model.window
    if window is None:
        return [FULL] * model.layers
    every = window.full_every or model.layers + 1
    return [SLIDING if (layer + 1) % every else FULL for layer in range(model.layers)]


def read_pattern(fields: ConfigFields, found: Found, types: list[Any], tokens: int | None) -> None:
    """Read the window from the attention of each layer."""
    name = "layer_types"
    if len(types) != found["layers"]:
        fields.refuse(name, f"it has {len(types)} entries for {found['layers']} layers.", types)
    strange = sorted({str(each) for each in types} - {FULL, SLIDING})
    if strange:
        rule = f"the engine supports {FULL} and {SLIDING}."
        fields.refuse(name, rule, ", ".join(strange))
    if SLIDING not in types:
        return
    if tokens is None:
        fields.refuse(name, "layers have a sliding window, but sliding_window is not set.", types)
    every = period([each == FULL for each in types])
    if every is None:
        rule = "the engine supports full attention in every n-th layer, not this order of layers."
        fields.refuse(name, rule, ", ".join(types))
    found["window"] = {"tokens": tokens, "full_every": every if FULL in types else None}


def _missing_window(fields: ConfigFields, usual: int | None) -> int | None:
    """Return the usual window if the field is missing; `null` means no window."""
    return None if fields.has("sliding_window") else usual


@dataclass(frozen=True, slots=True)
class Window:
    """A window in all layers, set by `sliding_window` alone (Mistral)."""

    missing: int | None = None
    """The window that transformers uses if the field is missing."""

    def read(self, fields: ConfigFields, found: Found) -> None:
        """Read the window, also one of `max_position_embeddings`: a run may train longer ones."""
        tokens = fields.typed("sliding_window", int, _missing_window(fields, self.missing))
        if tokens is not None:
            found["window"] = {"tokens": tokens}

    def write(self, model: Architecture) -> dict[str, Any]:
        """Write the window."""
        return {"sliding_window": None if model.window is None else model.window.tokens}


@dataclass(frozen=True, slots=True)
class SwitchedWindow:
    """A window that `use_sliding_window` turns on (Qwen)."""

    by_layer: bool = True
    """True if `max_window_layers` and `layer_types` say which layers have the window."""

    def read(self, fields: ConfigFields, found: Found) -> None:
        """Ignore the window if it is turned off."""
        tokens = fields.typed("sliding_window", int, _missing_window(fields, 4096))
        last_full = fields.size("max_window_layers", 28) if self.by_layer else 0
        types = fields.typed("layer_types", list, None) if self.by_layer else None
        if not self.by_layer:
            # Transformers has the field in the files of this type and does not read it.
            fields.take("max_window_layers", None)
        if not fields.flag("use_sliding_window", False):
            tokens = None
        if types is None:
            first = found["layers"] if tokens is None else last_full
            with_window = range(first, found["layers"])
            types = [SLIDING if i in with_window else FULL for i in range(found["layers"])]
        read_pattern(fields, found, types, tokens)

    def write(self, model: Architecture) -> dict[str, Any]:
        """Write the attention of each layer, if the class reads it."""
        window = model.window
        config = {
            "use_sliding_window": window is not None,
            "sliding_window": None if window is None else window.tokens,
        }
        if not self.by_layer:
            return config
        layers = model.layers if window is None else 0
        return config | {"max_window_layers": layers, "layer_types": layer_types(model)}


@dataclass(frozen=True, slots=True)
class AlternatingWindow:
    """A window in every other layer, unless `layer_types` says otherwise (gpt-oss)."""

    def read(self, fields: ConfigFields, found: Found) -> None:
        """Read `layer_types`."""
        usual = [SLIDING if layer % 2 == 0 else FULL for layer in range(found["layers"])]
        types = fields.typed("layer_types", list, usual)
        tokens = fields.typed("sliding_window", int, _missing_window(fields, 128))
        read_pattern(fields, found, types, tokens)

    def write(self, model: Architecture) -> dict[str, Any]:
        """Write `layer_types`."""
        tokens = 128 if model.window is None else model.window.tokens
        return {"sliding_window": tokens, "layer_types": layer_types(model)}


@dataclass(frozen=True, slots=True)
class LayersWithoutRope:
    """Layers without rotary positions (SmolLM3)."""

    def read(self, fields: ConfigFields, found: Found) -> None:
        """Read `no_rope_layers`, in which 1 means rotary positions."""
        every, layers = fields.size("no_rope_layer_interval", 4), found["layers"]
        if every < 1:
            fields.reject("no_rope_layer_interval", "at least 1", every)
        usual = [int((layer + 1) % every != 0) for layer in range(layers)]
        given = fields.typed("no_rope_layers", list, usual)
        interval = period([not each for each in given])
        if interval is None or len(given) != layers:
            rule = "the engine supports every n-th layer without rotary positions, not this list."
            fields.refuse("no_rope_layers", rule, given)
        if interval <= layers:
            found["no_rope_every"] = interval

    def write(self, model: Architecture) -> dict[str, Any]:
        """Write the list and its interval."""
        every = model.no_rope_every or model.layers + 1
        given = [int((layer + 1) % every != 0) for layer in range(model.layers)]
        return {"no_rope_layers": given, "no_rope_layer_interval": every}


@dataclass(frozen=True, slots=True)
class SparseLayers:
    """The layers with experts, by `decoder_sparse_step` and `mlp_only_layers` (Qwen)."""

    def read(self, fields: ConfigFields, found: Found) -> None:
        """Find the leading dense layers and the interval."""
        step = fields.size("decoder_sparse_step", 1)
        dense = fields.typed("mlp_only_layers", list, None) or []
        layers = range(found["layers"])
        experts = [layer not in dense and (layer + 1) % max(step, 1) == 0 for layer in layers]
        if True not in experts:
            fields.refuse("decoder_sparse_step", "no layer has experts.", step)
        first = experts.index(True)
        for interval in range(1, first + 2):
            leading = first - interval + 1
            same = [i >= leading and (i - leading + 1) % interval == 0 for i in layers]
            if experts == same:
                found |= {"moe.dense_layers": leading, "moe.layer_interval": interval}
                return
        rule = "the engine supports dense layers first and then every n-th layer with experts."
        fields.refuse("mlp_only_layers", rule, dense)

    def write(self, model: Architecture) -> dict[str, Any]:
        """Write the dense layers by number."""
        moe = model.moe
        dense = [] if moe is None else [i for i in range(model.layers) if not moe.has_experts(i)]
        return {"decoder_sparse_step": 1, "mlp_only_layers": dense}
