# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Network policies: only the run's own pods and metrics collectors can reach its pods."""

from seatrial.rendering.context import Scene
from seatrial.rendering.manifest import Manifest, manifest
from seatrial.rendering.names import RUN_LABEL, Component, metadata, selector
from seatrial.rendering.tensorboard import PORT
from seatrial.spec.cluster import Operator

METADATA_NAME = "kubernetes.io/metadata.name"
DASHBOARD_PORT = 8265
"""The port of a Ray head's dashboard, which serves the job API."""
HYPERPOD_NAMESPACE = "aws-hyperpod"
"""The namespace of HyperPod's training operator, as in sagemaker-hyperpod 3.12."""
HYPERPOD_AGENT_PORT = 8080
"""The default port of the `hyperpodrun` agent (hyperpod-elastic-agent 1.1.3)."""
MEETING = "meeting"
"""Name part of the service through which nodes meet before training."""


def network_policies(scene: Scene) -> list[Manifest]:
    """Return the network policies of a run.

    torch's store, Ray and TensorBoard have no authentication (CVE-2023-48022 is Ray's), so the
    network must restrict access. Egress is not restricted: buckets, the Hub, loggers and metadata
    services differ between clusters.
    """
    policies = [_run_policy(scene)]
    if scene.plan.spec.monitoring.tensorboard:
        policies.append(_tensorboard_policy(scene))
    return policies


def _run_policy(scene: Scene) -> Manifest:
    plan = scene.plan
    run = {RUN_LABEL: plan.spec.name}
    ingress: list[Manifest] = [{"from": [{"podSelector": {"matchLabels": run}}]}]
    prometheus = plan.spec.monitoring.prometheus
    if prometheus.enabled:
        # Metrics collectors run in other namespaces. They can reach only this port.
        ingress.append(
            {
                "from": [{"namespaceSelector": {}}],
                "ports": [{"protocol": "TCP", "port": prometheus.port}],
            }
        )
    if plan.machines.operator is Operator.HYPERPOD:
        # Through this port the operator starts and stops processes, and so could anyone else.
        operator = {"matchLabels": {METADATA_NAME: HYPERPOD_NAMESPACE}}
        ingress.append(
            {
                "from": [{"namespaceSelector": operator}],
                "ports": [{"protocol": "TCP", "port": HYPERPOD_AGENT_PORT}],
            }
        )
    return manifest(
        "networking.k8s.io/v1",
        "NetworkPolicy",
        metadata(plan, Component.TRAINING),
        spec={
            "podSelector": {"matchLabels": run},
            "policyTypes": ["Ingress"],
            "ingress": ingress,
        },
    )


def ray_policy(scene: Scene) -> Manifest:
    """Allow KubeRay's operator, in any namespace, to reach the dashboard of the Ray head.

    The operator polls the job there. Without access, it considers the job lost. The policy selects
    it by the label that its chart gives to its pods.
    """
    operator = {"app.kubernetes.io/name": "kuberay-operator"}
    return manifest(
        "networking.k8s.io/v1",
        "NetworkPolicy",
        metadata(scene.plan, Component.DATA, "ray"),
        spec={
            "podSelector": {
                "matchLabels": selector(scene.plan, Component.DATA) | {"ray.io/node-type": "head"}
            },
            "policyTypes": ["Ingress"],
            "ingress": [
                {
                    "from": [
                        {"namespaceSelector": {}, "podSelector": {"matchLabels": operator}},
                    ],
                    "ports": [{"protocol": "TCP", "port": DASHBOARD_PORT}],
                }
            ],
        },
    )


def _tensorboard_policy(scene: Scene) -> Manifest:
    """Allow access to TensorBoard from the run's namespace. Port forwarding always works."""
    plan = scene.plan
    namespace = {"matchLabels": {METADATA_NAME: plan.spec.cluster.namespace}}
    return manifest(
        "networking.k8s.io/v1",
        "NetworkPolicy",
        metadata(plan, Component.TENSORBOARD, "tensorboard"),
        spec={
            "podSelector": {"matchLabels": selector(plan, Component.TENSORBOARD)},
            "policyTypes": ["Ingress"],
            "ingress": [
                {
                    "from": [{"namespaceSelector": namespace}],
                    "ports": [{"protocol": "TCP", "port": PORT}],
                }
            ],
        },
    )


def meeting_service(scene: Scene) -> Manifest:
    """Return a service that resolves node 0 before its pod is ready.

    Init containers and the rendezvous need it. The training operator's service resolves node 0 only
    when it is ready, that is after its init containers and its startup probe.
    """
    return manifest(
        "v1",
        "Service",
        metadata(scene.plan, Component.TRAINING, MEETING),
        spec={
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {
                RUN_LABEL: scene.plan.spec.name,
                "training.kubeflow.org/job-name": scene.plan.spec.name,
                "training.kubeflow.org/replica-type": "master",
            },
        },
    )
