# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The commands that the containers of a run execute; no shell ever reads them."""

from dataclasses import dataclass

from seatrial.engines.registry import ENGINES
from seatrial.rendering.context import Scene
from seatrial.rendering.environment import SCRATCH, SITE
from seatrial.rendering.expansion import Argument, Command, Option, Reference
from seatrial.rendering.resources import grace_seconds, saved_bytes, shared_memory_gib
from seatrial.rendering.volumes import LOCK
from seatrial.spec.cluster import Operator

SUPERVISOR_MODULE = "seatrial.worker.supervisor"
"""What starts torchrun on a node, and sees to its processes."""
SUPERVISION = f"{SCRATCH}/supervisor"
"""Where a pod's processes leave their heartbeats; of no use to anybody after it."""
FINAL_CODES = (81, 82)
"""Exit codes by which a worker says that no start of the attempt would help; 83, of one that a
later start has replaced, says nothing of that later one (`checkpoints/stopping.py`)."""
LEFT_OF_GRACE = 15
"""Seconds of a pod's grace that the supervisor keeps for itself."""
PREFLIGHT_MODULE = "seatrial.worker.node.preflight"
"""What looks at a node before training starts there."""
RENDEZVOUS_PORT = 23456
"""Where torchrun's processes meet; the training operator's own default."""
PREFLIGHT_PORT = 29400
"""Where the nodes meet before that, for an all-reduce."""


@dataclass(frozen=True, slots=True)
class PodRendezvous:
    """How the nodes of a run find each other."""

    node_rank: int | Reference
    """This node's number, or the variable that holds it."""
    address: str
    """The host on which node 0 listens; empty when the launcher finds it."""
    first_rank: int = 0
    """What is to be added to the node's number, where the operator counts roles from 0 each."""

    def ranked(self, text: str) -> Argument:
        """The text with this node's number behind it."""
        rank = self.node_rank
        return (text, rank) if isinstance(rank, Reference) else f"{text}{rank}"


def training_command(scene: Scene, meeting: PodRendezvous, directory: str = SUPERVISION) -> Command:
    """Start the supervisor with everything said: nodes, processes, rank, rendezvous, engine."""
    machines = scene.plan.machines
    return Command(
        module=SUPERVISOR_MODULE,
        options={
            "nodes": machines.nodes,
            "processes": machines.processes_per_node,
            "node-rank": meeting.ranked(""),
            "address": meeting.address,
            "port": RENDEZVOUS_PORT,
            # Nobody of another attempt, or of a run that had this name before, is let in.
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
    """What the kubelet asks a supervised pod."""
    return Command(module=f"{SUPERVISOR_MODULE}.probe", words=(kind, SUPERVISION))


def hyperpod_command(scene: Scene) -> Command:
    """HyperPod's launcher, which finds rank and rendezvous itself, and whose logs it watches."""
    machines = scene.plan.machines
    return Command(
        "hyperpodrun",
        options={
            "nnodes": machines.nodes,
            "nproc-per-node": machines.processes_per_node,
            "log-dir": "/tmp/hyperpod",  # noqa: S108  (of the container, which shares it with none)
        },
        rest=tuple(_process(scene)),
    )


def log_directory(scene: Scene) -> str:
    """Where the processes of this attempt write what they print."""
    return f"{scene.home}/logs/attempt-{scene.attempt.number}"


def attempt_name(scene: Scene) -> str:
    """What tells an attempt from all others, those of a run that was deleted included."""
    name = f"{scene.plan.spec.name}-attempt-{scene.attempt.number}"
    return "-".join(filter(None, (name, scene.attempt.submission)))


def _process(scene: Scene) -> list[str]:
    """What each process is, and what the engine is told."""
    engine = ENGINES[scene.plan.spec.engine.name]
    # On this host there is no disk beside the one that everything is on.
    scratch = "" if scene.plan.machines.operator is Operator.TORCHRUN else SCRATCH
    arguments = engine.pod_arguments(scene.plan, on_cpu=scene.on_cpu, scratch=scratch)
    return ["--tee=3", "--module", engine.modules.pod, *engine.command_line(arguments)]


def preflight_command(scene: Scene, meeting: PodRendezvous | None) -> Command:
    """What is looked at on each node, and how the nodes meet for the all-reduce."""
    machines = scene.plan.machines
    options: dict[str, Option] = {
        "gpus": 0 if scene.on_cpu else machines.processes_per_node,
        "shared-memory-gib": shared_memory_gib(scene),
        "mount": scene.plan.spec.cluster.storage.mount,
        "directory": scene.home,
        "free-bytes": saved_bytes(scene.plan),
    }
    if scene.fabric_devices:
        options |= {"devices": scene.fabric.device_glob, "device-count": scene.fabric_devices}
    if meeting is not None:
        options |= {
            "nodes": machines.nodes,
            "processes": machines.processes_per_node,
            "node-rank": meeting.ranked(""),
            "first-rank": meeting.first_rank,
            "master-addr": meeting.address,
            "master-port": PREFLIGHT_PORT,
            # A pod that replaces a lost one finds here that the others are past this.
            "met": f"{log_directory(scene)}/{_met(scene)}",
        }
    return Command(module=PREFLIGHT_MODULE, options=options)


def _met(scene: Scene) -> str:
    """The name of the file that says that the nodes have met.

    The volume outlives a run that is deleted, and the next one's attempts are counted from 1
    again: it would find the file of the one before and never look between its nodes. So the
    launch's own identity is in the name. Of what tells submissions apart, the job's uid, a pod
    learns nothing: the downward API has no owners, and pods have no right to ask.
    """
    submission = scene.attempt.submission
    return f"met-{submission}" if submission else "met"


def install_command(scene: Scene) -> Command:
    """Install the worker by its lock file into a directory that the other containers share."""
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
