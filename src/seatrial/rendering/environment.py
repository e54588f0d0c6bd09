# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The environment of the training processes, in a pod and on this host."""

from fnmatch import fnmatchcase

from seatrial.catalog.fabrics import Fabric, VariableToAvoid
from seatrial.engines.registry import ENGINES
from seatrial.planning.plan import dataset_location
from seatrial.rendering.context import Scene
from seatrial.rendering.expansion import escape
from seatrial.rendering.manifest import Manifest
from seatrial.rendering.resources import grace_seconds, planned_save_seconds, update_threads
from seatrial.spec.addresses import is_stored
from seatrial.spec.cluster import SecretRef
from seatrial.spec.scalars import AUTO
from seatrial.storage.visibility import DEFAULT_SECONDS, VARIABLE

SCRATCH = "/scratch"
"""Mount point of local disk, for files that need not outlive the pod."""
SITE = "/opt/seatrial/site"
"""Where an init container installs the worker if the image lacks it."""
DUMP = "nccl_trace_rank_"
"""File name prefix of the flight recorder dumps in the run's directory, followed by the rank.

It does not contain the attempt: a TrainingRuntime is the same for all attempts."""
DUMP_ENTRIES = 2000
"""Number of collectives that each rank records for a dump."""
COLLNET = "NCCL_COLLNET_ENABLE"
"""The variable that lets NCCL use collective operations of the network, such as SHARP."""
ON_ONE_HOST = {"GLOO_SOCKET_IFNAME": "lo"}
"""Variables for a run whose ranks are all on this host."""

RESERVED = (
    *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "NODE_RANK"),
    *("MASTER_ADDR", "MASTER_PORT", "PET_*", "TORCHELASTIC_*", "SEATRIAL_*", "JOB_COMPLETION_*"),
    *("NODE_NAME", "POD_NAME", "PYTHONPATH", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"),
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE",
)
"""Variables set by torchrun, an operator or Seatrial. Any different value would break the run."""


def fabric_environment(fabric: Fabric, node_type: str) -> dict[str, str]:
    """Return the variables that the catalog lists for a fabric on a node type."""
    return {
        variable.name: variable.value
        for variable in fabric.environment
        if not variable.node_types or node_type in variable.node_types
    }


def reduces_in_switches(scene: Scene) -> bool:
    """True if the environment lets NCCL reduce gradients in the switches (SHARP)."""
    values = fabric_environment(scene.fabric, scene.plan.machines.node_type)
    return (values | dict(scene.plan.spec.cluster.env)).get(COLLNET) == "1"


def forbidding(fabric: Fabric, node_type: str, name: str, value: str) -> VariableToAvoid | None:
    """Return the catalog entry that advises against a variable on a node type, if any."""
    for variable in fabric.avoid:
        if variable.node_types and node_type not in variable.node_types:
            continue
        if fnmatchcase(name, variable.name) and variable.value in ("", value):
            return variable
    return None


def is_reserved(name: str) -> bool:
    """True if the spec must not set this variable."""
    return any(fnmatchcase(name, pattern) for pattern in RESERVED)


def training_environment(scene: Scene) -> list[Manifest]:
    """Return the environment of a training container, in a stable order."""
    return with_secrets([*open_environment(scene), *_metrics_address(scene)], scene)


def open_environment(scene: Scene) -> list[Manifest]:
    """Return the environment without secrets, for containers that need none."""
    values = cache_environment()
    if not scene.image.brings_worker:
        values["PYTHONPATH"] = SITE
    values |= _interfaces(scene)
    values |= fabric_environment(scene.fabric, scene.plan.machines.node_type)
    return [*identity(), *plain(values | _worker_environment(scene))]


def cache_environment() -> dict[str, str]:
    """Return the variables that put caches on local disk, in a container."""
    return {
        "HOME": SCRATCH,
        "HF_HOME": f"{SCRATCH}/huggingface",
        # On a shared file system, processes compete for its locks (AWS's workshop, chapter 3).
        "TRITON_CACHE_DIR": f"{SCRATCH}/triton",
        "TORCHINDUCTOR_CACHE_DIR": f"{SCRATCH}/inductor",
    }


def host_environment(scene: Scene) -> dict[str, str]:
    """Return the variables of a worker on this host, in addition to the host's environment."""
    return ON_ONE_HOST | _worker_environment(scene)


def _worker_environment(scene: Scene) -> dict[str, str]:
    """Return the variables of a worker, in a pod or on this host."""
    values = process_environment(f"{scene.home}/events.jsonl", on_cpu=scene.on_cpu)
    values |= {
        "PYTHONUNBUFFERED": "1",
        # Lets the worker detect that NCCL uses a different fabric.
        "SEATRIAL_FABRIC": scene.plan.machines.fabric,
        # Otherwise torchrun kills its processes after 30 s, possibly during a save.
        "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": str(grace_seconds(scene) - 30),
    }
    seconds = planned_save_seconds(scene)
    if seconds is not None:
        # Lets the worker detect that saves take longer than planned.
        values["SEATRIAL_SAVE_SECONDS"] = f"{seconds:.3g}"
    if not scene.on_cpu:
        values |= recorder_environment(scene)
    growth = scene.plan.length.largest_growth
    if growth > 1:
        # The supervisor waits longer for the first step of a much larger batch.
        values["SEATRIAL_STEP_GROWTH"] = f"{growth:g}"
    if scene.tier is not None and scene.tier.visible_after_seconds != DEFAULT_SECONDS:
        # How long one node waits for a file that another node has written.
        values[VARIABLE] = f"{scene.tier.visible_after_seconds:g}"
    dataset = dataset_location(scene.plan)
    if dataset and scene.plan.model.tokenizer:
        # The ranks load the data set's copy of the tokenizer, if it has one.
        values["SEATRIAL_DATASET"] = dataset
    if is_stored(scene.plan.model.tokenizer):
        # Without a copy in the data set, each node downloads it once.
        values["SEATRIAL_TOKENIZER_SOURCE"] = scene.plan.model.tokenizer
    if scene.plan.spec.performance.optimizer_offload not in (0, AUTO) and not scene.on_cpu:
        # The host updates the offloaded state of all its ranks.
        values["OMP_NUM_THREADS"] = str(update_threads(scene))
    values |= logger_environment(scene) | _retention_environment(scene)
    values |= ENGINES[scene.plan.spec.engine.name].environment(scene.plan)
    # The spec takes precedence. Rules have already checked its variables.
    return values | dict(scene.plan.spec.cluster.env)


