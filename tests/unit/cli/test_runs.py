# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The commands about runs, against a server in memory."""

import json
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import pytest
from typer.testing import CliRunner

from seatrial.cluster.api import CallPatience
from seatrial.cluster.connection import Target, configuration_of
from seatrial.cluster.errors import ClusterError, unreachable
from seatrial.cluster.kinds import POD, PYTORCH_JOB, TRAIN_JOB
from seatrial.codes.cluster import ClusterCode
from seatrial.errors import FindingsError, MissingExtraError, UsageError
from seatrial.runs.history import logs
from seatrial.runs.launch import connect
from seatrial.runs.ledger.host import local_run
from seatrial.runs.ledger.ledger import AttemptRecord
from seatrial.runs.namespace import Site
from seatrial.sdk import runs as sdk_runs
from seatrial.sdk.runs import FoundRun
from tests.conftest import MEGATRON
from tests.unit.cluster.fake_api import FakeTime, FakeTransport, fake_api
from tests.unit.runs.fake_cluster import jobs, pod_of, running, set_condition


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> FakeTransport:
    """The server that every command reaches."""
    found, time = FakeTransport(), FakeTime()

    def reach(namespace: str = "", **_: Any) -> Site:
        api = fake_api(found, time)
        return Site(api, namespace or "default", sleep=time.sleep, clock=time.clock)

    monkeypatch.setattr(connect, "connect", reach)
    return found


def interrupted(*_: object, **__: object) -> NoReturn:
    raise KeyboardInterrupt


def ran(
    command: str, *words: object, code: int = 0, given: str | None = None, both: bool = False
) -> str:
    app = import_module(f"seatrial.cli.{command}").app
    result = CliRunner().invoke(app, [str(w) for w in words], input=given, catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.output if both else result.stdout


def test_an_interrupted_launch_says_what_stays_and_how_to_go_on(
    spec_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seatrial.cli.launch.launch", interrupted)
    said = ran("launch", spec_file, code=130, both=True)
    assert "Objects that were already created stay" in said
    assert f"seatrial launch {spec_file}" in said


def test_an_interruption_on_the_way_to_a_cluster_asks_it_nothing_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[object] = []

    def reach(*words: object, **_: object) -> NoReturn:
        asked.append(words)
        raise KeyboardInterrupt

    monkeypatch.setattr(connect, "connect", reach)
    ran("wait", "slim-7b", code=130)
    assert len(asked) == 1


def test_a_run_from_launch_to_delete(server: FakeTransport, spec_file: Path) -> None:
    assert "Launched slim-7b, attempt 1: 8 objects, including the PyTorchJob." in ran(
        "launch", spec_file
    )
    assert "slim-7b is already launched with this spec" in ran("launch", spec_file)
    (job,) = jobs(server)
    for index in (0, 1):
        server.put(pod_of(job, index, **running()))
    assert "attempt 1 · running" in ran("status", "slim-7b")
    assert json.loads(ran("status", spec_file, "--json"))["running"] == 2
    listed = ran("list").splitlines()
    assert listed[1].split()[:5] == ["slim-7b", "running", "1", "2/2", "PyTorchJob"]
    ran("wait", "slim-7b", "--timeout", 0, code=6)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FoundRun, "wait", interrupted)
        assert "slim-7b keeps running; to stop it: seatrial stop slim-7b" in ran(
            "wait", "slim-7b", code=130, both=True
        )
    set_condition(server, "Succeeded")
    assert "succeeded" in ran("wait", "slim-7b")
    with pytest.raises(UsageError, match="--yes"):
        ran("delete", "slim-7b")
    for key in [key for key in server.objects if key[0] == "pods"]:
        del server.objects[key]
    assert "kept: PersistentVolumeClaim slim-7b" in ran("delete", "slim-7b", "--yes")
    assert ran("list") == "No runs in default.\nnext  seatrial launch RUN.YAML\n"


BROKEN: dict[str, Callable[[str], str]] = {
    "a wrong value": lambda text: text.replace("tp_size: 4", "tp_size: four"),
    "an unknown key": lambda text: f"{text}bogus: 1\n",
    "another format": lambda text: text.replace("v1alpha1", "v9"),
    "no section of the model": lambda text: re.sub(r"model: .*\n", "", text),
    "a secret": lambda text: f"{text}description: hf_{'aB3' * 11}\n",
    "no YAML": lambda text: f"{text}a: [1, 2\n",
    "no YAML in the middle": lambda text: text.replace("training:", "training: {]"),
    "other characters": lambda text: f"{text}# \udcff\n",
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_run_is_seen_and_stopped_by_a_spec_with_errors(
    server: FakeTransport, spec_file: Path, broken: str
) -> None:
    ran("launch", spec_file, "cluster.namespace=trials", "--yes")
    text = spec_file.read_text().replace("cluster: {", "cluster: {namespace: trials, ")
    changed = BROKEN[broken](text)
    assert changed != text
    spec_file.write_bytes(changed.encode(errors="surrogateescape"))
    assert "slim-7b" in ran("status", spec_file, both=True)
    assert "Stopped slim-7b, attempt 1" in ran("stop", spec_file)


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("a: 1\n", "name"),
        ("name: [x]\n", "name"),
        ("name: a\ncluster: {profile: eks, namespace: 7}\n", "namespace"),
    ],
)
def test_a_run_that_a_spec_does_not_name_is_not_guessed(
    server: FakeTransport, spec_file: Path, text: str, field: str
) -> None:
    spec_file.write_text(text)
    with pytest.raises(UsageError, match=rf"{field}: cannot read .*from this file"):
        ran("stop", spec_file)


