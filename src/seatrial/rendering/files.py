# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Renderings as files: plain YAML with a kustomization beside it."""

from seatrial.rendering.manifest import Manifest
from seatrial.rendering.render import Rendering
from seatrial.rendering.yaml_text import yaml_text

KUSTOMIZATION = "kustomization.yaml"


def rendering_files(rendering: Rendering) -> dict[str, str]:
    """Each manifest in a file of its own, numbered in the order in which they are to be made."""
    files = {
        file_name(number, manifest): yaml_text(manifest)
        for number, manifest in enumerate(rendering.manifests, start=1)
    }
    kustomization: Manifest = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        # kustomize would put kinds that it does not know last; the order here is meant.
        "sortOptions": {"order": "fifo"},
        "resources": list(files),
    }
    return files | {KUSTOMIZATION: yaml_text(kustomization)}


def file_name(number: int, manifest: Manifest) -> str:
    """`08-pytorchjob-slim-7b.yaml`."""
    return f"{number:02}-{manifest['kind'].lower()}-{manifest['metadata']['name']}.yaml"
