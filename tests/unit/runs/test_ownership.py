# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Objects of other owners that have a name of a run: reported with their owner, never touched."""

import copy
import json
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from seatrial.cluster.errors import ConflictError
from seatrial.cluster.kinds import kind_of
from seatrial.cluster.transport import Answer, Call, Json
from seatrial.codes.runs import RunCode
from seatrial.errors import FindingsError
from seatrial.rendering.attempt import Attempt
from seatrial.rendering.names import COMPONENT_LABEL
from seatrial.rendering.reader_pod import VolumeCommand
from seatrial.rendering.render import Part, render
from seatrial.rendering.rules import unnamed_place
from seatrial.runs.data import reader_pod
from seatrial.runs.data.prepare import prepare_on_cluster
from seatrial.runs.data.reader_pod import read_inside
from seatrial.runs.launch.diff import DiffVerdict, compare
from seatrial.runs.launch.kubernetes import ClusterBackend
from seatrial.runs.ledger.ledger import AttemptOutcome, AttemptRecord, utc
from seatrial.runs.ownership import owner_of
from seatrial.runs.status.listing import list_runs
from seatrial.runs.status.status import status
from seatrial.runs.stop import delete, removal, stop
from tests.conftest import resolved
from tests.unit.cluster.fake_api import FakeTime, FakeTransport, once
from tests.unit.runs.fake_cluster import (
    CATALOG,
    jobs,
    launch,
    rendered,
    set_condition,
    site_of,
    wanted,
)
from tests.unit.runs.foreign_objects import (
    COPIED,
    HELM,
    NAMESPACE,
    RUN,
    agree,
    put,
    put_policy,
    set_by,
    state,
)

RENDERED = rendered(wanted()).manifests
RAW = "data={sources: [{from: 's3://corpus/raw'}], tokenizer: 'hf://gpt2'}"
IMAGE = "cluster.preparation.image=registry.example.com/data:1"


def test_a_network_policy_of_the_platform_team_is_neither_replaced_nor_deleted() -> None:
    server = FakeTransport()
    put_policy(server, **HELM)
    before = state(server)
    with pytest.raises(FindingsError) as caught:
        launch(site_of(server), wanted(), agree)
    (found,) = caught.value.findings
    assert found.code == RunCode.NOT_OURS
    assert str(found.where) == f"NetworkPolicy {NAMESPACE}/{RUN}"
    assert "Helm release baseline in namespace platform" in found.rule
    for command in (stop, lambda *at: delete(*at, volumes=True)):
        with pytest.raises(FindingsError, match="no run"):
            command(site_of(server), RUN)
    assert state(server) == before


def test_every_object_that_is_in_the_way_is_named_at_once() -> None:
    server = FakeTransport()
    for manifest in rendered(wanted()).manifests[:-1]:
        name = manifest["metadata"]["name"]
        put(server, manifest["apiVersion"], manifest["kind"], name)
    put(server, "v1", "ConfigMap", f"{RUN}--ledger")
    before = state(server)
    with pytest.raises(FindingsError) as caught:
        launch(site_of(server), wanted(), agree)
    assert len(caught.value.findings) == len(server.objects)
    assert state(server) == before


@pytest.mark.parametrize("owner", COPIED)
def test_objects_with_copied_labels_are_neither_applied_nor_deleted(owner: str) -> None:
    server = FakeTransport()
    names = [
        *((each["apiVersion"], each["kind"], each["metadata"]["name"]) for each in RENDERED),
        ("v1", "ConfigMap", f"{RUN}--ledger"),
    ]
    for api, kind, name in names:
        for called in {name, name.replace("--", "-")}:
            put(server, api, kind, called, **COPIED[owner])
    before = state(server)
    with pytest.raises(FindingsError) as caught:
        launch(site_of(server), wanted(), agree)
    assert {each.code for each in caught.value.findings} == {RunCode.NOT_OURS}
    assert len(caught.value.findings) == len(names)
    for command in (stop, lambda *at: delete(*at, volumes=True)):
        with pytest.raises(FindingsError, match="did not create"):
            command(site_of(server), RUN)
    assert state(server) == before