def test_a_first_launch_without_a_rehearsal_says_so(
    server: FakeTransport, spec_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = f"  Not rehearsed. To try it on a CPU first: seatrial rehearse {spec_file}"
    reports = spec_file.parent / ".seatrial" / "slim-7b"
    reports.mkdir(parents=True, exist_ok=True)
    # What did not hold, or did not come to its end, is none.
    (reports / "rehearsal-2026-11-15T03-10-00.json").write_text('{"ok": false}')
    (reports / "rehearsal-2026-11-15T03-20-00.json").write_text('{"ok": tr')
    first = ran("launch", spec_file)
    assert note in first.splitlines()
    assert "Launched slim-7b, attempt 1" in first
    assert "Not rehearsed" not in ran("launch", spec_file)
    assert "Not rehearsed" in ran("launch", spec_file, "name=other")
    (reports.parent / "third").mkdir()
    (reports.parent / "third" / "rehearsal-2026-11-15T03-30-00.json").write_text('{"ok": true}')
    assert "Not rehearsed" not in ran("launch", spec_file, "name=third")
    fsdp = ("parallelism.sharding=fsdp", "parallelism.tp_size=1", "parallelism.pp_size=1")
    more = ("parallelism.sequence_parallel=false",)
    assert "Not rehearsed" in ran("launch", spec_file, "name=fourth", *fsdp, *more)
    # What has no rehearsal is not told to have one.
    monkeypatch.setattr(type(MEGATRON), "no_rehearsal", lambda engine, plan: "It has none.")
    assert "Not rehearsed" not in ran("launch", spec_file, "name=fifth")


def test_what_comes_next_names_the_cluster_that_was_used(
    server: FakeTransport, spec_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(spec_file.parent)
    assert "next  seatrial status slim-7b\n" in ran("launch", spec_file)
    text = ran("launch", spec_file, "--context", "big one", "--kubeconfig", "k.yaml")
    assert "next  seatrial status slim-7b --kubeconfig k.yaml --context 'big one'\n" in text
    elsewhere = ("launch", spec_file, "cluster.namespace=research")
    assert "next  seatrial status slim-7b -n research\n" in ran(*elsewhere)
    # The spec of that namespace, and the name with it, lead there too.
    there = spec_file.with_name("there.yaml")
    there.write_text(spec_file.read_text().replace("nodes: 2", "nodes: 2, namespace: research"))
    for words in ((there,), ("slim-7b", "-n", "research")):
        following = "next  seatrial status slim-7b -n research   after the fix\n"
        assert following in ran("status", *words)
        assert following in ran("wait", *words, "--timeout", 0, code=6)
    assert "attempt 1" in ran("status", "slim-7b", "-n", "research")
    # A run of that name on this host would be found first.
    a_run_here(spec_file.parent)
    assert "next  seatrial status slim-7b -n default\n" in ran("launch", spec_file)


def test_what_comes_next_is_no_log_of_pods_that_have_not_begun(
    server: FakeTransport, spec_file: Path
) -> None:
    ran("launch", spec_file)
    (job,) = jobs(server)
    state = {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}
    container = {"name": "pytorch", "image": "a/b:1", "state": state}
    for index in (0, 1):
        server.put(pod_of(job, index, phase="Pending", containerStatuses=[container]))
    text = ran("status", "slim-7b")
    assert "  Do: " in text
    assert text.endswith("next  seatrial status slim-7b   after the fix\n")


def test_the_profile_of_a_spec_or_a_word_of_a_cluster_says_where_its_run_is(
    server: FakeTransport, spec_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(spec_file.parent)
    a_run_here(spec_file.parent)
    ran("launch", spec_file)
    assert "PyTorchJob in default/slim-7b" in " ".join(ran("status", spec_file).split())
    assert "on this host" in ran("status", "slim-7b")
    assert "PyTorchJob in default/slim-7b" in " ".join(
        ran("status", "slim-7b", "-n", "default").split()
    )
    there = "{profile: eks, node_type: p4d.24xlarge, nodes: 2}"
    here = "{profile: local, processes_per_node: 2}"
    spec_file.write_text(spec_file.read_text().replace(there, here))
    assert "on this host" in ran("status", spec_file)
    assert "PyTorchJob in default/slim-7b" in " ".join(
        ran("status", spec_file, "-n", "default").split()
    )


def a_run_here(directory: Path) -> None:
    record = AttemptRecord(1, "a", "2026-11-15T03:12:00Z", "torchrun", "sha256:1")
    local_run(directory, "slim-7b").add(record)


def test_runs_on_this_host_are_listed_beside_those_of_a_cluster(
    server: FakeTransport, spec_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(spec_file.parent)
    a_run_here(spec_file.parent)
    assert [one["kind"] for one in json.loads(ran("list", "--json"))] == ["torchrun"]
    ran("launch", spec_file, "name=there")
    assert {(one["run"], one["kind"]) for one in json.loads(ran("list", "--json"))} == {
        ("slim-7b", "torchrun"),
        ("there", "PyTorchJob"),
    }
    # A namespace that is named is the cluster's.
    assert "slim-7b" not in ran("list", "-n", "default")


@pytest.mark.parametrize(
    "trouble",
    [
        MissingExtraError("connecting to a cluster needs the Kubernetes client."),
        ClusterError(ClusterCode.CONFIG, "kubeconfig", "there is none.", "Make one."),
    ],
)
def test_runs_on_this_host_are_listed_without_a_cluster(
    spec_file: Path, monkeypatch: pytest.MonkeyPatch, trouble: Exception
) -> None:
    def none(*_: object, **__: object) -> NoReturn:
        raise trouble

    monkeypatch.chdir(spec_file.parent)
    monkeypatch.setattr(connect, "connect", none)
    with pytest.raises(type(trouble)):
        ran("list")
    a_run_here(spec_file.parent)
    listed = ran("list")
    assert listed.splitlines()[1].split()[:4] == ["slim-7b", "gone", "1", "torchrun"]
    assert listed.endswith("next  seatrial status slim-7b\n")
    assert "No cluster is configured" in ran("list", both=True)


def test_a_cluster_that_does_not_answer_is_trouble_all_the_same(
    spec_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(*_: object, **__: object) -> NoReturn:
        raise unreachable("https://there", "refused", 15)

    monkeypatch.chdir(spec_file.parent)
    monkeypatch.setattr(connect, "connect", silent)
    a_run_here(spec_file.parent)
    with pytest.raises(ClusterError, match="did not respond"):
        ran("list")
    with pytest.raises(ClusterError, match="did not respond"):
        ran("list", "--json")


def test_a_damaged_record_hides_no_other_run(
    spec_file: Path, monkeypatch: pytest.MonkeyPatch, server: FakeTransport
) -> None:
    monkeypatch.chdir(spec_file.parent)
    a_run_here(spec_file.parent)
    attempts = next((spec_file.parent / ".seatrial").glob("*/*/*.record")).parent
    broken = spec_file.parent / ".seatrial/broken" / attempts.name
    broken.mkdir(parents=True)
    (broken / "00001.record").write_text("{half")
    listed = {one["run"]: one for one in json.loads(ran("list", "--json"))}
    assert {name: one["state"] for name, one in listed.items()} == dict.fromkeys(listed, "gone")
    assert [finding["code"] for finding in listed["broken"]["findings"]] == ["ST-RUN-029"]
    assert listed["slim-7b"]["findings"] == []
    told = ran("list", both=True)
    assert "broken/attempts/00001.record" in told
    assert "slim-7b" in told


def test_a_changed_spec_is_refused_where_nobody_can_be_asked(
    server: FakeTransport, spec_file: Path
) -> None:
    ran("launch", spec_file)
    with pytest.raises(FindingsError, match=r"training\.seed: 7"):
        ran("launch", spec_file, "training.seed=7")
    assert "attempt 2" in ran("launch", spec_file, "training.seed=7", "--yes")


def test_a_failure_is_told_with_its_exit_code_and_the_attempts(
    server: FakeTransport, spec_file: Path
) -> None:
    ran("launch", spec_file)
    set_condition(server, "Failed", "PyTorchJob slim-7b has failed because it reached its limit.")
    text = ran("wait", "slim-7b", code=5)
    assert "attempt 1 · failed" in text
    assert "it reached its limit" in text
    assert "next  seatrial diagnose slim-7b" in text
    assert "seatrial launch RUN.YAML" in text
    assert "attempt 1 failed" in ran("launch", spec_file)


def test_logs_are_merged_by_time_and_chosen_by_rank(server: FakeTransport, spec_file: Path) -> None:
    ran("launch", spec_file)
    (job,) = jobs(server)
    for index in (0, 1):
        pod = server.put(pod_of(job, index, **running()))
        name = pod["metadata"]["name"]
        lines = [
            f"2026-11-15T03:12:0{2 * step + index}Z [default{index}]:step {step}".encode()
            for step in (1, 2)
        ]
        path = POD.path(job["metadata"]["namespace"], name, "log")
        server.streams[path] = [list(lines), list(lines)]
    # 8 processes on each node: the second of node 1 is rank 9.
    assert ran("logs", "slim-7b").splitlines() == [
        "03:12:02 rank 0   step 1",
        "03:12:03 rank 9   step 1",
        "03:12:04 rank 0   step 2",
        "03:12:05 rank 9   step 2",
    ]
    chosen = ran("logs", "slim-7b", "--rank", 9, "--json").splitlines()
    assert [json.loads(line)["text"] for line in chosen] == ["step 1", "step 2"]
    with pytest.raises(UsageError, match="ranks 0 to 15"):
        ran("logs", "slim-7b", "--rank", 16)


def test_ranks_are_those_of_the_job_while_pods_are_not_there(
    server: FakeTransport, spec_file: Path
) -> None:
    ran("launch", spec_file)
    assert ran("logs", "slim-7b", "--rank", 9) == ""
    with pytest.raises(UsageError, match="ranks 0 to 15"):
        ran("logs", "slim-7b", "--rank", 16)


@pytest.mark.parametrize("words", [(), ("--follow",)])
def test_a_container_that_no_pod_has_is_refused(
    server: FakeTransport, spec_file: Path, words: tuple[str, ...]
) -> None:
    ran("launch", spec_file)
    (job,) = jobs(server)
    server.put(pod_of(job, 0, **running()))
    with pytest.raises(UsageError, match=r"prefligth: use one of pytorch, .*preflight"):
        ran("logs", "slim-7b", "--container", "prefligth", *words)


def test_pods_that_are_too_many_to_be_followed_are_told_of(
    server: FakeTransport, spec_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran("launch", spec_file)
    (job,) = jobs(server)
    for index in (0, 1):
        pod = server.put(pod_of(job, index, **running()))
        path = POD.path(job["metadata"]["namespace"], pod["metadata"]["name"], "log")
        server.streams[path] = [[f"2026-11-15T03:12:0{index}Z [default0]:step 1".encode()]]
    monkeypatch.setattr(logs, "MOST_FOLLOWED", 1)
    told: list[str] = []
    site = Site(fake_api(server), "default", told.append)
    assert next(logs.read_logs(site, "slim-7b", logs.Asked(follow=True))).node == 0
    assert told == [
        "following only the first 1 of 2 pods. For the others, use --rank N or omit --follow."
    ]


def test_the_operator_that_is_served_is_taken_when_the_spec_leaves_the_choice(
    spec_file: Path, server: FakeTransport
) -> None:
    server.unserved = (PYTORCH_JOB,)
    spec: Any = {"properties": {"podTemplateOverrides": {}}}
    schema = {"io.trainer.v1alpha1.TrainJob": {"properties": {"spec": spec}}}
    server.openapi = {"components": {"schemas": schema}}
    ran("launch", spec_file)
    (job,) = jobs(server)
    assert job["kind"] == "TrainJob"
    stored = server.objects["configmaps", "default", "slim-7b--spec"]["data"]["run.yaml"]
    assert json.loads(stored)["cluster"]["operator_version"] == "2.1"
    with pytest.raises(FindingsError, match="has no operator pytorchjob; it has trainjob"):
        ran("launch", spec_file, "cluster.operator=pytorchjob")


def test_no_operator_at_all_is_refused(spec_file: Path, server: FakeTransport) -> None:
    server.unserved = (PYTORCH_JOB, TRAIN_JOB)
    with pytest.raises(FindingsError, match="Install pytorchjob"):
        ran("launch", spec_file)


def test_a_difference_is_shown_field_by_field(server: FakeTransport, spec_file: Path) -> None:
    new = ran("render", spec_file, "--diff")
    assert f"8 objects: 8 new\nnext  seatrial launch {spec_file}\n" in new
    ran("launch", spec_file)
    assert "8 objects: 8 same" in ran("render", spec_file, "--diff")
    text = ran("render", spec_file, "training.seed=7", "--diff")
    assert '"1234" → "7"' in text
    assert "digest" not in text
    found = json.loads(ran("render", spec_file, "training.seed=7", "--diff", "--json"))
    assert {each["verdict"] for each in found["objects"]} == {"changed", "same"}
    with pytest.raises(UsageError, match="--output"):
        ran("render", spec_file, "--diff", "-o", "somewhere")


def test_without_the_extra_the_command_to_install_it_is_named(
    spec_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect, "find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=r"pip install '\.\[cluster\]'"):
        ran("status", "slim-7b")


def test_who_only_looks_does_not_wait_long(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    def away(namespace: str = "", patience: CallPatience | None = None, **_: Any) -> Site:
        waits.append((patience or CallPatience()).outage)
        raise UsageError("away")

    monkeypatch.setattr(connect, "connect", away)
    looks = [("list",), ("status", "slim-7b"), ("logs", "slim-7b"), ("diagnose", "slim-7b")]
    for words in [*looks, ("watch", "slim-7b", "--once")]:
        with pytest.raises(UsageError, match="away"):
            ran(*words)
    assert waits == [15.0] * 5
    for words in [("logs", "slim-7b", "--follow"), ("wait", "slim-7b"), ("stop", "slim-7b")]:
        with pytest.raises(UsageError, match="away"):
            ran(*words)
    assert waits[5:] == [180.0] * 3


def test_a_name_that_no_run_can_have_is_refused(server: FakeTransport) -> None:
    with pytest.raises(UsageError, match="seatrial list"):
        ran("status", "Slim_7B")
    with pytest.raises(FindingsError, match="no run named slim-8b"):
        ran("status", "slim-8b")


@pytest.mark.parametrize("text", ["", "{}", "not: [yaml", "apiVersion: v1\nkind: Config\n"])
def test_a_kubeconfig_that_is_none_is_told(tmp_path: Path, text: str) -> None:
    file = tmp_path / "config"
    file.write_text(text)
    with pytest.raises(ClusterError, match="--kubeconfig") as caught:
        configuration_of(Target(str(file)))
    assert str(file) in str(caught.value)


def test_a_kubeconfig_that_is_absent_is_told(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="the file does not exist"):
        configuration_of(Target(str(tmp_path / "absent")))


def test_a_run_of_this_host_that_was_never_launched_asks_no_cluster(
    server: FakeTransport, spec_file: Path
) -> None:
    text = spec_file.read_text().replace(
        "profile: eks, node_type: p4d.24xlarge, nodes: 2", "profile: local"
    )
    spec_file.write_text(text)
    with pytest.raises(UsageError, match="was never launched on this host"):
        ran("status", spec_file)
    assert not server.calls


def test_without_a_client_of_clusters_only_this_directory_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sdk_runs, "find_spec", lambda _: None)
    local_run(tmp_path, "dinghy").add(
        AttemptRecord(1, "s1", "2026-11-15T03:12:00Z", "torchrun", "d")
    )
    with pytest.raises(UsageError, match=r"no run nope was launched.*Found: dinghy\."):
        ran("status", "nope")
