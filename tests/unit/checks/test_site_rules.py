# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Rules about clusters fire where they should, are silent elsewhere, and their changes mend."""

from dataclasses import replace

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.checks.check import NO_CLUSTER, NO_MANIFESTS, check, codes_of
from seatrial.checks.cluster.facts import (
    AccessRefusal,
    ClusterFacts,
    ClusterQueueFacts,
    Controller,
    NamespaceFacts,
    NodeFacts,
    QuotaFacts,
    Subject,
    Taint,
)
from seatrial.checks.repairs.fix import plan_fix
from seatrial.checks.repairs.repair import Broken, mends, repair_of
from seatrial.checks.rule import Scope, proposed
from seatrial.codes.cluster_checks import SiteCode
from seatrial.codes.rendering import RenderCode
from seatrial.findings import Finding, Severity
from tests.unit.checks.examples import BASE
from tests.unit.checks.site_examples import (
    EXAMPLES,
    HEALTHY,
    IN_QUEUE,
    NODES,
    QUEUE,
    RACK,
    RAW,
    but,
    nodes,
    queue,
    with_versions,
    without,
)


def broken(facts: ClusterFacts, *overrides: str) -> Broken:
    return Broken(BASE, "run.yaml", Catalog(), overrides, cluster=facts)


def found(code: str, facts: ClusterFacts, *overrides: str) -> list[Finding]:
    return [f for f in broken(facts, *overrides).again().findings if f.code == code]


def test_every_code_of_the_cluster_has_an_example() -> None:
    assert set(codes_of(Scope.CLUSTER)) == set(SiteCode) == set(EXAMPLES)


def test_nothing_is_said_of_a_healthy_cluster() -> None:
    assert broken(HEALTHY).again().findings == ()


@pytest.mark.parametrize("code", EXAMPLES)
def test_a_rule_fires_at_its_field_and_its_change_mends_it(code: str) -> None:
    example = EXAMPLES[code]
    run = broken(example.facts, *example.overrides)
    before = run.again()
    fired = [each for each in before.checked if each.finding.code == code]
    assert fired, before.findings
    finding = fired[0].finding
    assert finding.where.field == example.field
    assert finding.rule[-1] == "."
    assert finding.fix[-1] == "."
    repair = repair_of(run, fired[0])
    if repair:
        assert mends(before, run.again(repair.overrides), finding)


@pytest.mark.parametrize("code", EXAMPLES)
def test_a_rule_is_silent_in_a_healthy_cluster(code: str) -> None:
    example = EXAMPLES[code]
    overrides = example.overrides if example.silent is None else example.silent
    after = broken(HEALTHY, *overrides).again()
    assert after.situation is not None, after.findings
    assert code not in {finding.code for finding in after.findings}
    assert not after.not_run.get(NO_MANIFESTS)


@pytest.mark.parametrize("subject", Subject)
def test_what_may_not_be_looked_at_is_named_and_never_an_error(subject: Subject) -> None:
    names = {Subject.CONTROLLERS: "controllers", Subject.CLASSES: "classes"}
    names |= {Subject.QUOTAS: "quotas", Subject.LIMITS: "limits", Subject.NODES: "nodes"}
    names |= {Subject.DRIVERS: "drivers", Subject.PRIORITIES: "priorities"}
    names |= {Subject.NAMESPACES: "namespaces", Subject.CLAIMS: "claims"}
    empty = {names[subject]: ()} if subject in names else {}
    facts = but(unseen=frozenset({subject}), **empty)
    (only,) = broken(facts).again().findings
    assert (only.code, only.severity) == (SiteCode.UNSEEN, Severity.NOTE)
    assert str(subject) in only.rule


def test_without_a_cluster_its_rules_are_counted_as_not_run() -> None:
    verdict = check(BASE, "run.yaml", Catalog())
    assert verdict.not_run[NO_CLUSTER] == len(codes_of(Scope.CLUSTER))


def test_an_operator_that_the_spec_leaves_open_is_a_warning_where_another_is_served() -> None:
    (finding,) = found(SiteCode.NOT_SERVED, without("pytorchjobs.kubeflow.org"))
    assert finding.severity is Severity.WARNING
    facts = without("pytorchjobs.kubeflow.org", "trainjobs.trainer.kubeflow.org")
    (finding,) = found(SiteCode.NOT_SERVED, facts)
    assert finding.severity is Severity.ERROR