@pytest.mark.parametrize("owner", COPIED)
def test_what_has_an_older_name_and_copied_labels_stays(owner: str) -> None:
    server = FakeTransport()
    kinds = [("apps/v1", "Deployment", "tensorboard"), ("v1", "Service", "tensorboard")]
    theirs = [put(server, api, kind, f"{RUN}-{part}", **COPIED[owner]) for api, kind, part in kinds]
    theirs += [put(server, "batch/v1", "Job", f"{RUN}-data-list", **COPIED[owner])]
    before = json.dumps(theirs)
    assert launch(site_of(server), wanted(), agree).is_new
    # The preparation of data removes older jobs before it makes its own.
    site = site_of(server, FakeTime(on_sleep=lambda: (_ for _ in ()).throw(InterruptedError)))
    with pytest.raises(InterruptedError):
        prepare_on_cluster(site, resolved(RAW, IMAGE), CATALOG, unnamed_place)
    delete(site_of(server), RUN, volumes=True)
    assert json.dumps(list(server.objects.values())) == before


def test_an_object_with_copied_labels_is_not_noted_as_ours() -> None:
    server = FakeTransport()
    launch(site_of(server), wanted(), agree)
    stop(site_of(server), RUN)
    policy = put_policy(server, **COPIED["kubectl"])
    with pytest.raises(FindingsError, match="created it with kubectl-client-side-apply"):
        launch(site_of(server), wanted(), agree)
    assert policy["metadata"]["uid"] not in site_of(server).ledgers.objects_of(RUN)
    kept = delete(site_of(server), RUN, volumes=True).kept
    owner = "whoever created it with kubectl-client-side-apply"
    assert kept == (f"NetworkPolicy {RUN}, owned by {owner}",)


def applied_with_kubectl(server: FakeTransport) -> Json:
    """The job of a rendered run, as `kubectl apply` creates it."""
    job = copy.deepcopy(RENDERED[-1])
    job["metadata"]["managedFields"] = [set_by("kubectl", "Apply")]
    return server.put(job)


def test_a_rendered_job_that_kubectl_applied_is_shown_and_not_stopped() -> None:
    server = FakeTransport()
    applied_with_kubectl(server)
    before = state(server)
    assert status(site_of(server), RUN).state == "waiting"
    for command in (stop, lambda *at: delete(*at, volumes=True)):
        with pytest.raises(FindingsError, match="belongs to whoever created it with kubectl"):
            command(site_of(server), RUN)
    with pytest.raises(FindingsError, match="belongs to whoever created it with kubectl"):
        launch(site_of(server), wanted(), agree)
    assert state(server) == before


def test_a_copied_job_that_comes_first_is_not_taken_for_the_attempt() -> None:
    server = FakeTransport()

    def appears(call: Call) -> None:
        if call.method == "POST" and call.path.endswith("/pytorchjobs"):
            server.instead = None
            applied_with_kubectl(server)

    server.instead = appears
    with pytest.raises(FindingsError, match="created it with kubectl"):
        launch(site_of(server), wanted(), agree)
    (attempt,) = site_of(server).ledgers.read(RUN).attempts
    assert attempt.outcome is AttemptOutcome.FAILED


def test_the_end_of_a_foreign_job_is_not_noted_as_that_of_an_attempt() -> None:
    server = FakeTransport()
    launch(site_of(server), wanted(), agree)
    del server.objects["pytorchjobs", NAMESPACE, RUN]
    applied_with_kubectl(server)
    set_condition(server, "Failed", "theirs")
    assert status(site_of(server), RUN).state == "failed"
    (attempt,) = site_of(server).ledgers.read(RUN).attempts
    assert attempt.outcome is None


