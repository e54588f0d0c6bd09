# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Find settings in a plan that LLM Foundry does not support."""

from collections.abc import Iterator

from seatrial.codes.engines import EngineCode
from seatrial.engines.engine import Problem
from seatrial.engines.llm_foundry.data_settings import source_place
from seatrial.engines.llm_foundry.options import MODELLED
from seatrial.engines.llm_foundry.settings import PRECISIONS, SCHEDULERS, engine_settings
from seatrial.planning.plan import Plan
from seatrial.spec.model import Activation, Architecture, Family, Norm, Positions
from seatrial.spec.parallelism import Recompute, Sharding
from seatrial.spec.training import OptimizerName

STREAMED = ("s3://", "gs://", "hf://")
"""URL schemes that the streaming library reads (streaming/base/storage/download.py in 0.12.0).

The library supports Azure as azure:// and azure-dl://, but only with an account and a key in the
environment."""
LLAMAS = {
    "norm": Norm.RMSNORM,
    "activation": Activation.SWIGLU,
    "linear_bias": False,
    "positions": Positions.ROPE,
}
"""Properties of all models in the family, independent of the repository."""
ABSENT = {
    "norm_centered_at_one": "norms that store their weight minus 1",
    "no_rope_every": "layers without rotary positions",
    "window": "sliding-window attention",
    "attention_sinks": "attention sinks",
    "latent_attention": "latent attention",
    "mtp_layers": "multi-token prediction",
}
"""Parts of a model that LLM Foundry does not have."""
FROM_REPOSITORY = {
    "norm_epsilon": "a different epsilon in norms",
    "rope_scaling": "scaled rotary frequencies",
    "rotary_fraction": "partly rotated heads",
}
"""Parts that only hf_causal_lm has, and takes from the repository of a preset."""
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
    field = plan.spec.model.field
    if model.family is Family.GPT:
        where = f"{field}.family" if plan.spec.model.dimensions else field
        rule = "LLM Foundry supports only MPT models, and Llama models through hf_causal_lm."
        yield _unsupported(where, rule, "Use a preset such as mpt-7b, or engine.name=megatron.")
    if model.family is Family.LLAMA and not plan.model.tokenizer.startswith("hf://"):
        rule = "hf_causal_lm loads the model's code and configuration from the tokenizer's "
        rule += "repository on the Hub."
        yield _unsupported("data.tokenizer", rule, "Use hf://NAME with the model's repository.")
    if model.moe is not None:
        rule = "in LLM Foundry, a mixture of experts needs MegaBlocks, which is not installed."
        yield _unsupported(field, rule, "Use engine.name=megatron.")
    yield from _absent(plan)
    if model.family is Family.LLAMA:
        yield from _not_llamas(plan)
    if model.family is not Family.MPT:
        return
    if model.qkv_bias and not model.linear_bias:
        rule = "MPT has biases in all linear layers or in none."
        fix = "Use false, set linear_bias to true, or use engine.name=megatron."
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
        fix = (
            "Use norm layernorm with linear_bias true, or layernorm-no-bias with linear_bias false."
        )
        yield _unsupported("model.dimensions.norm", rule, fix)


def _absent(plan: Plan) -> Iterator[Problem]:
    """Reject parts of a model that LLM Foundry would silently leave out."""
    model = plan.model.architecture
    from_repository = model.family is Family.LLAMA and plan.spec.model.preset is not None
    for name, what in (ABSENT if from_repository else ABSENT | FROM_REPOSITORY).items():
        if getattr(model, name) != Architecture.model_fields[name].default:
            rule = f"LLM Foundry does not support {what}."
            fix = f"Remove {name}, or use engine.name=megatron."
            yield _unsupported(f"model.dimensions.{name}", rule, fix)
    if model.activation not in (Activation.GELU, Activation.SWIGLU):
        rule = f"LLM Foundry does not support the activation {model.activation}."
        fix = "Use gelu or swiglu, or engine.name=megatron."
        yield _unsupported("model.dimensions.activation", rule, fix)


def _not_llamas(plan: Plan) -> Iterator[Problem]:
    """Reject settings for which hf_causal_lm uses a different value from the repository's code.

    A preset matches its repository. Biases and norms of queries and keys differ between these
    models; `check --engine` detects a difference by the number of parameters.
    """
    if plan.spec.training.hidden_dropout:
        rule = "hf_causal_lm models support only attention dropout."
        fix = "Use 0, or engine.name=megatron."
        yield _unsupported("training.hidden_dropout", rule, fix)
    model = plan.model.architecture
    for name, own in LLAMAS.items() if plan.spec.model.dimensions else ():
        if getattr(model, name) != own:
            rule = "hf_causal_lm ignores this value and uses that of the repository's own code."
            fix = f"Use {str(own).lower()}, or engine.name=megatron."
            yield _unsupported(f"model.dimensions.{name}", rule, fix)


def _beginning(plan: Plan) -> Iterator[Problem]:
    weights = plan.spec.initial_weights
    if weights is not None and weights.huggingface is not None:
        rule = "LLM Foundry cannot start from Hugging Face weights; it would use random weights."
        fix = "Use initial_weights.checkpoint with a Composer checkpoint, or engine.name="
        yield _unsupported("initial_weights.huggingface", rule, f"{fix}megatron.")
    if weights is not None and weights.checkpoint is not None and "://" in weights.checkpoint:
        rule = "Seatrial cannot verify a checkpoint in an object store before LLM Foundry loads it."
        fix = "Copy it to a volume with seatrial checkpoints copy, and use the path of the copy."
        yield _unsupported("initial_weights.checkpoint", rule, fix)
    if plan.spec.continue_from is not None:
        rule = (
            "an LLM Foundry run cannot continue with a different run's optimizer state and step: "
        )
        fix = (
            "Use initial_weights.checkpoint to start from the parent's weights, or "
            "engine.name=megatron."
        )
        yield _unsupported("continue_from", f"{rule}it would start from random weights.", fix)