def test_an_image_without_the_worker_needs_the_list_of_its_engine() -> None:
    (finding,) = found(SiteCode.NO_LOCK, but(lock_keys=()))
    assert "namespace default has no ConfigMap seatrial-worker-lock" in finding.rule
    (finding,) = found(SiteCode.NO_LOCK, but(lock_keys=("llm-foundry.txt",)))
    assert "no worker.txt in its ConfigMap" in finding.rule
    assert not found(SiteCode.NO_LOCK, but(lock_keys=None))
    assert not found(SiteCode.NO_LOCK, but(lock_keys=()), "cluster.image=example.com/worker:1")
    # Where the cluster was looked at, that an administrator has to make something is no news.
    assert not found(RenderCode.WORKER_LOCK, HEALTHY)


def test_a_webhook_that_does_not_answer_is_told_once() -> None:
    said = 'failed calling webhook "validator.pytorchjob": connection refused'
    facts = but(refusals=(AccessRefusal("PyTorchJob default/example", said),))
    assert len(found(SiteCode.NOT_RUNNING, facts)) == 1
    assert not found(SiteCode.OBJECT_REFUSED, facts)


@pytest.mark.parametrize("grows", [True, None])
def test_nodes_that_may_still_come_are_a_warning(grows: bool | None) -> None:
    few = replace(nodes(count=1), grows=grows)
    (finding,) = found(SiteCode.FEW_NODES, few)
    assert finding.severity is Severity.WARNING
    none = replace(nodes(labels={}), grows=grows)
    (finding,) = found(SiteCode.NO_NODES, none)
    assert finding.severity is Severity.WARNING


@pytest.mark.parametrize(
    ("name", "operator", "runs"),
    [
        ("training-operator", "pytorchjob", True),
        ("kubeflow-training-operator", "pytorchjob", True),
        ("hp-training-operator-hp-training-controller-manager", "pytorchjob", False),
        ("my-trainer-controller-manager", "trainjob", True),
        ("trainer-web", "trainjob", False),
    ],
)
def test_an_operator_is_known_by_its_deployment(name: str, operator: str, runs: bool) -> None:
    facts = but(controllers=(Controller(name, "kubeflow", 1, 1),))
    said = found(SiteCode.NOT_RUNNING, facts, f"cluster.operator={operator}")
    assert bool(said) != runs


def test_a_taint_that_the_spec_tolerates_is_no_finding() -> None:
    closed = nodes(taints=(Taint("team", "vision"),))
    (finding,) = found(SiteCode.TAINTED, closed)
    assert "cluster.tolerations" in finding.fix
    for tolerated in ("{key: team}", "{key: team, value: vision, effect: NoSchedule}"):
        assert found(SiteCode.TAINTED, closed, f"cluster.tolerations=[{tolerated}]") == []
    for other in ("{key: team, value: nlp}", "{key: team, effect: NoExecute}"):
        assert found(SiteCode.TAINTED, closed, f"cluster.tolerations=[{other}]")


def test_nodes_without_a_label_that_the_spec_selects_do_not_count() -> None:
    selected = "cluster.node_selector={pool: gold}"
    (finding,) = found(SiteCode.UNFIT_NODES, HEALTHY, selected)
    assert "4 lack the label pool=gold" in finding.rule
    assert "cluster.node_selector" in finding.fix
    gold = nodes(labels={**NODES.labels, "pool": "gold"})
    assert found(SiteCode.UNFIT_NODES, gold, selected) == []


def test_a_resource_of_the_spec_that_nodes_do_not_offer() -> None:
    (finding,) = found(SiteCode.NO_FABRIC, HEALTHY, "cluster.resources={rdma/shared: 1}")
    assert finding.where.field == "cluster.resources.rdma/shared"
    assert "they offer rdma/ib" in finding.rule
    offering_it = nodes(allocatable={**NODES.allocatable, "rdma/shared": 63.0})
    assert found(SiteCode.NO_FABRIC, offering_it, "cluster.resources={rdma/shared: 1}") == []


