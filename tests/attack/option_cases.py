# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Every option of the engine with the values to try: one case is one option in one run."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.engine.agreement.healthy import Spec

NUMBERS = (0, 1, -1)
NO_CHOICE = "no-such-choice"
WORD = "word"


def _base(name: str, moe: Spec | None) -> Spec:
    dimensions: Spec = {
        "family": "llama",
        "layers": 8,
        "hidden_size": 2048,
        "heads": 16,
        "kv_heads": 8,
        "head_dim": 128,
        "ffn_hidden_size": 4096,
        "vocab_size": 32_000,
        "max_positions": 4096,
    }
    return {
        "apiVersion": "seatrial.dev/v1alpha1",
        "name": name,
        "model": {"dimensions": dimensions | ({"moe": moe} if moe else {})},
        "data": {"mock": True},
        "training": {
            "steps": 1000,
            "sequence_length": 2048,
            "micro_batch_size": 1,
            "global_batch_size": 64,
            "precision": "bf16",
        },
        "parallelism": {
            "tp_size": 2,
            "pp_size": 2,
            "vp_size": 1,
            "cp_size": 1,
            "ep_size": 2 if moe else 1,
            "sequence_parallel": True,
            "sharding": "optimizer",
            "recompute": "none",
        },
        "cluster": {"profile": "aks", "node_type": "Standard_ND96isr_H100_v5", "nodes": 2},
        "checkpoints": {"every_steps": 100},
    }


BASES: dict[str, Spec] = {
    "dense": _base("dense", None),
    "moe": _base("moe", {"experts": 8, "top_k": 2, "expert_ffn_hidden_size": 1024}),
}
"""The runs in which every option is tried."""


@dataclass(frozen=True, slots=True)
class Case:
    """One value of an option in one of the bases."""

    base: str
    option: str
    value: Any
    spec: Spec = field(repr=False, hash=False, compare=False)

    def __str__(self) -> str:
        """The case in one line."""
        return f"{self.base} {self.option}={self.value!r}"


def values_of(option: Mapping[str, Any]) -> Iterator[Any]:
    """The values to try: all of few, the edges of numbers, and one that is of no use."""
    takes, kind, default = option["takes"], option["kind"], option["default"]
    if takes in ("switch", "toggle"):
        yield from (True, False)
        return
    words = [*option["choices"], NO_CHOICE] if option["choices"] else []
    if kind in ("int", "float") and not words:
        words = [*NUMBERS, WORD]
    elif kind == "int":
        words = [int(word) if word != NO_CHOICE else word for word in words]
    elif not words:
        words = [WORD] if kind == "str" else [WORD, *NUMBERS]
    if default not in (None, []) and not isinstance(default, bool):
        words = [default, *words]
    seen: list[Any] = []
    for word in words:
        if word not in seen:
            seen.append(word)
            yield [word] if takes == "list" and not isinstance(word, list) else word


def cases(options: Mapping[str, Mapping[str, Any]], bases: Iterable[str] = BASES) -> list[Case]:
    """Every value of every option in every base."""
    return [
        Case(base, name, value, BASES[base] | {"engine": {"options": {name: value}}})
        for name in sorted(options)
        for value in values_of(options[name])
        for base in bases
    ]
