# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The monitoring section: where the metrics of a run are sent."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from seatrial.spec.base import DEFAULTS, SpecModel
from seatrial.spec.scalars import Flag, PositiveInt

_NAME = r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
LabelKey = Annotated[str, Field(pattern=rf"^([a-z0-9][-a-z0-9.]*/)?{_NAME}$", max_length=317)]
LabelValue = Annotated[str, Field(pattern=rf"^({_NAME})?$", max_length=63)]


class WandbMode(StrEnum):
    """When metrics are sent to Weights & Biases."""

    ONLINE = "online"
    """Metrics are sent immediately."""
    OFFLINE = "offline"
    """Metrics are written to files, to be sent later."""


class WandbSpec(SpecModel):
    """Weights & Biases; its API key comes from `cluster.secrets`."""

    project: str = Field(min_length=1)
    """Project in Weights & Biases."""
    entity: str | None = None
    """Team or user that owns the project; defaults to the owner of the API key."""
    mode: WandbMode = WandbMode.ONLINE
    """When metrics are sent: during the run, or later."""


class MlflowSpec(SpecModel):
    """MLflow, fed from the event log; its credentials come from `cluster.secrets`."""

    tracking_uri: str = Field(min_length=1)
    """Address of the tracking server, or a directory."""
    experiment: str = Field(min_length=1)
    """Experiment in MLflow."""


class PodMonitorSpec(SpecModel):
    """The PodMonitor through which the Prometheus Operator finds the run's metrics endpoint."""

    labels: Mapping[LabelKey, LabelValue] = {}
    """Labels that the cluster's Prometheus selects, such as `{release: prometheus}`."""
    interval_seconds: PositiveInt = 30
    """Scrape interval in seconds."""


class PrometheusSpec(SpecModel):
    """The metrics endpoint of the worker."""

    enabled: Flag = True
    """True to serve metrics from the worker."""
    port: Annotated[int, Field(strict=True, ge=1024, le=65535)] = 9400
    """Port inside the pod; without Kubernetes, on the loopback interface of this host."""
    pod_monitor: PodMonitorSpec | None = None
    """PodMonitor for a cluster with the Prometheus Operator; if not set, none is created."""


class MonitoringSpec(SpecModel):
    """Where the metrics of a run are sent; the event log is always written."""

    log_every_steps: PositiveInt = 10
    """Steps between lines in the engine's log."""
    tensorboard: Flag = True
    """True to write TensorBoard files next to the checkpoints."""
    wandb: WandbSpec | None = None
    """Weights & Biases; off if not set."""
    mlflow: MlflowSpec | None = None
    """MLflow; off if not set."""
    prometheus: PrometheusSpec = DEFAULTS
    """The metrics endpoint of the worker."""