def process_environment(events: str, *, on_cpu: bool) -> dict[str, str]:
    """Return the variables that every rank under torchrun needs, also in a rehearsal."""
    values = {
        "SEATRIAL_EVENTS": events,
        "OMP_NUM_THREADS": "1",
        # Otherwise a restart finds keys of the previous start in the shared store, and gloo hangs
        # (pytorch#135712).
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
    }
    if on_cpu:
        values |= {"SEATRIAL_DEVICE": "cpu", "TORCHDYNAMO_DISABLE": "1"}
    return values


def _retention_environment(scene: Scene) -> dict[str, str]:
    """Return the retention policy. The worker deletes other checkpoints after each commit."""
    kept = scene.plan.spec.checkpoints
    values = {"SEATRIAL_KEEP_LAST": str(kept.keep_last)}
    if kept.keep_every_steps is not None:
        values["SEATRIAL_KEEP_EVERY_STEPS"] = str(kept.keep_every_steps)
    return values


def logger_environment(scene: Scene) -> dict[str, str]:
    """Return the variables of the loggers, in a pod or on this host."""
    spec = scene.plan.spec
    values = {"SEATRIAL_RUN": spec.name}
    if spec.monitoring.prometheus.enabled:
        values["SEATRIAL_METRICS_PORT"] = str(spec.monitoring.prometheus.port)
    if spec.monitoring.wandb is not None:
        # Without an id, every restart creates a new run in W&B (KempnerForge#19).
        values |= {
            "WANDB_RUN_ID": spec.name,
            "WANDB_RESUME": "allow",
            "WANDB_MODE": str(spec.monitoring.wandb.mode),
            "WANDB_DIR": f"{scene.home}/wandb",
        }
    if spec.monitoring.mlflow is not None:
        values |= {
            "MLFLOW_TRACKING_URI": spec.monitoring.mlflow.tracking_uri,
            "SEATRIAL_MLFLOW_EXPERIMENT": spec.monitoring.mlflow.experiment,
        }
    return values


def _metrics_address(scene: Scene) -> list[Manifest]:
    """Return the pod's address as the metrics address, so that Prometheus can reach it."""
    if not scene.plan.spec.monitoring.prometheus.enabled:
        return []
    source = {"fieldRef": {"fieldPath": "status.podIP"}}
    return [{"name": "SEATRIAL_METRICS_ADDRESS", "valueFrom": source}]


def _interfaces(scene: Scene) -> dict[str, str]:
    """Return the interface for NCCL's bootstrap and gloo, if the profile names one."""
    name = scene.profile.network_interface
    return {"NCCL_SOCKET_IFNAME": name, "GLOO_SOCKET_IFNAME": name} if name else {}


def recorder_environment(scene: Scene) -> dict[str, str]:
    """Enable torch's flight recorder, which dumps collectives when one times out.

    The names are from FlightRecorder.hpp and ProcessGroupNCCL.hpp of torch 2.13. The file uses the
    older name, which earlier versions read too.
    """
    return {
        "TORCH_FR_BUFFER_SIZE": str(DUMP_ENTRIES),
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
        "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": f"{scene.home}/{DUMP}",
    }


def identity() -> list[Manifest]:
    """Return the variables with the names of the pod and its node, for logs and findings."""
    paths = {"NODE_NAME": "spec.nodeName", "POD_NAME": "metadata.name"}
    return [
        {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
        for name, path in paths.items()
    ]


def plain(values: dict[str, str]) -> list[Manifest]:
    """Return variables with literal values."""
    return [{"name": name, "value": escape(value)} for name, value in sorted(values.items())]


def with_secrets(variables: list[Manifest], scene: Scene) -> list[Manifest]:
    """Add the variables from secrets. They replace defaults of the same name.

    If the spec sets one twice, both stay: `check` and the API server reject that.
    """
    cluster = scene.plan.spec.cluster
    added = _secret_variables(cluster.secrets)
    replaced = {variable["name"] for variable in added} - set(cluster.env)
    return [*(each for each in variables if each["name"] not in replaced), *added]


def _secret_variables(secrets: tuple[SecretRef, ...]) -> list[Manifest]:
    return [
        {
            "name": secret.env,
            "valueFrom": {"secretKeyRef": {"name": secret.secret, "key": secret.key}},
        }
        for secret in secrets
        if secret.env is not None
    ]
