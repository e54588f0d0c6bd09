# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Who may reach the pods of a run: themselves, whoever collects metrics, and nobody else."""

from seatrial.rendering.context import Scene
from seatrial.rendering.manifest import Manifest, manifest
from seatrial.rendering.names import RUN_LABEL, Component, metadata, selector
from seatrial.rendering.tensorboard import PORT
from seatrial.spec.cluster import Operator

METADATA_NAME = "kubernetes.io/metadata.name"
DASHBOARD_PORT = 8265
"""Where the head of a Ray cluster answers questions about jobs."""
HYPERPOD_NAMESPACE = "aws-hyperpod"
"""Where HyperPod's training operator is installed; sagemaker-hyperpod 3.12 looks for it there."""
HYPERPOD_AGENT_PORT = 8080
"""Where the agent of `hyperpodrun` listens unless told otherwise (hyperpod-elastic-agent 1.1.3)."""
MEETING = "meeting"
"""The part of a run that is the service under which nodes meet before training."""


def network_policies(scene: Scene) -> list[Manifest]:
    """The policies of a run.

    torch's store, Ray and TensorBoard ask nobody for a password (CVE-2023-48022 is Ray's), so
    that the network must. What pods reach themselves is not restricted: buckets, the Hub,
    loggers and metadata services differ from cluster to cluster.
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
        # Whoever scrapes is in a namespace of its own; it reaches this port and no other.
        ingress.append(
            {
                "from": [{"namespaceSelector": {}}],
                "ports": [{"protocol": "TCP", "port": prometheus.port}],
            }
        )
    if plan.machines.operator is Operator.HYPERPOD:
        # The operator starts and stops processes there, and whoever reaches it can.
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
    """The dashboard of the Ray head, from KubeRay's operator in whatever namespace it is.

    The operator asks there how far the job is; shut out, it takes the job for lost. It is known
    by the label that its chart gives to its pods.
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
    """TensorBoard from the run's own namespace; a forward reaches it in any case."""
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
    """The name of node 0 before its pod is ready: for init containers, and for rendezvous.

    The training operator's own service answers only once node 0 is ready, which it is not before
    its init containers have ended and its startup probe was answered.
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