def _layout(plan: Plan) -> Iterator[Problem]:
    for axis in ("tp", "pp", "cp"):
        if getattr(plan.layout, f"{axis}_size") > 1:
            rule = f"LLM Foundry does not support {axis}: it shards only over data-parallel ranks."
            yield _unsupported(f"parallelism.{axis}_size", rule, f"Use {axis}_size 1.")
    if plan.spec.parallelism.pipeline_layout is not None:
        rule = "LLM Foundry has no pipeline stages, so a pipeline layout has no effect."
        yield _unsupported("parallelism.pipeline_layout", rule, "Remove pipeline_layout.")
    if plan.sharding is Sharding.OPTIMIZER:
        rule = "LLM Foundry supports full sharding (fsdp) or no sharding."
        yield _unsupported("parallelism.sharding", rule, "Use fsdp or none.")
    unused = [name for name in plan.spec.engine.options if name.startswith("fsdp_config.")]
    if unused and plan.sharding is Sharding.NONE and plan.recompute is Recompute.NONE:
        rule = "sharding is none, but any setting in fsdp_config would enable FSDP."
        fix = "Remove the setting, or use parallelism.sharding=fsdp."
        yield _unsupported(f"engine.options.{unused[0]}", rule, fix)
    if plan.recompute is Recompute.SELECTIVE:
        rule = "LLM Foundry does not support selective recomputation, only that of whole layers."
        yield _unsupported("parallelism.recompute", rule, "Use full or none.")


def _training(plan: Plan) -> Iterator[Problem]:
    training = plan.spec.training
    if training.precision not in PRECISIONS:
        rule = f"in LLM Foundry, {training.precision} needs Transformer Engine's layers, "
        rule += "which are not installed."
        yield _unsupported("training.precision", rule, "Use bf16.")
    if training.optimizer.name is not OptimizerName.ADAM:
        rule = f"LLM Foundry has no optimizer {training.optimizer.name}."
        yield _unsupported("training.optimizer.name", rule, "Use adam, or engine.name=megatron.")
    if training.batch_schedule:
        rule = "LLM Foundry trains with one batch size."
        fix = "Remove batch_schedule, or use engine.name=megatron."
        yield _unsupported("training.batch_schedule", rule, fix)
    style = training.learning_rate.style
    if style not in SCHEDULERS:
        rule = f"LLM Foundry has no {style} learning-rate schedule."
        fix = f"Use one of: {', '.join(SCHEDULERS)}."
        yield _unsupported("training.learning_rate.style", rule, fix)
    if plan.spec.checkpoints.asynchronous:
        rule = "Composer blocks training while it saves checkpoints."
        yield _unsupported("checkpoints.asynchronous", rule, "Use false.")
    if training.deterministic:
        rule = "LLM Foundry has no setting for deterministic kernels."
        yield _unsupported("training.deterministic", rule, "Use false.")


def _texts(plan: Plan) -> Iterator[Problem]:
    """Reject values that LLM Foundry would change: it resolves settings twice, so escapes fail."""
    for name, value in engine_settings(plan).items():
        if "${" in str(value):
            field = MODELLED.get(name, f"engine.options.{name}")
            rule = f"{name} contains ${{, and LLM Foundry interprets ${{...}} as an interpolation."
            yield _unsupported(field, rule, "Write the value itself.")


def _data(plan: Plan) -> Iterator[Problem]:
    sources = plan.spec.data.sources or ()
    for number, source in enumerate(sources):
        if len(sources) > 1 and source.prepared is None and source.name is None:
            rule = "each source becomes a separate stream, in a directory with the source's name."
            yield _unsupported(f"data.sources[{number}]", rule, "Add a name.")
        place = source_place(plan, source)
        if "://" in place and not place.startswith(STREAMED):
            field = (
                "data.location" if source.prepared is None else f"data.sources[{number}].prepared"
            )
            rule = f"the streaming library cannot read {place}."
            fix = f"Use a path on the volume, or {' or '.join(STREAMED[:2])}."
            yield _unsupported(field, rule, fix)
    if not plan.spec.data.mock:
        yield from _tokenizer(plan.model.tokenizer)


def _tokenizer(given: str) -> Iterator[Problem]:
    """Check the tokenizer: Hugging Face's loader accepts a name on the Hub, or a directory."""
    if not given:
        rule = "LLM Foundry always loads a tokenizer, even if the data is already tokenized."
        fix = "Use hf://NAME, or the path of the tokenizer.json."
        yield _unsupported("data.tokenizer", rule, fix)
    elif given.endswith(TOKENIZER_FILES) and given.rpartition("/")[2] != "tokenizer.json":
        rule = f"LLM Foundry uses Hugging Face's tokenizer loader, which does not support {given}."
        fix = "Use a tokenizer.json, with a tokenizer_config.json next to it, or hf://NAME."
        yield _unsupported("data.tokenizer", rule, fix)
