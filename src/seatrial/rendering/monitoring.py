# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The PodMonitor with which Prometheus finds the metrics of a run."""

from seatrial.rendering.context import Scene
from seatrial.rendering.manifest import Manifest, manifest
from seatrial.rendering.names import Component, metadata, selector
from seatrial.spec.cluster import Operator

API = "monitoring.coreos.com/v1"
"""API version of the Prometheus operator."""
PORT_NAME = "metrics"
"""The name of the training container's metrics port."""


def metrics_port(scene: Scene) -> tuple[tuple[str, int], ...]:
    """Return the metrics port of the training container; empty if metrics are disabled."""
    prometheus = scene.plan.spec.monitoring.prometheus
    return ((PORT_NAME, prometheus.port),) if prometheus.enabled else ()


def pod_monitors(scene: Scene) -> list[Manifest]:
    """Return the PodMonitor of the run, if the spec requests one."""
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
    """Return the labels of the pod that serves metrics: the one with the last rank and the loss.

    The other pods would be targets that are down, which triggers alerts in most clusters. HyperPod
    assigns ranks in order of arrival, so there all pods are targets.
    """
    last, operator = scene.plan.machines.nodes - 1, scene.plan.machines.operator
    if operator is Operator.TRAINJOB:
        return {"batch.kubernetes.io/job-completion-index": str(last)}
    if operator is Operator.PYTORCHJOB:
        role = {"training.kubeflow.org/replica-type": "worker" if last else "master"}
        return role | {"training.kubeflow.org/replica-index": str(max(0, last - 1))}
    return {}
