# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Check what LLM Foundry does not support in a plan."""

from collections.abc import Iterator

from seatrial.codes.engines import EngineCode
from seatrial.engines.engine import Problem
from seatrial.engines.llm_foundry.data_settings import source_place
from seatrial.engines.llm_foundry.options import MODELLED
from seatrial.engines.llm_foundry.settings import PRECISIONS, SCHEDULERS, engine_settings
from seatrial.planning.plan import Plan
from seatrial.spec.model import Activation, Family, Norm, Positions
from seatrial.spec.parallelism import Recompute, Sharding

STREAMED = ("s3://", "gs://", "hf://")
"""Addresses that the streaming library reads (streaming/base/storage/download.py of 0.12.0).

It supports Azure as azure:// and azure-dl://, only with an account and a key in the environment."""
LLAMAS = {
    "norm": Norm.RMSNORM,
    "activation": Activation.SWIGLU,
    "linear_bias": False,
    "positions": Positions.ROPE,
}
"""Properties of all models of the family, independent of the repository."""
TOKENIZER_FILES = (".json", ".model", ".tiktoken")


def plan_problems(plan: Plan) -> list[Problem]:
    """Return every reason why LLM Foundry cannot run a plan."""
    found = [*_model(plan), *_beginning(plan), *_layout(plan), *_training(plan), *_data(plan)]
    # An unsupported plan has no settings to check.
    return found or [*_texts(plan)]


def _unsupported(field: str, rule: str, fix: str) -> Problem:
    return Problem(EngineCode.UNSUPPORTED, field, rule, fix)


def _model(plan: Plan) -> Iterator[Problem]:
    model = plan.model.architecture
    field = "model.preset" if plan.spec.model.preset else "model.dimensions"
    if model.family is Family.GPT:
        where = field if plan.spec.model.preset else f"{field}.family"
        rule = "LLM Foundry supports models of the MPT family, and Llama through hf_causal_lm."
        yield _unsupported(where, rule, "Use a preset such as mpt-7b, or engine.name=megatron.")
    if model.family is Family.LLAMA and not plan.model.tokenizer.startswith("hf://"):
        rule = "hf_causal_lm takes the model's code and configuration from the Hub, from the "
        rule += "tokenizer's repository."
        yield _unsupported("data.tokenizer", rule, "Use hf://NAME of the model's repository.")
    if model.moe is not None:
        rule = "a mixture of experts needs MegaBlocks in LLM Foundry, which is not installed."
        yield _unsupported(field, rule, "Use engine.name=megatron.")
    if model.family is Family.LLAMA:
        yield from _not_llamas(plan)
    if model.family is not Family.MPT:
        return
    if model.qkv_bias and not model.linear_bias:
        rule = "MPT has biases in all linear layers, or in none."
        fix = "Use false, or linear_bias true, or engine.name=megatron."
        yield _unsupported("model.dimensions.qkv_bias", rule, fix)
    if model.qk_norm:
        rule = "MPT normalises queries and keys over all heads, not per head."
        yield _unsupported("model.dimensions.qk_norm", rule, "Use false, or engine.name=megatron.")
    if model.heads * model.head_dim != model.hidden_size:
        rule = "LLM Foundry's MPT requires head_dim = hidden_size / heads."
        yield _unsupported("model.dimensions.head_dim", rule, "Remove head_dim.")
    if (
        model.norm is Norm.LAYERNORM_NO_BIAS
    ) == model.linear_bias and model.norm is not Norm.RMSNORM:
        rule = "MPT has biases in both linear layers and norms, or in neither."
        fix = "Use norm layernorm with linear_bias true, or layernorm-no-bias with false."
        yield _unsupported("model.dimensions.norm", rule, fix)


def _not_llamas(plan: Plan) -> Iterator[Problem]:
    """Reject settings that hf_causal_lm takes from the repository's own code with other values.

    A preset matches its repository. Biases and norms of queries and keys differ between these
    models; the number of parameters shows them: `check --engine`.
    """
    if plan.spec.training.hidden_dropout:
        rule = "the models of hf_causal_lm support only attention dropout."
        fix = "Use 0, or engine.name=megatron."
        yield _unsupported("training.hidden_dropout", rule, fix)
    model = plan.model.architecture
    for name, own in LLAMAS.items() if plan.spec.model.preset is None else ():
        if getattr(model, name) != own:
            rule = "hf_causal_lm takes this from the repository's own code and ignores the value."
            fix = f"Use {str(own).lower()}, or engine.name=megatron."
            yield _unsupported(f"model.dimensions.{name}", rule, fix)


