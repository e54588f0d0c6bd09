# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Rotary positions in a config.json, in the spelling of transformers 4 and of transformers 5.

Version 4 has `rope_theta`, `rope_scaling` and `partial_rotary_factor`; version 5 has them in one
object, `rope_parameters`, and translates the old names. The old names are written: both versions
read them.
"""

from dataclasses import dataclass
from typing import Any

from seatrial.huggingface.fields import LOCAL_COPY, ConfigFields
from seatrial.huggingface.parts import Found
from seatrial.spec.model import Architecture, Positions
from seatrial.spec.model_parts import RopeScalingKind

_PARAMETERS = {
    "original_max_position_embeddings": "original_positions",
    "low_freq_factor": "low_frequency_factor",
    "high_freq_factor": "high_frequency_factor",
    "beta_fast": "beta_fast",
    "beta_slow": "beta_slow",
    "mscale": "mscale",
    "mscale_all_dim": "mscale_all_dim",
    "truncate": "rounded",
}
_USED = {
    RopeScalingKind.LINEAR: (),
    RopeScalingKind.LLAMA3: (
        "original_max_position_embeddings",
        "low_freq_factor",
        "high_freq_factor",
    ),
    RopeScalingKind.YARN: (
        "original_max_position_embeddings",
        "beta_fast",
        "beta_slow",
        "mscale",
        "mscale_all_dim",
        "truncate",
    ),
}
_REFUSED = {
    "dynamic": "it depends on the length of each sequence, and the engine does not support it",
    "longrope": "it has a factor per frequency, and the engine does not support it",
    "su": "it has a factor per frequency, and the engine does not support it",
    "mrope": "it encodes positions in images",
    "proportional": "the engine does not support it",
}
_BESIDE = {"rope_type", "type", "factor", "rope_theta", "partial_rotary_factor"}


@dataclass(frozen=True, slots=True)
class Rotary:
    """The rotary settings of a model type."""

    theta: float = 10000.0
    """The base that transformers uses if a config.json does not state one."""
    fraction: float | None = None
    """The usual share of a head that is rotated; None if the class rotates whole heads only."""
    scalings: tuple[RopeScalingKind, ...] = tuple(RopeScalingKind)
    """The scalings that the class supports."""
    usual: dict[str, Any] | None = None
    """The scaling that transformers uses if a config.json does not state one."""

    def read(self, fields: ConfigFields, found: Found) -> None:
        """Read either spelling."""
        old, new = (fields.typed(n, dict, None) for n in ("rope_scaling", "rope_parameters"))
        name = "rope_scaling" if old else "rope_parameters"
        given: dict[str, Any] = old or new or self.usual or {}
        if any(isinstance(value, dict) for value in given.values()):
            fields.refuse(name, "the engine has the same rotary positions in all layers.", given)
        theta = fields.typed("rope_theta", float, None)
        found["positions"] = Positions.ROPE
        found["rope_theta"] = float(given.get("rope_theta") or theta or self.theta)
        if found["rope_theta"] != int(found["rope_theta"]):
            fields.refuse("rope_theta", "the engine supports only an integer rope_theta.", theta)
        self._read_fraction(fields, found, given)
        kind = str(given.get("rope_type") or given.get("type") or "default")
        if kind != "default":
            found["rope_scaling"] = self._scaling(fields, name, kind, given)

    def _read_fraction(self, fields: ConfigFields, found: Found, given: dict[str, Any]) -> None:
        name = "partial_rotary_factor"
        said = fields.typed(name, float, None)
        fraction = given.get(name) or said or self.fraction or 1.0
        if self.fraction is None and fraction != 1:
            fields.refuse(name, "this model type rotates whole heads.", fraction)
        found["rotary_fraction"] = float(fraction)

    def _scaling(
        self, fields: ConfigFields, name: str, kind: str, given: dict[str, Any]
    ) -> dict[str, Any]:
        if kind not in self.scalings:
            why = _REFUSED.get(kind, "the transformers class does not support it")
            fields.refuse(name, f"rotary scaling {kind} is refused: {why}.", kind, LOCAL_COPY)
        used = _USED[RopeScalingKind(kind)]
        # An attention factor that equals the one that transformers computes changes nothing.
        unknown = [n for n, v in given.items() if n not in (*used, *_BESIDE) and v is not None]
        if unknown:
            rule = f"scaling {kind} has settings that are not supported: {', '.join(unknown)}."
            fields.refuse(name, rule, given)
        if not isinstance(given.get("factor"), (int, float)):
            fields.refuse(name, f"scaling {kind} needs a factor.", given)
        scaling = {_PARAMETERS[n]: given[n] for n in used if given.get(n) is not None}
        if used:
            scaling.setdefault("original_positions", fields.size("max_position_embeddings"))
        if kind == RopeScalingKind.YARN and ("mscale" in scaling) != ("mscale_all_dim" in scaling):
            rule = "transformers ignores mscale and mscale_all_dim unless both are set."
            fields.refuse(name, rule, given)
        return {"kind": kind, "factor": float(given["factor"]), **scaling}

    def write(self, model: Architecture) -> dict[str, Any]:
        """Write the spelling of transformers 4."""
        config: dict[str, Any] = {"rope_theta": model.rope_theta, "rope_scaling": None}
        if self.fraction is not None:
            config["partial_rotary_factor"] = model.rotary_fraction
        scaling = model.rope_scaling
        if scaling is None:
            return config
        values = {n: getattr(scaling, _PARAMETERS[n]) for n in _USED[scaling.kind]}
        if not scaling.mscale_all_dim and scaling.mscale == 1:
            # The defaults; transformers reads the two only together.
            values = {n: v for n, v in values.items() if not n.startswith("mscale")}
        config["rope_scaling"] = {
            "rope_type": str(scaling.kind),
            "factor": scaling.factor,
            **values,
        }
        return config
