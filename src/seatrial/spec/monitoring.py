# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The monitoring section: where a run's numbers go."""

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
    """Whether Weights & Biases is reached while the run goes on."""

    ONLINE = "online"
    """Numbers are sent at once."""
    OFFLINE = "offline"
    """Numbers are kept in files to be sent later."""


class WandbSpec(SpecModel):
    """Weights & Biases; its key comes from `cluster.secrets`."""

    project: str = Field(min_length=1)
    """Project that the run belongs to."""
    entity: str | None = None
    """Team or user that owns the project; the key's own when absent."""
    mode: WandbMode = WandbMode.ONLINE
    """Whether it is reached while the run goes on."""


class MlflowSpec(SpecModel):
    """MLflow, from the event log; its credentials come from `cluster.secrets`."""

    tracking_uri: str = Field(min_length=1)
    """Address of the tracking server, or a directory."""
    experiment: str = Field(min_length=1)
    """Experiment that the run belongs to."""


class PodMonitorSpec(SpecModel):
    """The object by which the Prometheus operator finds the endpoint of the run."""

    labels: Mapping[LabelKey, LabelValue] = {}
    """Labels that the cluster's Prometheus selects by, such as `{release: prometheus}`."""
    interval_seconds: PositiveInt = 30
    """Seconds between looks at the endpoint."""


class PrometheusSpec(SpecModel):
    """The metrics endpoint of the worker."""

    enabled: Flag = True
    """Whether the worker serves metrics."""
    port: Annotated[int, Field(strict=True, ge=1024, le=65535)] = 9400
    """Port inside the pod; on this host without Kubernetes, on loopback."""
    pod_monitor: PodMonitorSpec | None = None
    """A PodMonitor, where the cluster has the Prometheus operator; none when absent."""


class MonitoringSpec(SpecModel):
    """Where a run's numbers go; the event log is always written."""

    log_every_steps: PositiveInt = 10
    """Steps between lines of the engine's own log."""
    tensorboard: Flag = True
    """Whether TensorBoard files are written beside the checkpoints."""
    wandb: WandbSpec | None = None
    """Weights & Biases; off when absent."""
    mlflow: MlflowSpec | None = None
    """MLflow; off when absent."""
    prometheus: PrometheusSpec = DEFAULTS
    """The metrics endpoint of the worker."""
