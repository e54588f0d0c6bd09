# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""How Prometheus finds the metrics of a run in a cluster."""

from typing import Any

import pytest

from seatrial.cluster.kinds import kind_of
from seatrial.errors import FindingsError
from seatrial.planning.saving.size import file_system_bandwidth
from seatrial.rendering.access import launcher_rules
from seatrial.rendering.environment import (
    DUMP,
    host_environment,
    logger_environment,
    recorder_environment,
)
from seatrial.rendering.manifest import Manifest
from seatrial.rendering.resources import capacity_bytes, saved_bytes
from tests.unit.rendering.scenes import environment, manifests, pod, pod_templates, scene

SAVE_SECONDS = "SEATRIAL_SAVE_SECONDS"
MONITOR = "monitoring.prometheus.pod_monitor={labels: {release: prometheus}}"
OFF = "monitoring.prometheus.enabled=false"


def monitors(*overrides: str) -> list[Manifest]:
    return [each for each in manifests(*overrides) if each["kind"] == "PodMonitor"]


def selected(*overrides: str) -> dict[str, str]:
    found: dict[str, str] = monitors(MONITOR, *overrides)[0]["spec"]["selector"]["matchLabels"]
    return found


def metrics_ports(container: dict[str, Any]) -> list[dict[str, Any]]:
    return [port for port in container.get("ports", ()) if port["name"] == "metrics"]


def test_there_is_a_pod_monitor_only_where_the_spec_asks_for_one() -> None:
    assert monitors() == []
    assert monitors(MONITOR, OFF) == []
    assert len(monitors(MONITOR)) == 1


def test_the_monitor_looks_at_the_port_that_the_container_has() -> None:
    made = monitors(MONITOR, "monitoring.prometheus.port=9500")[0]
    container = pod("monitoring.prometheus.port=9500")["containers"][0]
    assert metrics_ports(container) == [{"name": "metrics", "containerPort": 9500}]
    assert made["spec"]["podMetricsEndpoints"] == [
        {"port": "metrics", "path": "/metrics", "interval": "30s"}
    ]
    assert made["metadata"]["labels"]["release"] == "prometheus"


@pytest.mark.parametrize("nodes", [1, 2, 4])
def test_the_monitor_selects_the_pod_with_the_last_rank(nodes: int) -> None:
    told = (f"cluster.nodes={nodes}", "cluster.operator=pytorchjob")
    labels = selected(*told)
    kind, index = (
        labels[f"training.kubeflow.org/{key}"] for key in ("replica-type", "replica-index")
    )
    # The operator counts the workers from 0, after the master.
    assert (kind, int(index)) == (("master", 0) if nodes == 1 else ("worker", nodes - 2))
    job = selected(f"cluster.nodes={nodes}", "cluster.operator=trainjob")
    assert job["batch.kubernetes.io/job-completion-index"] == str(nodes - 1)


def test_labels_of_the_pods_are_those_that_are_selected() -> None:
    run = {k: v for k, v in selected().items() if "kubeflow" not in k and "batch" not in k}
    assert run
    for template in (t for m in manifests(MONITOR)[-2:] for t in pod_templates(m)):
        assert run.items() <= template["metadata"]["labels"].items()


def test_the_worker_is_told_port_name_and_the_pods_own_address() -> None:
    variables = environment(pod()["containers"][0])
    assert variables["SEATRIAL_METRICS_PORT"] == "9400"
    assert variables["SEATRIAL_RUN"]
    assert variables["SEATRIAL_METRICS_ADDRESS"] == {"fieldRef": {"fieldPath": "status.podIP"}}


def test_without_the_endpoint_nothing_is_open() -> None:
    container = pod(OFF)["containers"][0]
    assert metrics_ports(container) == []
    assert not {v for v in environment(container) if v.startswith("SEATRIAL_METRICS")}
    policy = next(m for m in manifests(OFF) if m["kind"] == "NetworkPolicy")
    assert [rule for rule in policy["spec"]["ingress"] if "ports" in rule] == []


def test_the_network_lets_metrics_through_and_nothing_else() -> None:
    policy = next(m for m in manifests() if m["kind"] == "NetworkPolicy")
    open_to_all = [r for r in policy["spec"]["ingress"] if r["from"] == [{"namespaceSelector": {}}]]
    assert [rule["ports"] for rule in open_to_all] == [[{"protocol": "TCP", "port": 9400}]]


def test_the_launcher_may_make_the_monitor() -> None:
    groups = {group: rule for rule in launcher_rules() for group in rule["apiGroups"]}
    assert kind_of(monitors(MONITOR)[0]).plural in groups["monitoring.coreos.com"]["resources"]


def test_on_this_host_no_address_is_given_so_that_it_is_loopback() -> None:
    told = logger_environment(scene())
    assert told["SEATRIAL_METRICS_PORT"] == "9400"
    assert "SEATRIAL_METRICS_ADDRESS" not in told


def test_wandb_has_one_id_for_all_restarts_and_no_key() -> None:
    told = logger_environment(scene("monitoring.wandb={project: p, mode: offline}"))
    name = scene().plan.spec.name
    assert (told["WANDB_RUN_ID"], told["WANDB_RESUME"]) == (name, "allow")
    assert "WANDB_API_KEY" not in told


def test_a_label_that_kubernetes_would_refuse_is_refused_here() -> None:
    with pytest.raises(FindingsError, match="release"):
        manifests("monitoring.prometheus.pod_monitor={labels: {release: 'not a label'}}")


def test_ranks_on_gpus_dump_their_collectives_into_the_directory_of_the_run() -> None:
    made = scene()
    recorder = recorder_environment(made)
    assert recorder["TORCH_NCCL_DEBUG_INFO_TEMP_FILE"] == f"{made.home}/{DUMP}"
    assert recorder["TORCH_NCCL_DUMP_ON_TIMEOUT"] == "1"
    assert int(recorder["TORCH_FR_BUFFER_SIZE"]) > 0
    assert recorder.items() <= environment(pod()["containers"][0]).items()


def test_the_worker_is_told_what_a_save_should_take() -> None:
    made = scene()
    assert made.tier is not None
    seconds = float(environment(pod()["containers"][0])[SAVE_SECONDS])
    rate = file_system_bandwidth(made.tier, capacity_bytes(made.plan, made.tier))
    assert rate is not None
    # As the plan states it: the smallest volume is no faster than the one that is made.
    assert seconds >= 0.99 * saved_bytes(made.plan) / rate
    claimed = environment(pod("cluster.storage={claim: ours}")["containers"][0])
    assert SAVE_SECONDS not in claimed


def test_the_worker_on_this_host_gets_the_settings_that_it_gets_in_a_pod() -> None:
    overrides = ("monitoring.prometheus.enabled=false", "cluster.env={MARK: '1'}")
    here = host_environment(scene(*overrides))
    in_pod = environment(pod(*overrides)["containers"][0])
    ours = {name for name in in_pod if name.startswith(("SEATRIAL_", "TORCH_", "MARK"))}
    assert {"SEATRIAL_FABRIC", SAVE_SECONDS} < ours
    assert {name: here.get(name) for name in ours} == {name: in_pod[name] for name in ours}