def test_objects_of_other_owners_outlive_the_whole_life_of_a_run() -> None:
    server = FakeTransport()
    theirs = put(server, "apps/v1", "Deployment", f"{RUN}-tensorboard")
    before = json.dumps(theirs)
    launch(site_of(server), wanted(), agree)
    copied = server.objects["networkpolicies", NAMESPACE, RUN]["metadata"]["labels"]
    # The labels came with a manifest that somebody copied from ours.
    put(server, "networking.k8s.io/v1", "NetworkPolicy", "copy", labels=copied)
    stop(site_of(server), RUN)
    kept = removal(site_of(server), RUN, volumes=True).kept
    assert any("NetworkPolicy copy" in name for name in kept)
    delete(site_of(server), RUN, volumes=True)
    left = {(plural, name) for plural, _, name in server.objects}
    assert left == {("deployments", f"{RUN}-tensorboard"), ("networkpolicies", "copy")}
    assert json.dumps(theirs) == before


def test_an_object_that_lost_our_labels_is_not_deleted() -> None:
    server = FakeTransport()
    launch(site_of(server), wanted(), agree)
    policy = server.objects["networkpolicies", NAMESPACE, RUN]
    policy["metadata"]["labels"] = {"team": "platform"}
    delete(site_of(server), RUN, volumes=True)
    assert list(server.objects) == [("networkpolicies", NAMESPACE, RUN)]


def test_what_the_ledger_says_is_deleted_by_its_uid() -> None:
    server = FakeTransport()
    launch(site_of(server), wanted(), agree)
    uids = {item["metadata"]["uid"] for key, item in server.objects.items() if key[0] != "pods"}
    (job,) = jobs(server)
    for item in server.objects.values():
        # As if another tool had rewritten who wrote what.
        if item is not job:
            item["metadata"]["managedFields"] = []
    noted = site_of(server).ledgers.objects_of(RUN)
    assert noted == uids - {job["metadata"]["uid"]}
    delete(site_of(server), RUN, volumes=True)
    assert not server.objects
    for call in server.calls:
        assert call.method != "DELETE" or (call.body or {})["preconditions"]["uid"] in uids


def test_a_conflict_over_the_ledger_does_not_keep_a_run_from_its_launch() -> None:
    server = FakeTransport()
    busy = Answer(409, {"message": "the object has been modified", "reason": "Conflict"})
    server.faults += [once(busy, "PATCH", "ledger"), once(busy, "PATCH", "ledger")]
    assert launch(site_of(server), wanted(), agree).is_new
    assert site_of(server).ledgers.objects_of(RUN)


def test_an_object_that_appears_after_the_look_is_not_changed() -> None:
    server = FakeTransport()

    def appears(call: Call) -> None:
        if call.method == "POST" and call.path.endswith("/networkpolicies"):
            server.instead = None
            put_policy(server, **HELM)

    server.instead = appears
    with pytest.raises(FindingsError, match="Helm release baseline"):
        launch(site_of(server), wanted(), agree)
    policy = server.objects["networkpolicies", NAMESPACE, RUN]
    assert policy["spec"] == {"of": 1}
    assert not jobs(server)
    (attempt,) = site_of(server).ledgers.read(RUN).attempts
    assert attempt.outcome is AttemptOutcome.FAILED
    assert "Helm release baseline" in attempt.reason


def test_an_object_that_is_replaced_after_the_look_is_not_changed() -> None:
    server = FakeTransport()
    launch(site_of(server), wanted(), agree)
    stop(site_of(server), RUN)

    def replaced(call: Call) -> None:
        if call.method == "PATCH" and call.path.endswith(f"/networkpolicies/{RUN}"):
            server.instead = None
            put_policy(server)

    server.instead = replaced
    with pytest.raises(FindingsError, match="did not create"):
        launch(site_of(server), wanted(), agree)
    assert server.objects["networkpolicies", NAMESPACE, RUN]["spec"] == {"of": 1}


def test_a_writer_who_never_rests_is_reported() -> None:
    server = FakeTransport()
    launch(site_of(server), wanted(), agree)
    stop(site_of(server), RUN)

    def busy(call: Call) -> None:
        if call.method == "PATCH" and call.path.endswith(f"/networkpolicies/{RUN}"):
            server.put(server.objects["networkpolicies", NAMESPACE, RUN])

    server.instead = busy
    with pytest.raises(ConflictError):
        launch(site_of(server), wanted(), agree)