def test_a_host_directory_needs_a_privileged_namespace() -> None:
    closed = but(namespaces=(NamespaceFacts("default", "baseline"),))
    directory = ("cluster.scratch={host_path: /mnt/nvme}", "cluster.fabric=none")
    (finding,) = found(SiteCode.POD_SECURITY, closed, *directory)
    assert "the host directory /mnt/nvme" in finding.rule
    assert found(SiteCode.POD_SECURITY, closed, "cluster.fabric=none") == []


def test_metrics_that_nobody_exports_are_a_note() -> None:
    (finding,) = found(SiteCode.NO_COMPONENT, but(daemons=()))
    assert finding.severity is Severity.NOTE
    assert "DCGM" in finding.rule
    assert "seatrial site run.yaml" in finding.fix
    silent = "monitoring.prometheus.enabled=false"
    assert not found(SiteCode.NO_COMPONENT, but(daemons=()), silent)


def test_a_component_that_may_not_be_seen_is_not_called_missing() -> None:
    unseen = frozenset({Subject.DAEMONS})
    assert not found(SiteCode.NO_COMPONENT, but(daemons=(), unseen=unseen))
    assert not found(SiteCode.NO_COMPONENT, but(daemons=(), only_here=unseen))


def test_a_missing_component_is_reported_by_one_rule() -> None:
    kinds = ("localqueues.kueue.x-k8s.io", "pytorchjobs.kubeflow.org")
    facts = without(*kinds, "podmonitors.monitoring.coreos.com")
    wanted = (*IN_QUEUE, "monitoring.prometheus={enabled: true, pod_monitor: {}}")
    codes = [f.code for f in broken(facts, *wanted).again().findings]
    assert codes.count(SiteCode.NO_QUEUE) == 1
    assert codes.count(SiteCode.NO_KIND) == 1
    assert SiteCode.NO_COMPONENT not in codes


@pytest.mark.parametrize(
    ("trainer", "kueue", "severity"),
    [
        ("2.1.0", "0.17.3", Severity.ERROR),
        ("2.1.0", "0.16.9", None),
        ("2.2.0", "0.19.2", None),
        ("2.3.0", "0.19.2", Severity.ERROR),
    ],
)
def test_kueue_and_trainer_have_to_fit(trainer: str, kueue: str, severity: Severity | None) -> None:
    facts = with_versions(trainer=trainer, kueue=kueue)
    said = found(SiteCode.CONFLICT, facts, "cluster.operator=trainjob", *IN_QUEUE)
    assert [each.severity for each in said] == ([severity] if severity else [])
    no_queue = ("cluster.operator=trainjob", "cluster.gang=none")
    assert not found(SiteCode.CONFLICT, facts, *no_queue)


def test_an_older_api_of_trainer_tells_its_version() -> None:
    facts = replace(with_versions(kueue="0.18.0"), trainer_form="2.1")
    (finding,) = found(SiteCode.CONFLICT, facts, "cluster.operator=trainjob", *IN_QUEUE)
    assert "11931" in finding.rule


def test_settings_that_may_have_been_changed_are_a_warning() -> None:
    facts = with_versions(training="1.9.3", kueue="0.19.2")
    (finding,) = found(SiteCode.CONFLICT, facts, *IN_QUEUE)
    assert finding.severity is Severity.WARNING
    assert "PyTorchJobs" in finding.rule


@pytest.mark.parametrize(
    ("name", "version", "known"),
    [("kueue", "0.12.0", False), ("kueue", "0.15.0", True), ("kueue", "0.20.1", False)],
)
def test_a_version_that_nobody_has_tried_is_a_warning(
    name: str, version: str, *, known: bool
) -> None:
    said = found(SiteCode.OTHER_VERSION, with_versions(**{name: version}), *IN_QUEUE)
    assert bool(said) is not known


def test_an_old_operator_is_reported_once() -> None:
    facts = with_versions(training="1.6.0")
    assert found(SiteCode.OLD_OPERATOR, facts)
    assert not found(SiteCode.OTHER_VERSION, facts)


