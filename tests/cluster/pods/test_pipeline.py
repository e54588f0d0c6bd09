# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""One run in a real cluster from compressed text to verified checkpoints, weights and a report.

`seatrial run` walks it; a pod is killed while data are prepared, and one while it trains. The pod
that exports the weights compares their logits with those of the engine's own model.
"""

import json
import subprocess
from pathlib import Path

import pytest

from seatrial.checkpoints.exchange.export_plan import EXPORT_RECORD
from seatrial.engine_process.weights import LOGITS_BAR
from tests.cluster import images
from tests.cluster.cluster import Cluster
from tests.cluster.scene import OPERATORS, Scene, until
from tests.cluster.toy_run import CLAIM, FOUNDRY, MEGATRON, Toy, starts
from tests.pipeline_runs import Clock, record, write_corpus

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(3600)]

RUN = "pipeline"
STEPS = 400
SAVE_EVERY = 20
KILL_AT = 45
"""The step after which the training pod is killed."""
SPEC = """\
apiVersion: seatrial.dev/v1alpha1
name: {run}
engine: {{name: {toy.engine}}}
model:
  dimensions:
    family: {toy.family}
    layers: 2
    hidden_size: 64
    heads: 4
    vocab_size: 512
    max_positions: 128
data:
  sources: [{{from: /data/corpus}}]
  tokenizer: /data/tokenizer.json
training:
  steps: {steps}
  sequence_length: 128
  micro_batch_size: 2
  global_batch_size: 8
  precision: fp32
parallelism: {{tp_size: auto, pp_size: auto}}
cluster:
  profile: test-cluster
  operator: {operator}
  namespace: {namespace}
  processes_per_node: 2
  image: {toy.image}
  storage: {{claim: {claim}}}
  preparation: {{pods: 1, cpus: 1, memory: 1Gi, image: {data_image}}}
checkpoints: {{every_steps: {every}}}
monitoring: {{log_every_steps: 1, tensorboard: false}}
"""


class Pipeline:
    """A walk through the steps of a run, with a clock."""

    def __init__(self, scene: Scene) -> None:
        """Write the spec, and the corpus onto the volume."""
        self.scene = scene
        self.clock = Clock()
        self.spec = scene.seatrial.home / "run.yaml"
        self.spec.write_text(
            SPEC.format(
                run=RUN,
                toy=scene.toy,
                operator=scene.operator,
                namespace=scene.namespace,
                claim=CLAIM,
                data_image=images.DATA,
                steps=STEPS,
                every=SAVE_EVERY,
            )
        )
        write_corpus(scene.volume, 20_000)

    def walk(self, *more: str) -> str:
        """Go on to a step, or to the end; what was printed."""
        return self.ended(self.started(*more))

    def started(self, *more: str) -> "subprocess.Popen[str]":
        """The walk, while it goes on."""
        return self.scene.seatrial.started("run", self.spec, *more)

    def ended(self, process: "subprocess.Popen[str]") -> str:
        """What a command printed that must end well."""
        out, err = process.communicate(timeout=1500)
        assert process.returncode == 0, out + err
        assert "Traceback" not in out + err
        return out + err


@pytest.mark.parametrize(
    ("toy", "operator"),
    [(toy, operator) for toy in (MEGATRON, FOUNDRY) for operator in OPERATORS],
    ids=lambda given: str(given) if isinstance(given, str) else str(given.engine),
)
def test_a_run_comes_all_the_way_in_a_cluster(
    cluster: Cluster, toy: Toy, operator: str, tmp_path: Path
) -> None:
    scene = Scene(cluster, operator, tmp_path, toy, prefix=RUN, observer=True)
    pipeline = Pipeline(scene)
    clock, seatrial = pipeline.clock, scene.seatrial
    with clock.step("rules"):
        pipeline.walk("--until", "rules")
    with clock.step("data"):
        walking = pipeline.started("--until", "data")
        task = scene.kill_a_task(RUN, walking)
        pipeline.ended(walking)
    assert task, "it was over before a pod of a task could be killed"
    for step in ("plan", "check", "rehearse", "launch"):
        with clock.step(step):
            pipeline.walk("--until", step)
    with clock.step("wait"):
        watching = seatrial.started("watch", pipeline.spec)
        until(lambda: scene.newest_step(RUN) >= KILL_AT, "training")
        pod = next(
            name for name in scene.pods() if name.startswith((f"{RUN}-master", f"{RUN}-node"))
        )
        scene.kill_pod(pod)
        assert scene.newest_step(RUN) < STEPS - SAVE_EVERY, "it was over before the pod was killed"
        pipeline.walk("--until", "wait")
        watched = pipeline.ended(watching)
    assert f"step {STEPS} of {STEPS}" in watched
    resumed = starts(scene.volume, RUN)[1:]
    assert resumed
    assert min(resumed) >= KILL_AT - SAVE_EVERY
    with clock.step("verify"):
        assert f"step {STEPS}" in pipeline.walk("--until", "verify")
    with clock.step("export"):
        assert f"step {STEPS}" in pipeline.walk("--until", "export")
    with clock.step("report"):
        assert f"{RUN} finished: " in pipeline.walk()
    assert "<html" in (tmp_path / f"{RUN}-report.html").read_text()[:500]

    largest = gate(scene.volume)
    gated = f"  logits of the export: {largest:.1e} from the engine's"
    killed = f"  killed: {task} with data, {pod} after step {KILL_AT}, resumed at {resumed}"
    title = f"{toy.engine} as {operator}"
    print("\n".join(["", clock.table(title), killed, gated]))  # noqa: T201
    record(title, clock, resumed, largest)
    cluster.delete_namespace(scene.namespace)


def gate(volume: Path) -> float:
    """The largest difference of a logit between the engine and the export, as the pod found it."""
    told = json.loads((volume / RUN / "weights" / EXPORT_RECORD).read_text())
    assert told["step"] == STEPS
    largest: float = told["logits"]["largest_difference"]
    assert largest <= LOGITS_BAR
    return largest