def test_a_foreign_config_map_is_not_read_as_a_ledger() -> None:
    server = FakeTransport()
    theirs = put(server, "v1", "ConfigMap", f"{RUN}--ledger")
    theirs["data"] = {"attempt-00001": "theirs"}
    with pytest.raises(FindingsError, match="no run"):
        status(site_of(server), RUN)
    with pytest.raises(FindingsError, match="did not create"):
        launch(site_of(server), wanted(), agree)
    assert theirs["data"] == {"attempt-00001": "theirs"}


@pytest.mark.parametrize("name", ["data-list", "data", "data-end"])
def test_data_are_not_prepared_over_a_job_of_another_owner(name: str) -> None:
    server = FakeTransport()
    put(server, "batch/v1", "Job", f"{RUN}--{name}", **HELM)
    before = state(server)
    with pytest.raises(FindingsError, match="Helm release baseline"):
        prepare_on_cluster(site_of(server), resolved(RAW, IMAGE), CATALOG, unnamed_place)
    assert state(server) == before


@pytest.mark.parametrize("kind", ["ConfigMap", "Pod"])
def test_a_pod_on_the_volume_takes_no_name_of_another_owner(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(reader_pod, "uuid4", lambda: SimpleNamespace(hex="0" * 32))
    server = FakeTransport()
    put(server, "v1", kind, f"{RUN}--reader-00000000", **HELM)
    before = state(server)
    with pytest.raises(FindingsError, match="Helm release baseline"):
        read_inside(
            site_of(server), resolved(), CATALOG, VolumeCommand(("checkpoints", "list")), print
        )
    assert state(server) == before


@pytest.mark.parametrize("owner", COPIED)
def test_a_ledger_of_another_owner_makes_no_run(owner: str) -> None:
    server = FakeTransport()
    labels = COPIED[owner]["labels"] | {COMPONENT_LABEL: "ledger"}
    theirs = put(server, "v1", "ConfigMap", f"{RUN}--ledger", **COPIED[owner] | {"labels": labels})
    record = AttemptRecord(1, "x", utc(datetime.now(UTC)), "pytorchjob", "")
    theirs["data"] = {"attempt-00001": record.to_text()}
    assert site_of(server).ledgers.read_all() == {}
    assert list_runs(site_of(server)) == []


def test_a_spec_of_another_owner_is_not_what_was_launched() -> None:
    server = FakeTransport()
    theirs = put(server, "v1", "ConfigMap", f"{RUN}--spec", **COPIED["kubectl"])
    theirs["data"] = {"run.yaml": '{"theirs": 1}'}
    assert "theirs" not in str(ClusterBackend(site_of(server)).spec_changes(wanted().plan))


def test_a_comparison_says_that_a_name_is_taken() -> None:
    server = FakeTransport()
    put_policy(server, **HELM)
    found = {each.name: each for each in compare(site_of(server), rendered(wanted()))}
    policy = found[f"NetworkPolicy {RUN}"]
    assert policy.verdict is DiffVerdict.REFUSED
    assert policy.finding is not None
    assert "Helm release baseline" in policy.finding.rule


OWNERS: dict[str, Json] = {
    "Helm release net": {"annotations": {"meta.helm.sh/release-name": "net"}},
    "Argo CD application net": {"annotations": {"argocd.argoproj.io/tracking-id": "net:x:y/z"}},
    "Flux kustomization net": {"labels": {"kustomize.toolkit.fluxcd.io/name": "net"}},
    "PodGroup gang": {"ownerReferences": [{"kind": "PodGroup", "name": "gang", "uid": "1"}]},
    "Seatrial's run other": {
        "labels": {"app.kubernetes.io/managed-by": "seatrial", "seatrial.dev/run": "other"},
        "managedFields": [set_by("seatrial")],
    },
    "whoever created it with kubectl": {
        "labels": {"app.kubernetes.io/managed-by": "seatrial", "seatrial.dev/run": "other"},
        "managedFields": [set_by("seatrial", "Apply"), set_by("kubectl", "Apply")],
    },
    "terraform (app.kubernetes.io/managed-by)": {
        "labels": {"app.kubernetes.io/managed-by": "terraform", "seatrial.dev/run": RUN}
    },
    "whoever created it with kubectl-create": {
        "managedFields": [
            {"manager": "vault-agent", "operation": "Update", "time": "2026-11-16T00:00:00Z"},
            {"manager": "kubectl-create", "operation": "Update", "time": "2026-11-15T00:00:00Z"},
        ]
    },
    "an unknown owner": {},
    "Helm release a?[31mb": {"annotations": {"meta.helm.sh/release-name": "a\x1b[31mb"}},
}


@pytest.mark.parametrize("owner", OWNERS)
def test_the_owner_is_named_as_far_as_the_object_says(owner: str) -> None:
    assert owner_of({"metadata": {"name": "x", **OWNERS[owner]}}) == owner


def launched_by_an_earlier_version(server: FakeTransport) -> None:
    """A run whose objects have the names and the ledger that Seatrial gave them before."""
    launch(site_of(server), wanted(), agree)
    for (plural, namespace, name), item in list(server.objects.items()):
        if "--" in name:
            del server.objects[plural, namespace, name]
            item["metadata"]["name"] = name.replace("--", "-")
            item["metadata"].pop("uid")
            server.put(item)
    ledger = server.objects["configmaps", NAMESPACE, f"{RUN}-ledger"]
    ledger["data"] = {key: text for key, text in ledger["data"].items() if "attempt" in key}


def test_a_run_of_an_earlier_version_is_found_and_deleted() -> None:
    server = FakeTransport()
    launched_by_an_earlier_version(server)
    assert status(site_of(server), RUN).attempt == 1
    assert stop(site_of(server), RUN).was_running
    assert status(site_of(server), RUN).state == "stopped"
    delete(site_of(server), RUN, volumes=True)
    assert not server.objects


def test_a_run_of_an_earlier_version_goes_on_under_the_new_names() -> None:
    server = FakeTransport()
    launched_by_an_earlier_version(server)
    done = launch(site_of(server), wanted("training.seed=7"), agree)
    assert done.attempt == 2
    names = {(plural, name) for plural, _, name in server.objects}
    assert ("deployments", f"{RUN}--tensorboard") in names
    assert ("deployments", f"{RUN}-tensorboard") not in names
    # Its attempts stay in one place.
    assert ("configmaps", f"{RUN}-ledger") in names
    assert ("configmaps", f"{RUN}--ledger") not in names


def test_a_claim_keeps_the_volume_that_it_has() -> None:
    server = FakeTransport()
    attributes = "{dnsname: fs-1.example.com, mountname: fsx}"
    volume = f"cluster.storage.volume={{handle: fs-1, attributes: {attributes}}}"
    launch(site_of(server), wanted(volume), agree)
    claim = server.objects["persistentvolumeclaims", NAMESPACE, RUN]
    assert claim["spec"]["volumeName"] == f"{NAMESPACE}--{RUN}"
    claim["spec"]["volumeName"] = f"{NAMESPACE}-{RUN}"
    launch(site_of(server), wanted(volume, "training.seed=7"), agree)
    claim = server.objects["persistentvolumeclaims", NAMESPACE, RUN]
    assert claim["spec"]["volumeName"] == f"{NAMESPACE}-{RUN}"


def test_two_runs_whose_names_extend_each_other_have_no_object_in_common() -> None:
    found: list[set[tuple[str, str]]] = []
    for name in ("slim", "slim-tensorboard"):
        made = render(resolved(f"name={name}"), CATALOG, Part.RUN, Attempt()).manifests
        found.append({(kind_of(each).name, each["metadata"]["name"]) for each in made})
    assert not found[0] & found[1]


def test_no_run_is_called_as_a_part_of_another() -> None:
    with pytest.raises(FindingsError, match="single hyphens"):
        resolved("name=slim--tensorboard")


def test_a_secret_in_the_name_of_an_owner_is_redacted_before_the_name_is_cut() -> None:
    token = "hf_" + "aB3" * 11
    name = f"{'release ' * 12}{token}"
    shown = owner_of({"metadata": {"annotations": {"meta.helm.sh/release-name": name}}})
    assert "aB3" not in shown
    assert len(shown) <= 120
