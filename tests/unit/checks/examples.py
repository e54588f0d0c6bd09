# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""For every code of the check a run that makes it fire, and the change that keeps it silent."""

from dataclasses import dataclass, replace
from textwrap import dedent

from seatrial.checks.check import Verdict
from seatrial.checks.probe_facts import CorpusFacts, PairFacts, Pointer, TokenizerFacts, Unknown
from seatrial.codes.checks import CheckCode
from seatrial.codes.datasets import DatasetCode
from seatrial.codes.rendering import RenderCode
from tests.unit.checks.described import CORPUS, GPT2, OTHER, PREFIX, Described, pair

BASE = dedent(
    """\
    apiVersion: seatrial.dev/v1alpha1
    name: example
    model: {preset: gpt3-7.5b}
    data:
      sources:
        - {prepared: /data/prepared/web_text_document}
      tokenizer: hf://gpt2
    training:
      steps: 1000
      micro_batch_size: 1
      global_batch_size: 128
      evaluation: {every_steps: 100, batches: 1}
    parallelism:
      {tp_size: 4, pp_size: 1, cp_size: 1, sequence_parallel: true, sharding: optimizer,
       recompute: full}
    cluster: {profile: aks, node_type: Standard_ND96isr_H100_v5, nodes: 2}
    checkpoints: {every_steps: 1000}
    """
)
INSTALLED = (
    "cluster.image=example.com/worker:1",
    "cluster.storage.parameters={zone: '2'}",
)
"""What an administrator is then not asked for any more."""


def without_unknown_image(verdict: Verdict) -> Verdict:
    """The verdict of a run whose image is not in the catalog, without the finding about that."""
    kept = [one for one in verdict.checked if one.finding.code != RenderCode.UNKNOWN_IMAGE]
    return replace(verdict, checked=tuple(kept))


RAW = f"data.sources=[{{from: {CORPUS}, files: '*.jsonl'}}]"
TWO = (
    f"data.sources=[{{prepared: {PREFIX}, weight: 1.0}}, {{prepared: {OTHER}, weight: 1.0}}]",
    "training.steps=20000",
)
ON_HYPERPOD = (
    "cluster={profile: hyperpod-eks, node_type: ml.p5.48xlarge, nodes: 2, "
    "namespace: research, storage: {claim: fsx}}",
)
LOCAL = ("cluster.profile=local", "cluster.node_type=local", "cluster.processes_per_node=8")


@dataclass(frozen=True)
class Example:
    """A run in which one rule fires, and what makes it silent."""

    fires: tuple[str, ...] = ()
    """Overrides that make the rule fire."""
    silent: tuple[str, ...] = ()
    """Overrides, instead of those, that keep it silent."""
    data: Described | None = None
    """The data in which it fires; healthy data when absent."""
    silent_data: Described | None = None
    """The data in which it is silent; healthy data when absent."""
    field: str = ""
    """The field that the finding stands at."""


def one(**changed: object) -> Described:
    """Data whose only pair is changed."""
    return Described({PREFIX: pair(**changed)})  # type: ignore[arg-type]


def corpus(taken: int = 3, fields: tuple[str, ...] = ("text",)) -> Described:
    """Data with a corpus of three files."""
    names = ("a.jsonl", "b.jsonl", "c.jsonl")
    found = {"*.jsonl": CorpusFacts(names, taken, fields), None: CorpusFacts(names, 3, fields)}
    corpora = {(CORPUS, pattern): facts for pattern, facts in found.items()}
    return Described({PREFIX: pair()}, corpora=corpora)


def broken_corpus() -> Described:
    """Data with a corpus whose files are not what their names say."""
    facts = CorpusFacts(("a.jsonl",), 1, (), (), "a.jsonl is no JSON")
    return Described({PREFIX: pair()}, corpora={(CORPUS, "*.jsonl"): facts})


