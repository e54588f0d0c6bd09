# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The pod of a run that serves TensorBoard."""

from seatrial.cluster import objects
from seatrial.cluster.errors import ClusterError
from seatrial.cluster.kinds import POD
from seatrial.codes.cluster import ClusterCode
from seatrial.rendering.names import COMPONENT_LABEL, RUN_LABEL, Component
from seatrial.runs.namespace import Site
from seatrial.runs.status.container_reasons import is_running, why_not_running


def tensorboard_pod(site: Site, run: str) -> str:
    """The name of the pod; raises when there is none that runs, with the reason."""
    selector = f"{RUN_LABEL}={run},{COMPONENT_LABEL}={Component.TENSORBOARD}"
    pods, _ = objects.list_all(site.api, POD, site.namespace, selector)
    for pod in pods:
        if is_running(pod):
            return str(pod["metadata"]["name"])
    why = [finding.one_line() for pod in pods for finding in why_not_running(pod, [])]
    raise ClusterError(
        ClusterCode.NOT_FOUND,
        f"{site.namespace}/{run}",
        f"no pod serves TensorBoard: {why[0]}" if why else "no pod serves TensorBoard.",
        "Wait until it runs; a run has one unless monitoring.tensorboard is false."
        if pods
        else "Launch the run with monitoring.tensorboard, which is the default.",
    )
