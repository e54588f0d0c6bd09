# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial data prepare --on kubernetes` in a real cluster, with a pod killed on the way."""

import json
from pathlib import Path

import pytest

from tests.cluster import images
from tests.cluster.cluster import Cluster
from tests.cluster.scene import Scene
from tests.cluster.toy_run import CLAIM
from tests.unit.dataprep.little_corpus import documents, tokenizer_json

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(1800)]

SPEC = """\
apiVersion: seatrial.dev/v1alpha1
name: little
model: {{preset: gpt3-125m}}
data:
  sources: [{{from: /data/corpus/0}}, {{from: /data/corpus/1}}, {{from: /data/corpus/2}}]
  tokenizer: /data/tokenizer.json
training: {{steps: 1, micro_batch_size: 1, global_batch_size: 8}}
parallelism:
  tp_size: 1
  pp_size: 1
  vp_size: 1
  cp_size: 1
  ep_size: 1
  sequence_parallel: false
  sharding: optimizer
  recompute: none
cluster:
  profile: eks
  node_type: p4d.24xlarge
  namespace: {namespace}
  image: {image}
  storage: {{claim: {claim}}}
  preparation: {{pods: 2, cpus: 1, memory: 1Gi, image: {image}}}
checkpoints: {{every_steps: 1}}
"""


def test_data_are_prepared_in_pods_and_the_same_as_here(cluster: Cluster, tmp_path: Path) -> None:
    scene = Scene(cluster, "pytorchjob", tmp_path, prefix="data")
    seatrial, namespace, volume = scene.seatrial, scene.namespace, scene.volume
    for number in range(3):
        directory = volume / "corpus" / str(number)
        directory.mkdir(parents=True)
        lines = (json.dumps(each) for each in documents(number, 20_000))
        (directory / "part.jsonl").write_text("".join(f"{line}\n" for line in lines))
    (volume / "tokenizer.json").write_text(tokenizer_json())
    spec = tmp_path / "little.yaml"
    spec.write_text(SPEC.format(namespace=namespace, image=images.DATA, claim=CLAIM))

    process = seatrial.started("data", "prepare", spec, "--on", "kubernetes", "--json")
    killed = scene.kill_a_task("little", process)
    out, err = process.communicate(timeout=900)
    assert process.returncode == 0, out + err
    assert killed, "it was over before a pod of a task could be killed"
    made = json.loads(out)

    # The same on this host, from the same files.
    here = tmp_path / "here"
    sources = ", ".join(f"{{from: {volume}/corpus/{number}}}" for number in range(3))
    words = (f"data.sources=[{sources}]", f"data.tokenizer={volume}/tokenizer.json")
    seatrial.run("data", "prepare", spec, *words, "--to", here, "--workers", 1)
    there = volume / "little" / "data"
    names = sorted(path.name for path in here.glob("*.bin"))
    assert names
    for name in names:
        assert (there / name).read_bytes() == (here / name).read_bytes(), name
    assert seatrial.run("data", "verify", spec, "--on", "kubernetes", timeout=300)
    jobs = json.loads(cluster.kubectl("get", "jobs", "-n", namespace, "-o", "json"))["items"]
    tasks = next(j for j in jobs if j["metadata"]["name"] == "little--data")
    print(  # noqa: T201
        f"{tasks['spec']['completions']} tasks in pods, pod {killed} killed; "
        f"{made['tokens']:,} tokens, {len(names)} files equal to those made here"
    )
    assert tasks["status"]["succeeded"] == tasks["spec"]["completions"]
    cluster.delete_namespace(namespace)
