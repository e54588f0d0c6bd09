# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The container of a run on this host: the command that starts docker, podman or apptainer.

The container runs the same supervisor as a pod, from this Seatrial, which is mounted into it.
Secrets are never arguments: the runtime takes the values of these variables from its environment.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from seatrial.planning.plan import Plan, parent_location, weights_location
from seatrial.rendering.commands import attempt_name
from seatrial.rendering.context import Scene
from seatrial.rendering.environment import SCRATCH, SITE, cache_environment
from seatrial.rendering.expansion import Command
from seatrial.rendering.resources import SHARED_MEMORY_GIB
from seatrial.spec.addresses import tokenizer_name
from seatrial.spec.cluster import Container

END_WITH_STDIN = "--end-with-stdin"
"""The option of a supervisor that exits when its standard input ends."""
OWN = "/opt/seatrial/own"
"""Where the container sees this Seatrial."""
LOCK_FILE = "/opt/seatrial/lock.txt"
STACK_BYTES = 64 << 20
"""Stack limit of the processes, as NVIDIA recommends for its PyTorch images."""
CERTIFICATES = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
"""Variables with the path of a file, which is mounted under the same path."""
FORWARDED = (
    *("HF_TOKEN", "HF_ENDPOINT", "HF_HUB_OFFLINE", "HF_HUB_DOWNLOAD_TIMEOUT"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
    *("PIP_INDEX_URL", *CERTIFICATES),
    *("WANDB_API_KEY", "WANDB_BASE_URL", "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"),
    *("MLFLOW_TRACKING_TOKEN", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"),
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION"),
    *("AWS_ENDPOINT_URL", "AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_KEY"),
)
"""Variables of the user's environment that the container gets too, if they are set."""


@dataclass(frozen=True, slots=True)
class Bind:
    """A directory or file of this host that the container sees."""

    source: str
    target: str
    is_writable: bool = False

    def __str__(self) -> str:
        return f"{self.source}:{self.target}:{'rw' if self.is_writable else 'ro'}"


@dataclass(frozen=True, slots=True)
class ContainerHost:
    """What the container uses of this host."""

    package: Path
    """The package directory of this Seatrial."""
    cache: Path
    """The directory for caches that outlive the container."""
    site: Path | None
    """The directory with the engine, for an image that lacks it."""
    user: int
    group: int
    limits: tuple[str, ...] = ()
    """The resource limits of the user, as `NAME=SOFT:HARD`."""
    forwarded: tuple[str, ...] = ()
    """Names of the variables whose values the container takes from this host."""
    certificates: tuple[Bind, ...] = ()
    """The files that forwarded variables name."""


def container_environment() -> dict[str, str]:
    """Return the variables for a container, in addition to those of a run on this host."""
    # The image's own packages are at SITE, as in a pod.
    return cache_environment() | {"PYTHONPATH": f"{OWN}:{SITE}"}


def container_argv(
    scene: Scene, command: Command, variables: Mapping[str, str], host: ContainerHost
) -> tuple[str, ...]:
    """Return the command that runs a command with these variables in the run's container."""
    runtime = scene.plan.spec.cluster.container
    if runtime is None:
        raise ValueError("the run has no container")
    binds = [
        Bind(str(host.package), f"{OWN}/{host.package.name}"),
        Bind(str(host.cache), SCRATCH, is_writable=True),
        *([Bind(str(host.site), SITE)] if host.site else []),
        *run_binds(scene.plan),
    ]
    start = _apptainer if runtime is Container.APPTAINER else _docker_or_podman
    return (*start(scene, binds, variables, host), *command.on_host())


def install_argv(scene: Scene, lock: Path, host: ContainerHost) -> tuple[str, ...]:
    """Return the command that installs the engine into a directory of this host, once."""
    if host.site is None:
        raise ValueError("the image has the engine already")
    words = ["install", "--no-input", "--disable-pip-version-check", "--require-hashes"]
    words += ["--no-deps", f"--requirement={LOCK_FILE}", f"--target={SITE}"]
    command = Command(module="pip", words=tuple(words))
    binds = [Bind(str(lock), LOCK_FILE), Bind(str(host.site), SITE, is_writable=True)]
    binds.append(Bind(str(host.cache), SCRATCH, is_writable=True))
    is_apptainer = scene.plan.spec.cluster.container is Container.APPTAINER
    start = _apptainer if is_apptainer else _docker_or_podman
    return (*start(scene, binds, cache_environment(), host), *command.on_host())


def container_name(scene: Scene) -> str:
    """Return the name of the attempt's container."""
    return f"seatrial-{attempt_name(scene)}"


def run_binds(plan: Plan) -> list[Bind]:
    """Return the directories that the run reads or writes, under their own paths."""
    mount = plan.spec.cluster.storage.mount.rstrip("/")
    binds = [Bind(mount, mount, is_writable=True)]
    written = (plan.checkpoint_location, plan.data_location)
    read = (
        parent_location(plan.spec),
        weights_location(plan) or "",
        tokenizer_name(plan.model.tokenizer)[0] if plan.model.tokenizer else "",
        *(source.prepared or "" for source in plan.spec.data.sources or ()),
    )
    for path in (*written, *read):
        if not path.startswith("/") or f"{path}/".startswith(tuple(f"{b.target}/" for b in binds)):
            continue
        # The prefix of prepared data is not a file itself, so its directory is mounted.
        binds.append(Bind(_directory(path), _directory(path), is_writable=path in written))
    return binds


def _directory(path: str) -> str:
    found = Path(path)
    return str(found if found.is_dir() else found.parent)


def _docker_or_podman(
    scene: Scene, binds: list[Bind], variables: Mapping[str, str], host: ContainerHost
) -> tuple[str, ...]:
    """Return the start of a docker or podman command, up to the image."""
    runtime = Container(scene.plan.spec.cluster.container or Container.DOCKER)
    chosen, processes = scene.plan.spec.cluster.shm, scene.plan.machines.processes_per_node
    shared = f"{SHARED_MEMORY_GIB * processes}g" if chosen is None else f"{chosen}b"
    words = [runtime, "run", "--rm", "--interactive", f"--name={container_name(scene)}"]
    # The rendezvous listens on this host's loopback interface, as it does without a container.
    words += ["--network=host", f"--shm-size={shared}", f"--user={host.user}:{host.group}"]
    words += ["--cap-drop=ALL", "--security-opt=no-new-privileges", "--entrypoint=", "--workdir=/"]
    if host.user == 0:
        # Root outside a container can write to directories of other users.
        words.append("--cap-add=DAC_OVERRIDE")
    if runtime is Container.PODMAN:
        # Without a daemon, podman can only set limits that its user has.
        words += [f"--ulimit={limit}" for limit in host.limits]
        # A rootless container must map the user to itself.
        words += ["--userns=keep-id"] if host.user else []
    else:
        words += ["--ulimit=memlock=-1:-1", f"--ulimit=stack={STACK_BYTES}:{STACK_BYTES}"]
    if not scene.on_cpu:
        gpus = {Container.DOCKER: "--gpus=all", Container.PODMAN: "--device=nvidia.com/gpu=all"}
        words.append(gpus[runtime])
    words += [f"--volume={bind}" for bind in (*binds, *host.certificates)]
    words += [f"--env={name}={value}" for name, value in sorted(variables.items())]
    words += [f"--env={name}" for name in host.forwarded]
    return (*words, scene.image.reference)


def _apptainer(
    scene: Scene, binds: list[Bind], variables: Mapping[str, str], host: ContainerHost
) -> tuple[str, ...]:
    """Return the start of an apptainer command. It passes on the environment of its caller."""
    words = ["apptainer", "exec", "--pid", "--no-home", "--pwd=/"]
    words += [] if scene.on_cpu else ["--nv"]
    words += [f"--bind={bind}" for bind in (*binds, *host.certificates)]
    words += [f"--env={name}={value}" for name, value in sorted(variables.items())]
    return (*words, f"docker://{scene.image.reference}")