def _beginning(plan: Plan) -> Iterator[Problem]:
    weights = plan.spec.initial_weights
    if weights is not None and weights.huggingface is not None:
        rule = (
            "LLM Foundry cannot start from Hugging Face weights: it would start from random ones."
        )
        fix = "Use initial_weights.checkpoint with a Composer checkpoint, or engine.name="
        yield _unsupported("initial_weights.huggingface", rule, f"{fix}megatron.")
    if weights is not None and weights.checkpoint is not None and "://" in weights.checkpoint:
        rule = "Seatrial verifies a checkpoint before LLM Foundry loads it, but not in an object "
        fix = "Copy it first (seatrial checkpoints copy), and use its path."
        yield _unsupported("initial_weights.checkpoint", f"{rule}store.", fix)
    if plan.spec.continue_from is not None:
        rule = "an LLM Foundry run cannot take another run's optimizer state and step: it would "
        fix = "Use initial_weights.checkpoint for the parent's weights, or engine.name=megatron."
        yield _unsupported("continue_from", f"{rule}start at step 0 with random weights.", fix)


def _layout(plan: Plan) -> Iterator[Problem]:
    for axis in ("tp", "pp", "cp"):
        if getattr(plan.layout, f"{axis}_size") > 1:
            rule = f"LLM Foundry has no {axis}: it shards only over the data-parallel ranks."
            yield _unsupported(f"parallelism.{axis}_size", rule, f"Use {axis}_size 1.")
    if plan.sharding is Sharding.OPTIMIZER:
        rule = "LLM Foundry supports full sharding (fsdp) or no sharding."
        yield _unsupported("parallelism.sharding", rule, "Use fsdp or none.")
    unused = [name for name in plan.spec.engine.options if name.startswith("fsdp_config.")]
    if unused and plan.sharding is Sharding.NONE and plan.recompute is Recompute.NONE:
        rule = "without sharding there is no FSDP, and any FSDP setting would turn it on."
        fix = "Remove it, or use parallelism.sharding=fsdp."
        yield _unsupported(f"engine.options.{unused[0]}", rule, fix)
    if plan.recompute is Recompute.SELECTIVE:
        rule = "LLM Foundry recomputes whole layers, or none."
        yield _unsupported("parallelism.recompute", rule, "Use full or none.")


def _training(plan: Plan) -> Iterator[Problem]:
    training = plan.spec.training
    if training.precision not in PRECISIONS:
        rule = f"LLM Foundry supports {training.precision} only with Transformer Engine's "
        rule += "layers, which are not installed."
        yield _unsupported("training.precision", rule, "Use bf16.")
    style = training.learning_rate.style
    if style not in SCHEDULERS:
        rule = f"LLM Foundry has no {style} schedule."
        fix = f"Use one of: {', '.join(SCHEDULERS)}."
        yield _unsupported("training.learning_rate.style", rule, fix)
    if plan.spec.checkpoints.asynchronous:
        rule = "Composer blocks training while it saves checkpoints."
        yield _unsupported("checkpoints.asynchronous", rule, "Use false.")
    if training.deterministic:
        rule = "LLM Foundry has no setting for deterministic kernels."
        yield _unsupported("training.deterministic", rule, "Use false.")


def _texts(plan: Plan) -> Iterator[Problem]:
    """Reject texts that LLM Foundry would change: it resolves settings twice, so escapes fail."""
    for name, value in engine_settings(plan).items():
        if "${" in str(value):
            field = MODELLED.get(name, f"engine.options.{name}")
            rule = f"{name} contains ${{, and LLM Foundry replaces ${{...}} with another setting."
            yield _unsupported(field, rule, "Write the value itself.")


def _data(plan: Plan) -> Iterator[Problem]:
    sources = plan.spec.data.sources or ()
    for number, source in enumerate(sources):
        if len(sources) > 1 and source.prepared is None and source.name is None:
            rule = "each source becomes a separate stream, in a directory named after it."
            yield _unsupported(f"data.sources[{number}]", rule, "Add name.")
        place = source_place(plan, source)
        if "://" in place and not place.startswith(STREAMED):
            field = (
                "data.location" if source.prepared is None else f"data.sources[{number}].prepared"
            )
            rule = f"the streaming library does not read {place}."
            fix = f"Use a path on the volume, or {' or '.join(STREAMED[:2])}."
            yield _unsupported(field, rule, fix)
    if not plan.spec.data.mock:
        yield from _tokenizer(plan.model.tokenizer)


def _tokenizer(given: str) -> Iterator[Problem]:
    """Check the tokenizer: Hugging Face's loader accepts a name on the Hub, or a directory."""
    if not given:
        rule = "LLM Foundry always loads a tokenizer, even if the data is already tokens."
        fix = "Use hf://NAME, or the path of its tokenizer.json."
        yield _unsupported("data.tokenizer", rule, fix)
    elif given.endswith(TOKENIZER_FILES) and given.rpartition("/")[2] != "tokenizer.json":
        rule = f"LLM Foundry uses Hugging Face's tokenizer loader, which does not support {given}."
        fix = "Use a tokenizer.json, with a tokenizer_config.json next to it, or hf://NAME."
        yield _unsupported("data.tokenizer", rule, fix)
