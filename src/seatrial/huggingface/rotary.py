# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Rotary positions in a config.json, in the spelling of transformers 4 and of transformers 5.

Version 4 has `rope_theta`, `rope_scaling` and `partial_rotary_factor`; version 5 has them in one
object, `rope_parameters`, and translates the old names. The old names are written: both versions
read them.
"""

from dataclasses import dataclass
from typing import Any

from seatrial.huggingface.fields import ConfigFields
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
    "dynamic": "the engine has no rotary scaling that depends on the length of each sequence.",
    "longrope": "the engine has no rotary scaling with a factor per frequency.",
    "su": "the engine has no rotary scaling with a factor per frequency.",
    "mrope": "the engine has no positions in images.",
}
_TYPE = ("rope_type", "type")
_BESIDE = ("rope_theta", "partial_rotary_factor")
_SECTIONS = ("rope_scaling", "rope_parameters")
_DTYPES = {"original_max_position_embeddings": int, "truncate": bool}
"""The settings that are not numbers with a fraction."""


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
        """Read either spelling; refuse spellings that disagree."""
        sections = {name: fields.typed(name, dict, None) or {} for name in _SECTIONS}
        for name, each in sections.items():
            if any(isinstance(value, dict) for value in each.values()):
                rule = "the engine has the same rotary positions in all layers."
                fields.refuse(name, rule, each)
        old, new = (_scaling_settings(each) for each in sections.values())
        if all(sections.values()) and old != new:
            rule = "rope_scaling and rope_parameters disagree."
            fields.refuse("rope_scaling", rule, sections["rope_scaling"])
        name = "rope_scaling" if sections["rope_scaling"] else "rope_parameters"
        given: dict[str, Any] = sections[name] or self.usual or {}
        theta = _stated(fields, sections, "rope_theta")
        found["positions"] = Positions.ROPE
        found["rope_theta"] = self.theta if theta is None else theta
        if not found["rope_theta"].is_integer():
            fields.refuse("rope_theta", "the engine supports only an integer rope_theta.", theta)
        self._read_fraction(fields, found, _stated(fields, sections, "partial_rotary_factor"))
        scaling = self._scaling(fields, name, given)
        if scaling is not None:
            found["rope_scaling"] = scaling

    def _read_fraction(self, fields: ConfigFields, found: Found, stated: float | None) -> None:
        name = "partial_rotary_factor"
        fraction = (self.fraction or 1.0) if stated is None else stated
        if not 0 < fraction <= 1:
            fields.reject(name, "more than 0 and at most 1", fraction)
        if self.fraction is None and fraction != 1:
            fields.refuse(name, "this model type rotates whole heads.", fraction)
        found["rotary_fraction"] = fraction

    def _scaling(
        self, fields: ConfigFields, name: str, given: dict[str, Any]
    ) -> dict[str, Any] | None:
        kinds = [str(given[key]) for key in _TYPE if given.get(key) is not None]
        kind = kinds[0] if kinds else "default"
        if kinds[1:] not in ([], [kind]):
            fields.refuse(name, "rope_type and type disagree.", given)
        if kind not in (*self.scalings, "default"):
            rule = f"the engine supports the rotary scalings {', '.join(RopeScalingKind)}."
            if kind in tuple(RopeScalingKind):
                rule = "the transformers class does not support this rotary scaling."
            fields.refuse(name, _REFUSED.get(kind, rule), kind)
        used = () if kind == "default" else ("factor", *_USED[RopeScalingKind(kind)])
        # Also an attention factor, for which a spec has no dimension.
        known = (*used, *_TYPE, *_BESIDE)
        unknown = [n for n, value in given.items() if n not in known and value is not None]
        if unknown:
            rule = f"scaling {kind} has settings that are not supported: {', '.join(unknown)}."
            fields.refuse(name, rule, given)
        if kind == "default":
            return None
        values = {
            n: fields.convert(f"{name}.{n}", given[n], _DTYPES.get(n, float))
            for n in used
            if given.get(n) is not None
        }
        if "factor" not in values:
            fields.refuse(name, f"scaling {kind} needs a factor.", given)
        if kind == RopeScalingKind.YARN:
            _check_mscale(fields, name, values)
        scaling = {_PARAMETERS[n]: value for n, value in values.items() if n != "factor"}
        if len(used) > 1:
            scaling.setdefault("original_positions", fields.size("max_position_embeddings"))
        return {"kind": kind, "factor": values["factor"], **scaling}

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


def _scaling_settings(section: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a scaling, with one name for its type and without nulls."""
    kind = next((section[name] for name in _TYPE if section.get(name) is not None), "default")
    beside = (*_TYPE, *_BESIDE)
    rest = {n: value for n, value in section.items() if n not in beside and value is not None}
    return {"rope_type": kind, **rest}


def _stated(fields: ConfigFields, sections: dict[str, dict[str, Any]], name: str) -> float | None:
    """Return a number that may stand in a section or next to it; refuse numbers that disagree."""
    stated = {name: fields.typed(name, float, None)}
    for section, given in sections.items():
        if given.get(name) is not None:
            place = f"{section}.{name}"
            stated[place] = fields.convert(place, given[name], float)
    stated = {place: value for place, value in stated.items() if value is not None}
    if len(set(stated.values())) > 1:
        rule = f"{' and '.join(stated)} disagree."
        fields.refuse(name, rule, ", ".join(str(value) for value in stated.values()))
    return next(iter(stated.values()), None)


def _check_mscale(fields: ConfigFields, name: str, values: dict[str, Any]) -> None:
    """Remove the two if transformers ignores both; refuse if it ignores one that matters.

    Unless both are set and not 0, transformers uses the equivalent of 1 and 0.
    """
    mscale, all_dim = values.get("mscale"), values.get("mscale_all_dim")
    if mscale and all_dim:
        return
    if all_dim or mscale not in (None, 0, 1):
        rule = "transformers ignores mscale and mscale_all_dim unless both are set and not 0."
        fields.refuse(name, rule, f"mscale {mscale}, mscale_all_dim {all_dim}")
    values.pop("mscale", None)
    values.pop("mscale_all_dim", None)
