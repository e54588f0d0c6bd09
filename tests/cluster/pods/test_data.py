# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial data prepare --on kubernetes` in a real cluster, with a pod killed on the way.

The node shows the development environment to its pods, which has the libraries of data
preparation; the engine's has not.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import images, node
from tests.cluster.cluster import Cluster, Tier, running
from tests.cluster.toy_run import CLAIM, CommandLine
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


@pytest.fixture(scope="module")
def data_cluster() -> Iterator[Cluster]:
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(node, "worker_environment", lambda: Path(sys.prefix))
        with running(Path(folder) / "home", Tier.NODE) as found:
            yield found


def test_data_are_prepared_in_pods_and_the_same_as_here(
    data_cluster: Cluster, tmp_path: Path
) -> None:
    namespace = data_cluster.new_namespace("data")
    volume = data_cluster.offer_volume(namespace, CLAIM, "shared", gib=10)
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": CLAIM, "namespace": namespace},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "shared",
            "resources": {"requests": {"storage": "10Gi"}},
        },
    }
    data_cluster.kubectl("apply", "-f", "-", given=json.dumps(claim))
    for number in range(3):
        directory = volume / "corpus" / str(number)
        directory.mkdir(parents=True)
        lines = (json.dumps(each) for each in documents(number, 20_000))
        (directory / "part.jsonl").write_text("".join(f"{line}\n" for line in lines))
    (volume / "tokenizer.json").write_text(tokenizer_json())
    limited = data_cluster.restricted_kubeconfig(namespace)
    seatrial = CommandLine(tmp_path, limited, namespace)
    seatrial.prepare()
    spec = tmp_path / "little.yaml"
    spec.write_text(SPEC.format(namespace=namespace, image=images.USERLAND, claim=CLAIM))

    process = seatrial.started("data", "prepare", spec, "--on", "kubernetes", "--json")
    killed = _kill_a_task(data_cluster, namespace, process)
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
    jobs = json.loads(data_cluster.kubectl("get", "jobs", "-n", namespace, "-o", "json"))["items"]
    tasks = next(j for j in jobs if j["metadata"]["name"] == "little-data")
    print(  # noqa: T201
        f"{tasks['spec']['completions']} tasks in pods, pod {killed} killed; "
        f"{made['tokens']:,} tokens, {len(names)} files equal to those made here"
    )
    assert tasks["status"]["succeeded"] == tasks["spec"]["completions"]
    data_cluster.delete_namespace(namespace)


def _kill_a_task(cluster: Cluster, namespace: str, process: "subprocess.Popen[str]") -> str:
    """Delete the first pod of a task that runs; its name."""
    selector = "batch.kubernetes.io/job-name=little-data"
    while process.poll() is None:
        text = cluster.kubectl("get", "pods", "-n", namespace, "-l", selector, "-o", "json")
        for pod in json.loads(text)["items"]:
            if pod["status"]["phase"] == "Running":
                name = str(pod["metadata"]["name"])
                cluster.kubectl(
                    *("delete", "pod", name, "-n", namespace, "--grace-period=0", "--force")
                )
                return name
        time.sleep(0.2)
    return ""
