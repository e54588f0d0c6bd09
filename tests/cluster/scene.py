# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A place for runs in a cluster with a node, and what befalls a run there."""

import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from seatrial.engines.registry import ENGINES
from tests.cluster.cluster import Cluster
from tests.cluster.toy_run import CLAIM, MEGATRON, CommandLine, Toy, losses, starts

OPERATORS = ("pytorchjob", "trainjob")


class Scene:
    """A namespace with a volume, and commands of one who may launch there."""

    def __init__(
        self,
        cluster: Cluster,
        operator: str,
        home: Path,
        toy: Toy = MEGATRON,
        *,
        prefix: str = "run",
        observer: bool = False,
    ) -> None:
        """Make it; specs lie in `home`, and an observer may look at the whole cluster too."""
        self.cluster = cluster
        self.operator = operator
        self.toy = toy
        self.namespace = cluster.new_namespace(prefix)
        self.volume = cluster.offer_volume(self.namespace, CLAIM, "shared", gib=100)
        claim = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": CLAIM, "namespace": self.namespace},
            "spec": {
                "accessModes": ["ReadWriteMany"],
                "storageClassName": "shared",
                "resources": {"requests": {"storage": "100Gi"}},
            },
        }
        cluster.kubectl("apply", "-f", "-", given=json.dumps(claim))
        limited = cluster.restricted_kubeconfig(self.namespace, operator, observer=observer)
        self.seatrial = CommandLine(home, limited, self.namespace)
        self.seatrial.prepare()

    def write_spec(self, run: str, steps: int, every: int) -> Path:
        """A spec of the toy that saves every so many steps."""
        return self.seatrial.write_spec(run, self.operator, steps, every, self.toy)

    def pods(self) -> list[str]:
        """The names of all pods."""
        answer = self.cluster.api().ask("GET", f"/api/v1/namespaces/{self.namespace}/pods")
        return sorted(each["metadata"]["name"] for each in answer.body["items"])

    def kill_pod(self, name: str) -> None:
        """Delete a pod at once: to start a program for it takes seconds on a busy machine."""
        path = f"/api/v1/namespaces/{self.namespace}/pods/{name}"
        answer = self.cluster.api().ask("DELETE", path, query={"gracePeriodSeconds": "0"})
        assert answer.accepted, answer.message

    def kill_a_task(self, run: str, process: "subprocess.Popen[str]") -> str:
        """Delete the first pod of data preparation that runs, while a command goes on; its name."""
        pods = f"/api/v1/namespaces/{self.namespace}/pods"
        selector = {"labelSelector": f"batch.kubernetes.io/job-name={run}--data"}
        while process.poll() is None:
            for pod in self.cluster.api().ask("GET", pods, query=selector).body["items"]:
                if pod["status"]["phase"] == "Running":
                    name = str(pod["metadata"]["name"])
                    self.kill_pod(name)
                    return name
            time.sleep(0.2)
        return ""

    def newest_step(self, run: str) -> int:
        """The last step that a run has done; 0 before the first."""
        try:
            return max(losses(self.volume, run), default=0)
        except FileNotFoundError:
            return 0

    def succeeds(self, run: str) -> dict[int, float]:
        """Wait until a run is over, which must be well; its losses."""
        where = ("-n", self.namespace)
        waited = self.seatrial.run("wait", run, *where, "--timeout", 1200, code=None, timeout=1500)
        if "succeeded" not in waited:
            raise AssertionError(waited + self.seatrial.run("logs", run, *where, code=None))
        return losses(self.volume, run)


def until(happened: Callable[[], bool], what: str, seconds: float = 900) -> None:
    """Wait for something; not for ever."""
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, f"{what} did not happen within {seconds:.0f} s"
        time.sleep(0.3)


@dataclass(frozen=True, slots=True)
class Loss:
    """A run that has lost a pod."""

    pod: str
    """The pod."""
    resumed: list[int]
    """The steps from which it went on."""
    lines: int
    """Lines of its log that were followed."""


def lose_a_pod(scene: Scene, run: str, steps: int, every: int, delete_at: int) -> Loss:
    """Launch a run, delete a pod after a step, and wait until it is over all the same."""
    scene.seatrial.run("launch", scene.write_spec(run, steps, every))
    follower = scene.seatrial.started("logs", run, "--follow", "--json", "-n", scene.namespace)
    until(lambda: scene.newest_step(run) >= delete_at, "training")
    victim = next(name for name in scene.pods() if name.startswith(run))
    scene.kill_pod(victim)
    assert scene.newest_step(run) < steps - every, "it was over before the pod was deleted"
    scene.succeeds(run)
    out, _ = follower.communicate(timeout=120)

    again = starts(scene.volume, run)
    assert again[0] == 0
    assert len(again) > 1
    # From a save of the interval, or from that of the pod that was told to end.
    assert again[-1] >= delete_at - every
    name = ENGINES[scene.toy.engine].checkpoint_naming.directory_name(again[-1])
    assert (scene.volume / run / "checkpoints" / name).is_dir()
    lines = [json.loads(line) for line in out.splitlines()]
    assert {line["rank"] for line in lines} >= {0, 1, 2, 3}
    return Loss(victim, again[1:], len(lines))
