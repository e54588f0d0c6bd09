# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""How a Prometheus of the cluster finds the metrics of a run."""

from seatrial.rendering.context import Scene
from seatrial.rendering.manifest import Manifest, manifest
from seatrial.rendering.names import Component, metadata, selector
from seatrial.spec.cluster import Operator

API = "monitoring.coreos.com/v1"
"""The Prometheus operator's."""
PORT_NAME = "metrics"
"""What the port of the training container is called."""


def metrics_port(scene: Scene) -> tuple[tuple[str, int], ...]:
    """The port of the training container that metrics are served at, if they are."""
    prometheus = scene.plan.spec.monitoring.prometheus
    return ((PORT_NAME, prometheus.port),) if prometheus.enabled else ()


def pod_monitors(scene: Scene) -> list[Manifest]:
    """The PodMonitor of the run, where the spec asks for one."""
    prometheus = scene.plan.spec.monitoring.prometheus
    if not prometheus.enabled or prometheus.pod_monitor is None:
        return []
    head = metadata(scene.plan, Component.TRAINING)
    head["labels"] = {**prometheus.pod_monitor.labels, **head["labels"]}
    endpoint = {
        "port": PORT_NAME,
        "path": "/metrics",
        "interval": f"{prometheus.pod_monitor.interval_seconds}s",
    }
    pods = selector(scene.plan, Component.TRAINING) | _last_node(scene)
    spec = {"selector": {"matchLabels": pods}, "podMetricsEndpoints": [endpoint]}
    return [manifest(API, "PodMonitor", head, spec=spec)]


def _last_node(scene: Scene) -> dict[str, str]:
    """The labels of the pod that serves: the one with the last rank, which holds the loss.

    The others would be targets that are down, and an alert for those is in every cluster.
    HyperPod gives ranks to pods as they come, so that there all are asked.
    """
    last, operator = scene.plan.machines.nodes - 1, scene.plan.machines.operator
    if operator is Operator.TRAINJOB:
        return {"batch.kubernetes.io/job-completion-index": str(last)}
    if operator is Operator.PYTORCHJOB:
        role = {"training.kubeflow.org/replica-type": "worker" if last else "master"}
        return role | {"training.kubeflow.org/replica-index": str(max(0, last - 1))}
    return {}