def numbers_for_text() -> Described:
    """Data with a corpus whose field of text holds numbers."""
    facts = CorpusFacts(("a.jsonl",), 1, ("text", "body"), ("text",))
    return Described({PREFIX: pair()}, corpora={(CORPUS, "*.jsonl"): facts})


def healthy() -> Described:
    """Data with which nothing is wrong."""
    return Described({PREFIX: pair(), OTHER: pair()})


def tokenized(entries: int, *, ends: bool = True) -> Described:
    """Healthy data and another tokenizer."""
    return Described({PREFIX: pair()}, {GPT2: TokenizerFacts(entries, ends_documents=ends)})


def small(pair_of_wiki: PairFacts) -> Described:
    """A large source and a small one."""
    return Described({PREFIX: pair(), OTHER: pair_of_wiki})


def env(name: str, value: str) -> tuple[str]:
    """One environment variable."""
    return (f'cluster.env={{{name}: "{value}"}}',)


SLOW_VOLUME = (
    "cluster={profile: eks, node_type: p5.48xlarge, nodes: 2, "
    "storage: {tier: fsx-lustre-125, capacity: 1200Gi}}"
)
DIGEST = "example.com/team/megatron@sha256:" + "5b" * 32

NARROW = (
    "model={dimensions: {family: gpt, layers: 2, hidden_size: 1024, heads: 16, "
    "ffn_hidden_size: 2720, vocab_size: 50257, max_positions: 2048}}"
)
"""2,720 on 4 ranks is 680 a rank, no multiple of 16."""
NORMALISED = (
    "model={dimensions: {family: llama, layers: 2, hidden_size: 1024, heads: 16, "
    "ffn_hidden_size: 2816, vocab_size: 50257, max_positions: 2048, qk_norm: true, "
    "qkv_bias: true}}"
)
"""Normalised queries and keys with biases: without experts, no transformers class has both."""
ON_GRACE = "cluster.node_type=Standard_ND128isr_NDR_GB200_v6"

LARGE = (
    "model.preset=gpt3-175b",
    "cluster.node_type=Standard_ND128isr_GB300_v6",
    "parallelism.pp_size=2",
)
"""With 16 bytes, 175 B parameters need 1,300 GiB on each of two nodes; a pod has 734."""

EXPERTS = (
    "model.preset=mixtral-8x7b",
    "data={mock: true}",
    "training.evaluation=null",
    "parallelism={tp_size: 1, pp_size: 1, cp_size: 1, ep_size: 8, sharding: optimizer, "
    "recompute: full}",
)