def test_data_pods_need_a_node_that_takes_pods_without_gpus() -> None:
    small = NodeFacts(2, {"pool": "cpu"}, (Taint("pool", "cpu"),), {"cpu": 4.0, "memory": 2e11})
    mixed = but(nodes=(NODES, small))
    chosen = "cluster.cpu_nodes={node_selector: {pool: cpu}, tolerations: [{key: pool}]}"
    (finding,) = found(SiteCode.PREPARATION, mixed, RAW, chosen)
    assert finding.where.field == "cluster.preparation.cpus"
    assert "the largest node has 4 CPUs" in finding.rule
    smaller = "cluster.preparation={cpus: 4}"
    assert found(SiteCode.PREPARATION, mixed, RAW, chosen, smaller) == []
    closed = "cluster.cpu_nodes={node_selector: {pool: cpu}}"
    (finding,) = found(SiteCode.PREPARATION, mixed, RAW, closed, smaller)
    assert finding.where.field == "cluster.cpu_nodes"


def test_what_others_use_of_a_quota_is_a_warning() -> None:
    name = "requests.nvidia.com/gpu"
    facts = but(quotas=(QuotaFacts("gpus", "default", {name: 16.0}, {name: 8.0}),))
    (finding,) = found(SiteCode.QUOTA, facts)
    assert finding.severity is Severity.WARNING
    assert not found(SiteCode.QUOTA, but(quotas=(QuotaFacts("gpus", "other", {name: 1.0}),)))


def test_a_queue_may_borrow_from_its_cohort() -> None:
    small = replace(QUEUE, quota={**QUEUE.quota, "nvidia.com/gpu": 8.0}, cohort="all")
    other = ClusterQueueFacts("other", {"nvidia.com/gpu": 8.0}, cohort="all")
    facts = but(cluster_queues=(small, other))
    assert not found(SiteCode.SMALL_QUEUE, facts, *IN_QUEUE)
    limited = replace(small, borrows={"nvidia.com/gpu": 4.0})
    facts = but(cluster_queues=(limited, other))
    assert found(SiteCode.SMALL_QUEUE, facts, *IN_QUEUE)


def test_a_queue_admits_only_from_namespaces_that_it_chooses() -> None:
    assert found(SiteCode.STOPPED_QUEUE, queue(chooses=None), *IN_QUEUE)
    assert found(SiteCode.STOPPED_QUEUE, queue(chooses={"team": "vision"}), *IN_QUEUE)


def test_a_required_group_has_to_hold_the_run() -> None:
    racks = tuple(replace(NODES, count=1, labels={**NODES.labels, RACK: name}) for name in "ab")
    wanted = (*IN_QUEUE, f"cluster.topology={{level: {RACK}, required: true}}")
    (finding,) = found(SiteCode.TOPOLOGY, but(nodes=racks), *wanted)
    assert finding.where.field == "cluster.topology.required"
    assert not found(SiteCode.TOPOLOGY, HEALTHY, *wanted)


def test_a_level_that_no_flavor_is_placed_by() -> None:
    (finding,) = found(
        SiteCode.TOPOLOGY, but(topologies=()), *IN_QUEUE, f"cluster.topology={{level: {RACK}}}"
    )
    assert "none has a topology" in finding.rule


def test_nothing_is_proposed_that_leads_to_where_nobody_looked() -> None:
    facts = but(namespaces=(), only_here=frozenset({Subject.NAMESPACES, Subject.CLAIMS}), claims=())
    run = broken(facts)
    (fired,) = [f for f in run.again().checked if f.finding.code == SiteCode.NO_NAMESPACE]
    assert repair_of(run, fired) is None


def test_fix_writes_nothing_that_only_the_cluster_knows() -> None:
    named = BASE.replace("nodes: 2}", "nodes: 2, queue: researc}")
    run = Broken(named, "run.yaml", Catalog(), cluster=nodes(count=1))
    verdict = run.again()
    fix = plan_fix(run, verdict)
    assert fix.changes == ()
    assert fix.broken.text == named
    (wrong,) = [found for found in verdict.checked if found.finding.code == SiteCode.NO_QUEUE]
    assert repair_of(run, wrong) == proposed("cluster.queue=research")
