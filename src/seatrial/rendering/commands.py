# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The commands of a run's containers. No shell interprets them."""

from dataclasses import dataclass

from seatrial.engines.registry import ENGINES
from seatrial.rendering.context import Scene
from seatrial.rendering.environment import SCRATCH, SITE, reduces_in_switches
from seatrial.rendering.expansion import Argument, Command, Option, Reference
from seatrial.rendering.resources import (
    GIB,
    floors_of,
    grace_seconds,
    saved_bytes,
    shared_memory_bytes,
)
from seatrial.rendering.volumes import LOCK
from seatrial.spec.cluster import Operator

SUPERVISOR_MODULE = "seatrial.worker.supervisor"
"""Starts torchrun on a node and supervises its processes."""
SUPERVISION = f"{SCRATCH}/supervisor"
"""Where a pod's processes write their heartbeats. Not needed after the pod exits."""
FINAL_CODES = (78, 81, 82)
"""Worker exit codes after which restarting the attempt would not help.

78 means that the image lacks what the run needs (`worker/process.py`). 83 is not one of them: a
later start has replaced this worker (`checkpoints/stopping.py`)."""
LEFT_OF_GRACE = 15
"""Seconds of the pod's grace period that are reserved for the supervisor."""
PREFLIGHT_MODULE = "seatrial.worker.node.preflight"
"""Checks a node before training starts there."""
RENDEZVOUS_PORT = 23456
"""The port of torchrun's rendezvous; the Training Operator's default."""
PREFLIGHT_PORT = 29400
"""The port for the all-reduce of the preflight."""


@dataclass(frozen=True, slots=True)
class PodRendezvous:
    """How the nodes of a run find each other."""

    node_rank: int | Reference
    """The rank of this node, or the variable that contains it."""
    address: str
    """The host on which node 0 listens; empty if the launcher finds it."""
    first_rank: int = 0
    """Offset of the node rank, for operators that count each replica type from 0."""

    def ranked(self, text: str) -> Argument:
        """Append the node rank to the text."""
        rank = self.node_rank
        return (text, rank) if isinstance(rank, Reference) else f"{text}{rank}"


def training_command(scene: Scene, meeting: PodRendezvous, directory: str = SUPERVISION) -> Command:
    """Return the supervisor command, with nodes, processes, rank, rendezvous and engine."""
    machines = scene.plan.machines
    return Command(
        module=SUPERVISOR_MODULE,
        options={
            "nodes": machines.nodes,
            "processes": machines.processes_per_node,
            "node-rank": meeting.ranked(""),
            "address": meeting.address,
            "port": RENDEZVOUS_PORT,
            # Unique, so that processes of other attempts or of a deleted run cannot join.
            "name": attempt_name(scene),
            "restarts": scene.plan.spec.cluster.restarts,
            "grace-seconds": grace_seconds(scene) - LEFT_OF_GRACE,
            "directory": directory,
        },
        rest=(
            "--",
            meeting.ranked(f"--log-dir={log_directory(scene)}/node-"),
            *_process(scene),
        ),
    )


def probe_command(kind: str) -> Command:
    """Return the command of a kubelet probe."""
    return Command(module=f"{SUPERVISOR_MODULE}.probe", words=(kind, SUPERVISION))


def hyperpod_command(scene: Scene) -> Command:
    """Return the command of HyperPod's launcher, which finds rank and rendezvous itself."""
    machines = scene.plan.machines
    return Command(
        "hyperpodrun",
        options={
            "nnodes": machines.nodes,
            "nproc-per-node": machines.processes_per_node,
            "log-dir": "/tmp/hyperpod",  # noqa: S108  (inside the container, not shared)
        },
        rest=tuple(_process(scene)),
    )


def log_directory(scene: Scene) -> str:
    """Return the directory for the logs of this attempt's processes."""
    return f"{scene.home}/logs/attempt-{scene.attempt.number}"


def attempt_name(scene: Scene) -> str:
    """Return a name that is unique among all attempts, including those of deleted runs."""
    name = f"{scene.plan.spec.name}-attempt-{scene.attempt.number}"
    return "-".join(filter(None, (name, scene.attempt.submission)))


def _process(scene: Scene) -> list[str]:
    """Return the module and the arguments of each process."""
    engine = ENGINES[scene.plan.spec.engine.name]
    # On this host, all files are on one disk.
    scratch = "" if scene.plan.machines.operator is Operator.TORCHRUN else SCRATCH
    arguments = engine.pod_arguments(scene.plan, on_cpu=scene.on_cpu, scratch=scratch)
    if engine.sharp_option and reduces_in_switches(scene):
        arguments.setdefault(engine.sharp_option, True)
    return ["--tee=3", "--module", engine.modules.pod, *engine.command_line(arguments)]


def preflight_command(scene: Scene, meeting: PodRendezvous | None) -> Command:
    """Return the preflight command. Without a rendezvous, it skips the all-reduce."""
    machines = scene.plan.machines
    options: dict[str, Option] = {
        "gpus": 0 if scene.on_cpu else machines.processes_per_node,
        "shared-memory-gib": shared_memory_bytes(scene) // GIB,
        "mount": scene.plan.spec.cluster.storage.mount,
        "directory": scene.home,
        "free-bytes": saved_bytes(scene.plan),
    }
    if scene.fabric_devices:
        options |= {"devices": scene.fabric.device_glob, "device-count": scene.fabric_devices}
    floors = floors_of(scene).to_text()
    if floors:
        options["floors"] = floors
    if meeting is not None:
        options |= {
            "nodes": machines.nodes,
            "processes": machines.processes_per_node,
            "node-rank": meeting.ranked(""),
            "first-rank": meeting.first_rank,
            "master-addr": meeting.address,
            "master-port": PREFLIGHT_PORT,
            # The replacement of a lost pod finds this file and skips the all-reduce.
            "met": f"{log_directory(scene)}/{_met(scene)}",
        }
    return Command(module=PREFLIGHT_MODULE, options=options)


def _met(scene: Scene) -> str:
    """Return the name of the file that records that the nodes have met.

    The volume outlives a deleted run, and the attempts of the next run with this name start at 1
    again. It would find the old file and skip the check between its nodes, so the file name
    contains the identity of the launch. The job's uid is not available in a pod: the downward API
    does not expose owners, and pods have no access to the API server.
    """
    submission = scene.attempt.submission
    return f"met-{submission}" if submission else "met"


def install_command(scene: Scene) -> Command:
    """Install the worker from its lock file into a directory that all containers share."""
    lock = ENGINES[scene.plan.spec.engine.name].installation.lock
    return Command(
        module="pip",
        words=("install",),
        options={
            "no-input": True,
            "disable-pip-version-check": True,
            "require-hashes": True,
            "no-deps": True,
            "requirement": f"{LOCK}/{lock}",
            "target": SITE,
        },
    )