EXAMPLES: dict[str, Example] = {
    CheckCode.DISPATCHER: Example(
        (*EXPERTS, "performance.token_dispatcher=deepep"),
        (*EXPERTS, "performance.token_dispatcher=alltoall"),
        field="performance.token_dispatcher",
    ),
    CheckCode.HOST_MEMORY: Example(
        (*LARGE, "performance.optimizer_offload=1.0"),
        (*LARGE, "performance.optimizer_offload=0.5"),
        field="performance.optimizer_offload",
    ),
    CheckCode.IDLE_GPUS: Example(
        ("cluster.processes_per_node=4",), (), field="cluster.processes_per_node"
    ),
    CheckCode.RATE_OF_NOTHING: Example(
        ("training.learning_rate={minimum: 0, decay: {steps: 900}}",),
        ("training.learning_rate={minimum: 0, decay: {steps: 1000}}",),
        field="training.learning_rate.decay",
    ),
    CheckCode.WARMUP_BEYOND: Example(
        ("training.learning_rate={warmup: {steps: 1000}, decay: {steps: 9000}}",),
        ("training.learning_rate={warmup: {steps: 999}, decay: {steps: 9000}}",),
        field="training.learning_rate.warmup",
    ),
    CheckCode.NEVER_EVALUATED: Example(
        ("training.evaluation.every_steps=1001",),
        ("training.evaluation.every_steps=1000",),
        field="training.evaluation.every_steps",
    ),
    CheckCode.HIGH_RATE: Example(
        ("training.learning_rate.peak=0.6",),
        ("training.learning_rate.peak=0.02",),
        field="training.learning_rate.peak",
    ),
    CheckCode.UNSET_RATE: Example(
        ("initial_weights={huggingface: hf://EleutherAI/gpt-j-6b}",),
        (
            "initial_weights={huggingface: hf://EleutherAI/gpt-j-6b}",
            "training.learning_rate.peak=1.2e-4",
        ),
        field="training.learning_rate.peak",
    ),
    CheckCode.TOKENIZER_PLACE: Example(
        ("data.tokenizer=tokenizers/gpt2/tokenizer.json",),
        ("data.tokenizer=/data/tokenizers/gpt2/tokenizer.json",),
        field="data.tokenizer",
    ),
    CheckCode.UNNAMED_TOKENIZER: Example(
        (
            "model={dimensions: {family: gpt, layers: 2, hidden_size: 256, heads: 4, "
            "vocab_size: 50257, max_positions: 1024}}",
            "data.tokenizer=null",
        ),
        (
            "model={dimensions: {family: gpt, layers: 2, hidden_size: 256, heads: 4, "
            "vocab_size: 50257, max_positions: 1024}}",
        ),
        field="data.tokenizer",
    ),
    CheckCode.DATA_PLACE: Example(
        ("data.sources[0].prepared=/local/web_text_document",),
        field="data.sources[0].prepared",
    ),
    CheckCode.TEXT_PLACE: Example(
        ("data.sources=[{from: /home/me/corpus}]",), (RAW,), field="data.sources[0].from"
    ),
    CheckCode.UNPINNED: Example(
        ("data.sources=[{from: 'hf://datasets/owner/corpus'}]",),
        ("data.sources=[{from: 'hf://datasets/owner/corpus@0123456'}]",),
        field="data.sources[0].from",
    ),
    CheckCode.ENDING: Example(
        (f"data.sources[0].prepared={PREFIX}.bin",), field="data.sources[0].prepared"
    ),
    CheckCode.FULL_VOLUME: Example(
        (
            "cluster.storage={tier: amlfs-125, capacity: 16Ti}",
            "checkpoints={every_steps: 5, keep_last: 199}",
        ),
        (
            "cluster.storage={tier: amlfs-125, capacity: 16Ti}",
            "checkpoints={every_steps: 5, keep_last: 3}",
        ),
        field="cluster.storage.capacity",
    ),
    CheckCode.SHORT_PATIENCE: Example(
        (SLOW_VOLUME, "engine.options.distributed-timeout-minutes=10"),
        (SLOW_VOLUME, "engine.options.distributed-timeout-minutes=60"),
        field="engine.options.distributed-timeout-minutes",
    ),
    CheckCode.OTHER_WEIGHTS: Example(
        ("initial_weights={huggingface: hf://EleutherAI/gpt-neox-20b}",),
        ("initial_weights={huggingface: hf://EleutherAI/gpt-j-6b}",),
        field="initial_weights.huggingface",
    ),
    CheckCode.UNREAD_WEIGHTS: Example(
        ("initial_weights={huggingface: hf://some/where}", NORMALISED),
        ("initial_weights={huggingface: hf://some/where}",),
        field="initial_weights.huggingface",
    ),
    CheckCode.DEBUGGING: Example(
        env("TORCH_DISTRIBUTED_DEBUG", "DETAIL"),
        env("TORCH_DISTRIBUTED_DEBUG", "INFO"),
        field="cluster.env.TORCH_DISTRIBUTED_DEBUG",
    ),
    CheckCode.SLOWING: Example(
        env("NCCL_SHM_DISABLE", "1"),
        env("NCCL_SHM_DISABLE", "0"),
        field="cluster.env.NCCL_SHM_DISABLE",
    ),
    CheckCode.DEVICES: Example(
        env("CUDA_VISIBLE_DEVICES", "0,1"),
        env("CUDA_DEVICE_ORDER", "PCI_BUS_ID"),
        field="cluster.env.CUDA_VISIBLE_DEVICES",
    ),
    CheckCode.UNREAD: Example(
        env("NCCL_IB_TIMEOUTS", "22"),
        env("NCCL_IB_TIMEOUT", "22"),
        field="cluster.env.NCCL_IB_TIMEOUTS",
    ),
    CheckCode.INTERFACES: Example(
        env("NCCL_SOCKET_IFNAME", "ens5"),
        env("NCCL_SOCKET_IFNAME", "eth"),
        field="cluster.env.NCCL_SOCKET_IFNAME",
    ),
    CheckCode.CONNECTIONS: Example(
        env("CUDA_DEVICE_MAX_CONNECTIONS", "8"),
        env("CUDA_DEVICE_MAX_CONNECTIONS", "1"),
        field="cluster.env.CUDA_DEVICE_MAX_CONNECTIONS",
    ),
    CheckCode.UNUSED_FABRIC: Example(
        ("cluster.fabric=none",), ("cluster.fabric=none", "cluster.nodes=1"), field="cluster.fabric"
    ),
    CheckCode.OFFLINE: Example(
        env("HF_HUB_OFFLINE", "1"),
        (*env("HF_HUB_OFFLINE", "1"), "data.tokenizer=/data/tokenizer.json"),
        field="cluster.env.HF_HUB_OFFLINE",
    ),
    CheckCode.MOVING_IMAGE: Example(
        ("cluster.image=example.com/team/megatron:main",),
        (f"cluster.image={DIGEST}",),
        field="cluster.image",
    ),
    CheckCode.GIVEN_TWICE: Example(
        (
            'cluster.env={HF_TOKEN_PATH: "/x", FOO: "1"}',
            "cluster.secrets=[{secret: a, key: b, env: FOO}]",
        ),
        (
            'cluster.env={HF_TOKEN_PATH: "/x"}',
            "cluster.secrets=[{secret: a, key: b, env: FOO}, {secret: a, key: c, env: BAR}]",
        ),
        field="cluster.secrets[0].env",
    ),
    CheckCode.IMAGE_NAME: Example(
        ("cluster.image=example.com/Team/megatron:1.0",),
        ("cluster.image=Example.com:5000/team/mega__tron:1.0",),
        field="cluster.image",
    ),
    CheckCode.OLD_TORCH: Example(
        ("cluster.image=pytorch/pytorch:2.4.0-cuda12.4-cudnn9-devel",),
        ("cluster.image=pytorch/pytorch:2.8.0-cuda12.8-cudnn9-devel",),
        field="cluster.image",
    ),
    CheckCode.OTHER_ENGINE: Example(
        ("cluster.image=nemo-26-04",), ("cluster.image=ngc-pytorch-26-02",), field="cluster.image"
    ),
    CheckCode.KNOWN_HOLES: Example(
        ("cluster.image=nvcr.io/nvidia/nemo:25.09",),
        ("cluster.image=nvcr.io/nvidia/pytorch:26.02-py3",),
        field="cluster.image",
    ),
    CheckCode.OLD_FOR_GPU: Example(
        (
            "cluster.profile=eks",
            "cluster.node_type=p6-b200.48xlarge",
            "cluster.image=pytorch/pytorch:2.6.0-cuda12.6-cudnn9-devel",
        ),
        (
            "cluster.profile=eks",
            "cluster.node_type=p5.48xlarge",
            "cluster.image=pytorch/pytorch:2.6.0-cuda12.6-cudnn9-devel",
        ),
        field="cluster.image",
    ),
    CheckCode.NO_WANDB_KEY: Example(
        ("monitoring.wandb={project: gpt3}",),
        ("monitoring.wandb={project: gpt3, mode: offline}",),
        field="monitoring.wandb",
    ),
    CheckCode.NO_HUB_TOKEN: Example(
        ("data.tokenizer=hf://meta-llama/Llama-2-7b-hf",),
        (
            "data.tokenizer=hf://meta-llama/Llama-2-7b-hf",
            "cluster.secrets=[{secret: huggingface, key: token, env: HF_TOKEN}]",
        ),
        field="data.tokenizer",
    ),
    CheckCode.OPTION_NEEDS: Example(
        ("performance={gradient_overlap: false, parameter_overlap: true}",),
        ("performance={gradient_overlap: true, parameter_overlap: true}",),
        field="performance.parameter_overlap",
    ),
    CheckCode.OPTION_AGAINST: Example(
        ("engine.options.fp16-lm-cross-entropy=true",),
        ("engine.options.fp16-lm-cross-entropy=true", "training.precision=fp16"),
        field="engine.options.fp16-lm-cross-entropy",
    ),
    CheckCode.LARGE_TOKENIZER: Example(
        data=tokenized(64_000), silent_data=tokenized(50_304), field="data.tokenizer"
    ),
    CheckCode.NO_END: Example(data=tokenized(50_257, ends=False), field="data.tokenizer"),
    CheckCode.NO_TOKENIZER: Example(
        data=Described({PREFIX: pair()}, tokenizers={}), field="data.tokenizer"
    ),
    CheckCode.NO_CORPUS: Example((RAW,), (RAW,), None, corpus(), field="data.sources[0].from"),
    CheckCode.NO_FILES: Example(
        (RAW,), (RAW,), corpus(taken=0), corpus(), field="data.sources[0].files"
    ),
    CheckCode.FEWER_FILES: Example(
        (RAW, "data.sources[0].sample_files=4"),
        (RAW, "data.sources[0].sample_files=3"),
        corpus(),
        corpus(),
        field="data.sources[0].sample_files",
    ),
    CheckCode.TEXT_FIELD: Example(
        (RAW,), (RAW,), corpus(fields=("content",)), corpus(), field="data.sources[0].text_field"
    ),
    CheckCode.UNREADABLE: Example(
        (RAW,), (RAW,), broken_corpus(), corpus(), field="data.sources[0].from"
    ),
    CheckCode.UNSEEN: Example(
        data=Described({PREFIX: Unknown.UNSEEN}), field="data.sources[0].prepared"
    ),
    DatasetCode.ABSENT: Example(
        (f"data.sources[0].prepared={PREFIX}s",), field="data.sources[0].prepared"
    ),
    DatasetCode.HEADER: Example(data=one(begins_with="TNTIDX"), field="data.sources[0].prepared"),
    DatasetCode.SIZE: Example(data=one(bin_bytes=10), field="data.sources[0].prepared"),
    DatasetCode.POINTERS: Example(
        data=one(wrong_pointer=Pointer(640_000, -2_147_483_008)), field="data.sources[0].prepared"
    ),
    CheckCode.NO_DOCUMENTS: Example(
        data=one(sequences=0, tokens=0), field="data.sources[0].prepared"
    ),
    CheckCode.TOKEN_TYPE: Example(
        ("model.preset=llama3-8b", "data.tokenizer=hf://gpt2"),
        ("model.preset=llama3-8b", "data.tokenizer=hf://gpt2"),
        tokenized(128_256),
        Described(
            {PREFIX: pair(token_bytes=4, bin_bytes=40_000_000_000)},
            {GPT2: TokenizerFacts(128_256, ends_documents=True)},
        ),
        field="data.sources[0].prepared",
    ),
    CheckCode.OTHER_TOKENIZER: Example(
        data=one(tokenizer="hf://EleutherAI/gpt-neox-20b"), field="data.sources[0].prepared"
    ),
    DatasetCode.VOCABULARY: Example(
        data=one(tokenizer="", largest_id=60_000), field="data.sources[0].prepared"
    ),
    DatasetCode.END: Example(data=one(ends_documents=False), field="data.sources[0].prepared"),
    DatasetCode.SPLIT_EMPTY: Example(
        data=one(sequences=20), silent_data=one(sequences=100), field="data.split"
    ),
    CheckCode.NO_SAMPLES: Example(
        data=one(sequences=1000, tokens=90_000),
        silent_data=one(sequences=1000, tokens=900_000),
        field="data.split",
    ),
    CheckCode.UNEVEN_BLEND: Example(
        TWO,
        ("training.steps=20000", f"data.sources=[{{prepared: {PREFIX}}}, {{prepared: {OTHER}}}]"),
        small(pair(10_000, 100_000_000)),
        small(pair(10_000, 100_000_000)),
        field="data.sources[1].weight",
    ),
    DatasetCode.EPOCHS: Example(
        ("training.steps=200000",),
        (),
        one(tokens=1_000_000_000),
        field="data.sources[0].prepared",
    ),
    CheckCode.EARLY_DECAY: Example(
        ("training.learning_rate={warmup: {steps: 50}, decay: {steps: 950}}",),
        ("training.learning_rate={warmup: {steps: 50}, decay: {steps: 1000}}",),
        field="training.learning_rate.decay",
    ),
    CheckCode.WIDTHS: Example(
        (NARROW, "training.precision=fp8"),
        (NARROW,),
        field="model.dimensions.ffn_hidden_size",
    ),
    CheckCode.SAME_SOURCE: Example(
        (f"data.sources=[{{prepared: {PREFIX}}}, {{prepared: {PREFIX}}}]",),
        field="data.sources[1].prepared",
    ),
    CheckCode.OTHER_FORMAT: Example(
        (f"data.sources=[{{from: {CORPUS}, format: parquet}}]",),
        (f"data.sources=[{{from: {CORPUS}, format: jsonl}}]",),
        corpus(),
        corpus(),
        field="data.sources[0].format",
    ),
    CheckCode.NO_DIRECTORY: Example(
        ("checkpoints.location=s3://bucket/checkpoints",),
        ("checkpoints.location=/data/checkpoints",),
        field="checkpoints.location",
    ),
    CheckCode.NOT_WRITABLE: Example(("cluster.run_as_user=1000",), field="cluster.run_as_user"),
    CheckCode.NO_AUTO_RESUME: Example(
        ON_HYPERPOD,
        (*ON_HYPERPOD, "cluster.namespace=hyperpod-research"),
        field="cluster.namespace",
    ),
    CheckCode.SHARP: Example(
        ("cluster.fabric=infiniband-sharp", "engine.options={use_sharp: false}"),
        ("cluster.fabric=infiniband-sharp", "engine.options={use_sharp: true}"),
        field="engine.options.use_sharp",
    ),
    CheckCode.PINNED: Example(env("NCCL_IB_GID_INDEX", "5"), field="cluster.env.NCCL_IB_GID_INDEX"),
    CheckCode.OTHER_PROCESSOR: Example(
        (ON_GRACE, f"cluster.image={DIGEST.replace('megatron', 'megatron-amd64')}"),
        (ON_GRACE, f"cluster.image={DIGEST.replace('megatron', 'megatron-arm64')}"),
        field="cluster.image",
    ),
    CheckCode.LOCAL_SERVER: Example(
        ("monitoring.mlflow={tracking_uri: 'http://localhost:5001', experiment: a}",),
        ("monitoring.mlflow={tracking_uri: 'http://mlflow.example:5001', experiment: a}",),
        field="monitoring.mlflow.tracking_uri",
    ),
    CheckCode.NO_IDENTITY: Example(
        ("data.sources=[{from: s3://bucket/corpus}]",),
        ("data.sources=[{from: s3://bucket/corpus}]", "cluster.service_account=training"),
        field="data.sources[0].from",
    ),
    CheckCode.ENGINES_OWN: Example(
        env("NVTE_FLASH_ATTN", "0"),
        env("NVTE_FLASH_ATTN", "1"),
        field="cluster.env.NVTE_FLASH_ATTN",
    ),
}
