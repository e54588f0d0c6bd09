# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The shared volume of a run: its claim, and the objects that an administrator creates."""

from seatrial.catalog.storage import StorageTier
from seatrial.naming import part_name
from seatrial.planning.plan import Plan
from seatrial.rendering.manifest import Manifest, manifest, without_empty
from seatrial.rendering.names import Component, labels, metadata, shared_labels
from seatrial.rendering.resources import capacity_bytes, quantity
from seatrial.spec.cluster import ReclaimPolicy

SHARED = ["ReadWriteMany"]
"""All pods of a run read and write the volume."""


def volume_claim(plan: Plan, tier: StorageTier) -> Manifest:
    """Return the claim of a new or an existing volume."""
    existing = plan.spec.cluster.storage.volume
    spec: Manifest = {
        "accessModes": SHARED,
        # The empty class prevents the cluster's default class from creating another volume.
        "storageClassName": "" if existing else tier.storage_class,
        "resources": {"requests": {"storage": quantity(capacity_bytes(plan, tier))}},
    }
    if existing:
        spec["volumeName"] = volume_name(plan)
    return manifest("v1", "PersistentVolumeClaim", metadata(plan, Component.STORAGE), spec=spec)


def volume_name(plan: Plan) -> str:
    """Return the name of a manually created volume. Volumes have no namespace."""
    return part_name(plan.spec.cluster.namespace, plan.spec.name)


def static_volume(plan: Plan, tier: StorageTier) -> Manifest:
    """Return the volume for an existing file system or bucket. It outlives the claim."""
    existing = plan.spec.cluster.storage.volume
    if existing is None:
        raise ValueError("the spec names no existing volume")
    return manifest(
        "v1",
        "PersistentVolume",
        {
            "name": volume_name(plan),
            "labels": labels(plan, Component.STORAGE),
            **without_empty({"annotations": dict(plan.spec.cluster.annotations)}),
        },
        spec={
            "capacity": {"storage": quantity(capacity_bytes(plan, tier))},
            "accessModes": SHARED,
            "persistentVolumeReclaimPolicy": _reclaim_policy(plan),
            # Must be empty here too, otherwise the claim does not bind.
            "storageClassName": "",
            **without_empty({"mountOptions": _mount_options(plan, tier)}),
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": plan.spec.cluster.namespace,
                "name": plan.spec.name,
            },
            "csi": {
                "driver": tier.csi_driver,
                "volumeHandle": existing.handle,
                **without_empty({"volumeAttributes": dict(existing.attributes)}),
            },
        },
    )


def _mount_options(plan: Plan, tier: StorageTier) -> list[str]:
    chosen = plan.spec.cluster.storage.mount_options
    return list(tier.mount_options if chosen is None else chosen)


def _reclaim_policy(plan: Plan) -> str:
    return str(plan.spec.cluster.storage.reclaim_policy or ReclaimPolicy.RETAIN)


def storage_class(plan: Plan, tier: StorageTier) -> Manifest:
    """Return the class from which a driver creates new volumes.

    By default, volumes stay when their claim is deleted. The charts of these clouds delete them,
    including the checkpoints.
    """
    return manifest(
        "storage.k8s.io/v1",
        "StorageClass",
        {"name": tier.storage_class, "labels": shared_labels(Component.STORAGE)},
        provisioner=tier.csi_driver,
        parameters=tier.storage_class_parameters | dict(plan.spec.cluster.storage.parameters),
        mountOptions=_mount_options(plan, tier),
        reclaimPolicy=_reclaim_policy(plan),
        volumeBindingMode="Immediate",
        allowVolumeExpansion=True,
    )
