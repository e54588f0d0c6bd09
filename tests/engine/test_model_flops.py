# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The operations of a model in our plan, and as the engine counts them for its own log."""

import json
import subprocess

import pytest

from seatrial.engine_process.process import worker_python
from seatrial.planning.attention import attended_share, core_width
from seatrial.planning.layout import Layout
from seatrial.planning.stages import stages_of
from seatrial.planning.timing.quantities import quantities
from seatrial.spec.model import Architecture
from tests.conftest import MEGATRON
from tests.unit.planning.architectures import FAMILIES
from tests.unit.planning.timing.workloads import EXPERTS, GPT3, workload

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]

MODELS = FAMILIES | {"gpt3": GPT3, "mixtral": EXPERTS}
LENGTH, BATCH, VOCAB = 4096, 64, 202_752
COUNT = """
import json, sys
from types import SimpleNamespace
from megatron.training.training import num_floating_point_operations
given = json.load(sys.stdin)
found = {
    name: num_floating_point_operations(SimpleNamespace(**own), own["batch"])
    for name, own in given.items()
}
print(json.dumps(found))
"""
NORMS = 2e-5
"""The engine counts the norms of latent attention and of multi-token prediction; a plan does not.
Neither counts routers, activations and other norms."""


def engine_words(model: Architecture) -> dict[str, object]:
    """The arguments of the engine from which it counts operations."""
    moe, latent = model.moe, model.latent_attention
    pattern = [int(moe is not None and moe.has_experts(n)) for n in range(model.layers)]
    return {
        "batch": BATCH,
        "seq_length": LENGTH,
        "hidden_size": model.hidden_size,
        "num_layers": model.layers,
        "num_attention_heads": model.heads,
        "num_query_groups": model.kv_heads,
        "group_query_attention": model.kv_heads != model.heads,
        "kv_channels": model.head_dim,
        "ffn_hidden_size": model.ffn_hidden_size,
        "padded_vocab_size": VOCAB,
        "swiglu": model.activation.gated,
        "num_experts": moe.experts if moe else None,
        "moe_layer_freq": pattern,
        "moe_router_topk": moe.top_k if moe else None,
        "moe_ffn_hidden_size": moe.expert_ffn_hidden_size if moe else None,
        "moe_shared_expert_intermediate_size": moe.shared_expert_ffn_hidden_size if moe else None,
        "moe_latent_size": None,
        "mtp_num_layers": model.mtp_layers or None,
        "multi_latent_attention": latent is not None,
        "q_lora_rank": latent.q_rank if latent else None,
        "kv_lora_rank": latent.kv_rank if latent else None,
        "qk_head_dim": latent.qk_head_dim if latent else None,
        "qk_pos_emb_head_dim": latent.rope_head_dim if latent else None,
        "v_head_dim": latent.value_head_dim if latent else None,
        "attention_output_gate": False,
        "experimental_attention_variant": None,
        "hybrid_layer_pattern": None,
    }


@pytest.fixture(scope="module")
def engine_counts() -> dict[str, float]:
    given = {name: engine_words(model) for name, model in MODELS.items()}
    run = subprocess.run(
        [worker_python(MEGATRON), "-W", "ignore", "-c", COUNT],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, float] = json.loads(run.stdout.splitlines()[-1])
    return found


def planned(model: Architecture, layout: Layout) -> float:
    """The operations of a step in a plan, with one or two stages."""
    sizes = [model.layers] if layout.pp_size == 1 else [model.layers - 5, 5]
    load = workload(
        layout,
        model,
        sequence_length=LENGTH,
        padded_vocab_size=VOCAB,
        micro_batches=BATCH // layout.dp_size,
        stages=stages_of(sizes, 1),
    )
    return quantities(load).model_flops


@pytest.mark.parametrize("name", sorted(MODELS))
@pytest.mark.parametrize("layout", [Layout(), Layout(2, 1, 4, 2)], ids=["one rank", "many"])
def test_a_plan_counts_the_operations_that_the_engine_counts(
    engine_counts: dict[str, float], name: str, layout: Layout
) -> None:
    model = MODELS[name]
    # The engine counts attention as if every token saw all tokens before it.
    pairs = BATCH * LENGTH * LENGTH * model.heads * core_width(model) * model.layers
    outside = 6 * pairs * (1 - attended_share(model, LENGTH))
    assert (outside > 0) == (model.window is not None)
    ours = planned(model, layout) + outside
    assert ours == pytest.approx(engine_counts[name], rel=NORMS)
