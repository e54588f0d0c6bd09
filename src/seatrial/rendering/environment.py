# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The environment of the training processes, in a pod and on this host."""

from fnmatch import fnmatchcase

from seatrial.catalog.fabrics import Fabric, VariableToAvoid
from seatrial.engines.registry import ENGINES
from seatrial.rendering.context import Scene
from seatrial.rendering.expansion import escape
from seatrial.rendering.manifest import Manifest
from seatrial.rendering.resources import grace_seconds, planned_save_seconds
from seatrial.spec.cluster import SecretRef

SCRATCH = "/scratch"
"""Where local disk is mounted, for what need not outlive the pod."""
SITE = "/opt/seatrial/site"
"""Where an init container installs the worker when the image lacks it."""
DUMP = "nccl_trace_rank_"
"""How the dumps of torch's flight recorder begin in the run's own directory; then comes the rank.

The attempt is no part of it: what a runtime holds is the same for all attempts."""
DUMP_ENTRIES = 2000
"""Collectives that each rank keeps for a dump."""
ON_ONE_HOST = {"GLOO_SOCKET_IFNAME": "lo"}
"""For ranks that all run on this host."""

RESERVED = (
    *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "NODE_RANK"),
    *("MASTER_ADDR", "MASTER_PORT", "PET_*", "TORCHELASTIC_*", "SEATRIAL_*", "JOB_COMPLETION_*"),
    *("NODE_NAME", "POD_NAME", "PYTHONPATH", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"),
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE",
)
"""Variables that torchrun, an operator or Seatrial sets; another value would break the run."""


def fabric_environment(fabric: Fabric, node_type: str) -> dict[str, str]:
    """What the catalog says a fabric needs on a node type."""
    return {
        variable.name: variable.value
        for variable in fabric.environment
        if not variable.node_types or node_type in variable.node_types
    }


def forbidding(fabric: Fabric, node_type: str, name: str, value: str) -> VariableToAvoid | None:
    """What the catalog has against a variable on a node type, if anything."""
    for variable in fabric.avoid:
        if variable.node_types and node_type not in variable.node_types:
            continue
        if fnmatchcase(name, variable.name) and variable.value in ("", value):
            return variable
    return None


def is_reserved(name: str) -> bool:
    """Whether a variable is not the spec's to set."""
    return any(fnmatchcase(name, pattern) for pattern in RESERVED)


def training_environment(scene: Scene) -> list[Manifest]:
    """The environment of a training container, in an order that does not change."""
    return with_secrets([*open_environment(scene), *_metrics_address(scene)], scene)


def open_environment(scene: Scene) -> list[Manifest]:
    """What of it is no secret, for containers that need none."""
    values = {
        "HOME": SCRATCH,
        "HF_HOME": f"{SCRATCH}/huggingface",
        # On a shared file system its locks are fought over (AWS's workshop, chapter 3).
        "TRITON_CACHE_DIR": f"{SCRATCH}/triton",
        "TORCHINDUCTOR_CACHE_DIR": f"{SCRATCH}/inductor",
    }
    if not scene.image.brings_worker:
        values["PYTHONPATH"] = SITE
    values |= _interfaces(scene)
    values |= fabric_environment(scene.fabric, scene.plan.machines.node_type)
    return [*identity(), *plain(values | _worker_environment(scene))]


def host_environment(scene: Scene) -> dict[str, str]:
    """The variables of a worker on this host, which keeps the host's own besides."""
    return ON_ONE_HOST | _worker_environment(scene)


