# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The shared volume of a run: its claim, and what an administrator makes for it."""

from seatrial.catalog.storage import StorageTier
from seatrial.naming import part_name
from seatrial.planning.plan import Plan
from seatrial.rendering.manifest import Manifest, manifest, without_empty
from seatrial.rendering.names import Component, labels, metadata, shared_labels
from seatrial.rendering.resources import capacity_bytes, quantity

SHARED = ["ReadWriteMany"]
"""Every pod of a run reads and writes the volume."""


def volume_claim(plan: Plan, tier: StorageTier) -> Manifest:
    """The claim of a new volume, or of one that exists."""
    existing = plan.spec.cluster.storage.volume
    spec: Manifest = {
        "accessModes": SHARED,
        # An empty class keeps the cluster's default class from making another volume.
        "storageClassName": "" if existing else tier.storage_class,
        "resources": {"requests": {"storage": quantity(capacity_bytes(plan, tier))}},
    }
    if existing:
        spec["volumeName"] = volume_name(plan)
    return manifest("v1", "PersistentVolumeClaim", metadata(plan, Component.STORAGE), spec=spec)


def volume_name(plan: Plan) -> str:
    """The name of a volume that is made by hand; volumes have no namespace."""
    return part_name(plan.spec.cluster.namespace, plan.spec.name)


def static_volume(plan: Plan, tier: StorageTier) -> Manifest:
    """The volume around a file system or bucket that exists; it is never deleted with the claim."""
    existing = plan.spec.cluster.storage.volume
    if existing is None:
        raise ValueError("the spec names no existing volume")
    return manifest(
        "v1",
        "PersistentVolume",
        {"name": volume_name(plan), "labels": labels(plan, Component.STORAGE)},
        spec={
            "capacity": {"storage": quantity(capacity_bytes(plan, tier))},
            "accessModes": SHARED,
            "persistentVolumeReclaimPolicy": "Retain",
            # An empty class here too, or the claim would not be bound to it.
            "storageClassName": "",
            **without_empty({"mountOptions": list(tier.mount_options)}),
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


def storage_class(tier: StorageTier, parameters: dict[str, str]) -> Manifest:
    """The class from which a driver makes new volumes.

    Volumes stay when their claim is deleted: the charts that these clouds ship delete them, and
    the checkpoints with them.
    """
    return manifest(
        "storage.k8s.io/v1",
        "StorageClass",
        {"name": tier.storage_class, "labels": shared_labels(Component.STORAGE)},
        provisioner=tier.csi_driver,
        parameters={**tier.storage_class_parameters, **parameters},
        mountOptions=list(tier.mount_options),
        reclaimPolicy="Retain",
        volumeBindingMode="Immediate",
        allowVolumeExpansion=True,
    )
