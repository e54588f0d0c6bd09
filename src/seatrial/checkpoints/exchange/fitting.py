# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Whether weights are those of the model that a run trains; pure.

Some differences would not stop the engine: another epsilon or base of rotation has no tensor, and
rows of the vocabulary are cut off or filled up without a word. The run would begin with a model
that is slightly wrong.
"""

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from seatrial.checkpoints.exchange.codes import ExchangeCode
from seatrial.checkpoints.exchange.model import HubClass, HubModel
from seatrial.findings import Finding, Severity, Where

_FREE = frozenset({"init_std", "aux_loss_coefficient"})
"""What decides how training goes on, and not what the weights mean."""
_OF_ENGINE = {"norm_epsilon": "norm-epsilon"}
"""Fields that a spec has no other name for than the engine's own option."""
_OF_EXPERTS = {"experts": "experts", "top_k": "top_k"}


def misfits(weights: HubModel, run: HubModel, where: str, padded: int) -> list[Finding]:
    """Every difference between weights and the run's own model.

    Args:
        weights: The model of the weights.
        run: The model of the run.
        where: Where the weights come from.
        padded: Rows of the run's embedding, padding included.
    """
    return [_finding(where, *differing) for differing in _differing(weights, run, padded)]


def _differing(weights: HubModel, run: HubModel, padded: int) -> Iterator[tuple[str, Any, Any]]:
    for field in fields(HubModel):
        name = field.name
        one, other = getattr(weights, name), getattr(run, name)
        if one == other or name in _FREE:
            continue
        if name == "vocab_size":
            # More rows than the weights have are the run's to train; fewer would lose tokens.
            if padded < one:
                yield name, one, other
        elif name in ("max_positions", "rope_theta", "rope_scaling"):
            # A table of positions has a length; rotation has a base, and no longest sequence.
            if (name == "max_positions") == (weights.kind is HubClass.GPT2):
                yield name, one, other
        else:
            yield name, one, other


def _finding(where: str, name: str, weights: Any, run: Any) -> Finding:
    # GELU with tanh or without is the engine's choice by device, and differs by a thousandth.
    severity = Severity.WARNING if name == "activation" else Severity.ERROR
    rule = f"the weights have {name.replace('_', ' ')} {weights}, and the run has {run}."
    fix = f"Use {_override(name, weights)}, or weights of the run's own model."
    return Finding(ExchangeCode.OTHER_MODEL, severity, Where(file=where), rule, str(run), fix)


def _override(name: str, value: Any) -> str:
    """What a spec would have to say for such weights."""
    if name == "kind":
        return f"a model that is a {value}"
    if name == "activation":
        switch = "true" if value == "gelu" else "false"
        return f"engine.options.no-bias-gelu-fusion={switch}"
    if name == "rope_scaling":
        given = f"use-rope-scaling=true and engine.options.rope-scaling-factor={value}"
        return f"engine.options.{given}" if value else "no engine.options.use-rope-scaling"
    if name in _OF_ENGINE:
        return f"engine.options.{_OF_ENGINE[name]}={value}"
    shown = str(value).lower() if isinstance(value, bool) else value
    if name in _OF_EXPERTS:
        return f"model.dimensions.moe.{_OF_EXPERTS[name]}={shown}"
    spec_name = {"biases": "linear_bias"}.get(name, name)
    return f"model.dimensions.{spec_name}={shown}"