def _worker_environment(scene: Scene) -> dict[str, str]:
    """What a worker of the run gets, in a pod as on this host."""
    values = process_environment(f"{scene.home}/events.jsonl", on_cpu=scene.on_cpu)
    values |= {
        "PYTHONUNBUFFERED": "1",
        # So that the worker notices when NCCL takes another one.
        "SEATRIAL_FABRIC": scene.plan.machines.fabric,
        # torchrun kills its processes after 30 s otherwise, in the middle of a save.
        "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": str(grace_seconds(scene) - 30),
    }
    seconds = planned_save_seconds(scene)
    if seconds is not None:
        # So that it notices when saves take longer.
        values["SEATRIAL_SAVE_SECONDS"] = f"{seconds:.3g}"
    if not scene.on_cpu:
        values |= recorder_environment(scene)
    values |= logger_environment(scene) | _retention_environment(scene)
    values |= ENGINES[scene.plan.spec.engine.name].environment(scene.plan)
    # What the spec says is meant; rules have looked at it before.
    return values | dict(scene.plan.spec.cluster.env)


def process_environment(events: str, *, on_cpu: bool) -> dict[str, str]:
    """What ranks under torchrun need of any training, a rehearsal's included."""
    values = {
        "SEATRIAL_EVENTS": events,
        "OMP_NUM_THREADS": "1",
        # Else a restart finds the old attempt's keys in the shared store, and gloo hangs
        # (pytorch#135712).
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
    }
    if on_cpu:
        values |= {"SEATRIAL_DEVICE": "cpu", "TORCHDYNAMO_DISABLE": "1"}
    return values


def _retention_environment(scene: Scene) -> dict[str, str]:
    """Which checkpoints are kept; the worker removes the others after each commit."""
    kept = scene.plan.spec.checkpoints
    values = {"SEATRIAL_KEEP_LAST": str(kept.keep_last)}
    if kept.keep_every_steps is not None:
        values["SEATRIAL_KEEP_EVERY_STEPS"] = str(kept.keep_every_steps)
    return values


def logger_environment(scene: Scene) -> dict[str, str]:
    """Where the numbers of the run go, in a pod or on this host."""
    spec = scene.plan.spec
    values = {"SEATRIAL_RUN": spec.name}
    if spec.monitoring.prometheus.enabled:
        values["SEATRIAL_METRICS_PORT"] = str(spec.monitoring.prometheus.port)
    if spec.monitoring.wandb is not None:
        # Without an id every restart begins a new run there (KempnerForge#19).
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
    """The pod's own address to serve metrics at: whoever collects them comes from outside."""
    if not scene.plan.spec.monitoring.prometheus.enabled:
        return []
    source = {"fieldRef": {"fieldPath": "status.podIP"}}
    return [{"name": "SEATRIAL_METRICS_ADDRESS", "valueFrom": source}]


def _interfaces(scene: Scene) -> dict[str, str]:
    """The interface for bootstrap and for gloo, where the profile names one."""
    name = scene.profile.network_interface
    return {"NCCL_SOCKET_IFNAME": name, "GLOO_SOCKET_IFNAME": name} if name else {}


def recorder_environment(scene: Scene) -> dict[str, str]:
    """Let torch write down what each rank did when a collective runs out of time.

    The names are those of torch 2.13's FlightRecorder.hpp and ProcessGroupNCCL.hpp. Of the file the
    older name is taken, which earlier versions read as well.
    """
    return {
        "TORCH_FR_BUFFER_SIZE": str(DUMP_ENTRIES),
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
        "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": f"{scene.home}/{DUMP}",
    }


def identity() -> list[Manifest]:
    """The pod and the node it is on, for logs and findings."""
    paths = {"NODE_NAME": "spec.nodeName", "POD_NAME": "metadata.name"}
    return [
        {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
        for name, path in paths.items()
    ]


def plain(values: dict[str, str]) -> list[Manifest]:
    """Variables with their values."""
    return [{"name": name, "value": escape(value)} for name, value in sorted(values.items())]


def with_secrets(variables: list[Manifest], scene: Scene) -> list[Manifest]:
    """Add the variables whose values stand in secrets; they replace defaults of their name.

    One that the spec gives twice stays there twice: `check` refuses it, and so does the API server.
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
