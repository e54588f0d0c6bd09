# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What LLM Foundry cannot do of a plan."""

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
"""What of our addresses the streaming library reads (streaming/base/storage/download.py of 0.12.0).

It reaches Azure as azure:// and azure-dl://, by an account and a key in the environment alone."""
LLAMAS = {
    "norm": Norm.RMSNORM,
    "activation": Activation.SWIGLU,
    "linear_bias": False,
    "positions": Positions.ROPE,
}
"""What all models of the family have, whichever repository they come from."""
TOKENIZER_FILES = (".json", ".model", ".tiktoken")


def plan_problems(plan: Plan) -> list[Problem]:
    """Every reason why LLM Foundry cannot run a plan."""
    found = [*_model(plan), *_beginning(plan), *_layout(plan), *_training(plan), *_data(plan)]
    # What cannot be run has no settings to look at.
    return found or [*_texts(plan)]


def _unsupported(field: str, rule: str, fix: str) -> Problem:
    return Problem(EngineCode.UNSUPPORTED, field, rule, fix)


def _model(plan: Plan) -> Iterator[Problem]:
    model = plan.model.architecture
    field = "model.preset" if plan.spec.model.preset else "model.dimensions"
    if model.family is Family.GPT:
        where = field if plan.spec.model.preset else f"{field}.family"
        rule = "LLM Foundry trains models of the MPT family, and Llama's through hf_causal_lm."
        yield _unsupported(where, rule, "Use a preset such as mpt-7b, or engine.name=megatron.")
    if model.family is Family.LLAMA and not plan.model.tokenizer.startswith("hf://"):
        rule = "hf_causal_lm takes the model's code and configuration from the Hub, by the name "
        rule += "of the tokenizer's repository."
        yield _unsupported("data.tokenizer", rule, "Write hf://NAME of the model's repository.")
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
        rule = "LLM Foundry's MPT has heads of hidden_size / heads."
        yield _unsupported("model.dimensions.head_dim", rule, "Remove head_dim.")
    if (
        model.norm is Norm.LAYERNORM_NO_BIAS
    ) == model.linear_bias and model.norm is not Norm.RMSNORM:
        rule = "MPT has biases in linear layers and norms alike, or in neither."
        fix = "Use norm layernorm with linear_bias true, or layernorm-no-bias with false."
        yield _unsupported("model.dimensions.norm", rule, fix)


def _not_llamas(plan: Plan) -> Iterator[Problem]:
    """What hf_causal_lm leaves to the repository's own code, where that has it otherwise.

    A preset is what its repository is. What some of these models have and others have not, biases
    and norms of queries and keys, is seen by the number of parameters: `check --engine`.
    """
    if plan.spec.training.hidden_dropout:
        rule = "the models of hf_causal_lm have no dropout but that of attention."
        fix = "Use 0, or engine.name=megatron."
        yield _unsupported("training.hidden_dropout", rule, fix)
    model = plan.model.architecture
    for name, own in LLAMAS.items() if plan.spec.model.preset is None else ():
        if getattr(model, name) != own:
            rule = "hf_causal_lm takes this from the repository's own code, and would not hear of "
            fix = f"Use {str(own).lower()}, or engine.name=megatron."
            yield _unsupported(f"model.dimensions.{name}", f"{rule}it.", fix)


def _beginning(plan: Plan) -> Iterator[Problem]:
    weights = plan.spec.initial_weights
    if weights is not None and weights.huggingface is not None:
        rule = "Hugging Face weights are not brought in for LLM Foundry: it would draw its own."
        fix = "Use initial_weights.checkpoint with a checkpoint of Composer's, or engine.name="
        yield _unsupported("initial_weights.huggingface", rule, f"{fix}megatron.")
    if weights is not None and weights.checkpoint is not None and "://" in weights.checkpoint:
        rule = "a checkpoint is verified before LLM Foundry loads it, and one in an object store "
        fix = "Copy it first (seatrial checkpoints copy), and give its path."
        yield _unsupported("initial_weights.checkpoint", f"{rule}is not.", fix)
    if plan.spec.continue_from is not None:
        rule = "a run of LLM Foundry does not take up another's optimizer state and step: it would "
        fix = "Use initial_weights.checkpoint for the parent's weights, or engine.name=megatron."
        yield _unsupported("continue_from", f"{rule}begin at step 0 with weights it draws.", fix)


