# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The golden manifests: what they are, and how they are written anew.

python -m tests.unit.rendering.golden
"""

import re
from pathlib import Path

from seatrial.planning.plan import Plan
from seatrial.recipes.shipped import recipe
from seatrial.rendering.attempt import Attempt
from seatrial.rendering.names import spec_digest
from seatrial.rendering.render import Part, render
from seatrial.rendering.yaml_text import yaml_documents
from seatrial.sdk.plan import load_plan
from tests.unit.rendering.scenes import CATALOG, FIRST, RENDERED

DIRECTORY = Path(__file__).parents[2] / "golden"
SECOND = Attempt(2, ("node-a", "node-b"), FIRST.code_digest)


def golden_files() -> dict[str, str]:
    """The golden files by name."""
    files: dict[str, str] = {}
    for name in RENDERED:
        profile = CATALOG.profile(recipe(name).spec.cluster.profile)
        for operator in profile.operators:
            plan = _plan(name, f"cluster.operator={operator}")
            files[f"{name}.{operator}.yaml"] = _text(plan)
    files |= _others()
    return files


def _others() -> dict[str, str]:
    """Parts, attempts and versions that differ from a plain run."""
    name = "eks-llama2-7b-p4d"
    plan = _plan(name)
    files = {
        f"{name}.data.yaml": _text(plan, Part.DATA),
        f"{name}.data-ray.yaml": _text(plan, Part.DATA_RAY),
        f"{name}.admin.yaml": _text(plan, Part.ADMIN),
    }
    queue = ("cluster.queue=research", "cluster.topology={level: example.com/block}")
    files[f"{name}.second-attempt.pytorchjob.yaml"] = _text(_plan(name, *queue), attempt=SECOND)
    for version in ("2.0", "2.1", "2.3"):
        other = _plan(name, "cluster.operator=trainjob", f"cluster.operator_version='{version}'")
        files[f"{name}.second-attempt.trainjob-{version}.yaml"] = _text(other, attempt=SECOND)
    static = _plan(
        "aks-gpt3-375m-quick-test",
        "cluster.storage={tier: azure-blob, volume: {handle: group#account#corpus, "
        "attributes: {resourceGroup: group, storageAccount: account, containerName: corpus}}}",
    )
    for node_type, operator in (("a3-megagpu-8g", "pytorchjob"), ("a3-highgpu-8g", "trainjob")):
        google = _plan(
            name,
            *("cluster.profile=gke", f"cluster.node_type={node_type}"),
            *(f"cluster.operator={operator}", "cluster.storage={tier: google-lustre-1000}"),
        )
        files[f"{name}.{node_type}.{operator}.yaml"] = _text(google)
    files["aks-gpt3-375m-quick-test.static-blob.admin.yaml"] = _text(static, Part.ADMIN)
    return files


def _plan(name: str, *overrides: str) -> Plan:
    return load_plan(recipe(name).path, overrides, CATALOG)[1]


def _text(plan: Plan, part: Part = Part.RUN, attempt: Attempt = FIRST) -> str:
    """The manifests, without the digests: a plan gets another with every field it gets."""
    text = yaml_documents(render(plan, CATALOG, part, attempt).manifests)
    for digest, name in ((plan.digest, "PLAN"), (spec_digest(plan.spec), "SPEC")):
        digits = digest.partition(":")[2]
        text = text.replace(digits, name)
        # A label holds the first digits only, in quotes when they could be a number.
        text = re.sub(f'"?{digits[:16]}"?(?=\n)', name, text)
    return text


def main() -> None:
    """Write the files, and remove those that are no more."""
    files = golden_files()
    for path in DIRECTORY.glob("*.yaml"):
        if path.name not in files:
            path.unlink()
    for name, text in files.items():
        (DIRECTORY / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
