# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Problems for the search, from specs as users write them."""

from seatrial.catalog.catalog import Catalog
from seatrial.planning.resolve import resolve_basis
from seatrial.planning.search.problem import SearchProblem, problem_of
from seatrial.spec.loader import LoadedSpec, loads

OPEN = """\
apiVersion: seatrial.dev/v1alpha1
name: open
model: {preset: gpt3-7.5b}
data: {mock: true}
training: {tokens: 150B}
cluster: {profile: eks, node_type: p4d.24xlarge, nodes: 2}
"""
"""A spec that leaves everything to the planner."""

SMALL_MOE = (
    "model={dimensions: {family: llama, layers: 12, hidden_size: 2048, heads: 16, kv_heads: 4, "
    "vocab_size: 32000, max_positions: 4096, ffn_hidden_size: 5632, "
    "moe: {experts: 8, top_k: 2, expert_ffn_hidden_size: 5632}}}"
)
ODD_LAYERS = (
    "model={dimensions: {family: llama, layers: 15, hidden_size: 4096, heads: 32, "
    "vocab_size: 128000, max_positions: 4096, ffn_hidden_size: 11008}}"
)


def opened(*overrides: str) -> LoadedSpec:
    """The open spec with overrides."""
    return loads(OPEN, "run.yaml", overrides)


def asked(catalog: Catalog, *overrides: str) -> SearchProblem:
    """The problem of the open spec with overrides."""
    loaded = opened(*overrides)
    return problem_of(resolve_basis(loaded, catalog))