def _layout(plan: Plan) -> Iterator[Problem]:
    for axis in ("tp", "pp", "cp"):
        if getattr(plan.layout, f"{axis}_size") > 1:
            rule = f"LLM Foundry has no {axis}: it shards over the data-parallel ranks only."
            yield _unsupported(f"parallelism.{axis}_size", rule, f"Use {axis}_size 1.")
    if plan.sharding is Sharding.OPTIMIZER:
        rule = "LLM Foundry shards everything (fsdp) or nothing."
        yield _unsupported("parallelism.sharding", rule, "Use fsdp or none.")
    unused = [name for name in plan.spec.engine.options if name.startswith("fsdp_config.")]
    if unused and plan.sharding is Sharding.NONE and plan.recompute is Recompute.NONE:
        rule = "a run that shards nothing has no FSDP, and any setting of it would turn it on."
        fix = "Remove it, or use parallelism.sharding=fsdp."
        yield _unsupported(f"engine.options.{unused[0]}", rule, fix)
    if plan.recompute is Recompute.SELECTIVE:
        rule = "LLM Foundry computes whole layers again, or none."
        yield _unsupported("parallelism.recompute", rule, "Use full or none.")


def _training(plan: Plan) -> Iterator[Problem]:
    training = plan.spec.training
    if training.precision not in PRECISIONS:
        rule = f"LLM Foundry computes in {training.precision} only with Transformer Engine's "
        rule += "layers, which are not installed."
        yield _unsupported("training.precision", rule, "Use bf16.")
    style = training.learning_rate.style
    if style not in SCHEDULERS:
        rule = f"LLM Foundry has no schedule {style}."
        fix = f"Use one of: {', '.join(SCHEDULERS)}."
        yield _unsupported("training.learning_rate.style", rule, fix)
    if plan.spec.checkpoints.asynchronous:
        rule = "Composer writes checkpoints while training waits."
        yield _unsupported("checkpoints.asynchronous", rule, "Use false.")
    if training.deterministic:
        rule = "LLM Foundry has no setting for kernels that repeat bit for bit."
        yield _unsupported("training.deterministic", rule, "Use false.")


def _texts(plan: Plan) -> Iterator[Problem]:
    """Texts that LLM Foundry would change; it resolves settings twice, and an escape lasts once."""
    for name, value in engine_settings(plan).items():
        if "${" in str(value):
            field = MODELLED.get(name, f"engine.options.{name}")
            rule = (
                f"{name} holds ${{, and LLM Foundry replaces ${{...}} by another of its settings."
            )
            yield _unsupported(field, rule, "Write the value itself.")


def _data(plan: Plan) -> Iterator[Problem]:
    sources = plan.spec.data.sources or ()
    for number, source in enumerate(sources):
        if len(sources) > 1 and source.prepared is None and source.name is None:
            rule = "each source becomes a stream of its own, in a directory of that name."
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
    """Hugging Face's loader takes a name of the Hub, or a directory; training passes that on."""
    if not given:
        rule = "LLM Foundry loads a tokenizer, also for data that are tokens already."
        fix = "Write hf://NAME, or the path of its tokenizer.json."
        yield _unsupported("data.tokenizer", rule, fix)
    elif given.endswith(TOKENIZER_FILES) and given.rpartition("/")[2] != "tokenizer.json":
        rule = (
            f"LLM Foundry loads tokenizers by Hugging Face's loader, which does not take {given}."
        )
        fix = "Give a tokenizer.json, with a tokenizer_config.json beside it, or hf://NAME."
        yield _unsupported("data.tokenizer", rule, fix)
