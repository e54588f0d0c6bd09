# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The manifests of every recipe are the golden ones, and hold nothing that they must not."""

import json
import re
import time

import pytest

from seatrial.recipes.shipped import recipe
from seatrial.rendering.attempt import Attempt
from seatrial.rendering.render import Part, render
from seatrial.rendering.rules import secrets_in
from seatrial.rendering.yaml_text import yaml_documents
from seatrial.sdk.plan import load_plan
from seatrial.spec.cluster import Operator
from tests.unit.rendering.golden import DIRECTORY, golden_files
from tests.unit.rendering.scenes import CATALOG, FIRST, every_combination, retargeted

MIB = 1 << 20
"""What etcd takes of one object, by its default of 1.5 MiB with room for status."""


def test_the_golden_files_are_those_that_are_rendered() -> None:
    there = {path.name: path.read_text(encoding="utf-8") for path in DIRECTORY.glob("*.yaml")}
    made = golden_files()
    assert sorted(there) == sorted(made), "run: python -m tests.unit.rendering.golden"
    differing = [name for name, text in made.items() if there[name] != text]
    assert differing == [], "run: python -m tests.unit.rendering.golden, and read the difference"


@pytest.mark.parametrize(("name", "profile", "operator"), every_combination())
def test_every_recipe_renders_on_every_profile_with_every_operator(
    name: str, profile: str, operator: Operator
) -> None:
    plan = retargeted(name, profile, operator)
    for part in Part:
        made = render(plan, CATALOG, part, FIRST).manifests
        assert secrets_in(made) == []
        identities = [(m["kind"], m["metadata"]["name"]) for m in made]
        assert len(identities) == len(set(identities))
        for manifest in made:
            assert re.fullmatch(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", manifest["metadata"]["name"])


def test_175b_on_64_nodes_is_rendered_within_a_second() -> None:
    plan = load_plan(recipe("aks-gpt3-175b").path, (), CATALOG)[1]
    assert plan.machines.nodes == 64
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        text = yaml_documents(render(plan, CATALOG).manifests)
        seconds.append(time.perf_counter() - began)
    assert len(text) > 10_000
    print(f"aks-gpt3-175b on {plan.machines.nodes} nodes: rendered in {min(seconds):.3f} s")  # noqa: T201
    assert min(seconds) < 1


@pytest.mark.parametrize("operator", ["pytorchjob", "trainjob"])
def test_an_object_stays_small_on_12500_nodes(operator: str) -> None:
    overrides = (
        "cluster.nodes=12500",
        f"cluster.operator={operator}",
        "parallelism.pp_size=4",
        "training.global_batch_size=25000",
        "training.micro_batch_size=1",
    )
    plan = load_plan(recipe("aks-gpt3-175b").path, overrides, CATALOG)[1]
    assert plan.machines.world_size == 100_000
    # Nodes that failed earlier attempts: more than a run of that size loses in a month.
    attempt = Attempt(9, tuple(f"aks-gpu-12345678-vmss{i:06}" for i in range(500)))
    made = [m for part in Part for m in render(plan, CATALOG, part, attempt).manifests]
    # The server counts the bytes of the compact form.
    sizes = {f"{m['kind']} {m['metadata']['name']}": len(json.dumps(m).encode()) for m in made}
    largest = max(sizes, key=lambda name: sizes[name])
    print(  # noqa: T201
        f"{operator}: {len(made)} objects on 12,500 nodes, the largest {largest} with "
        f"{sizes[largest] / 1024:.0f} KiB"
    )
    assert max(sizes.values()) < MIB, sizes


def test_a_secret_in_no_byte_of_what_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    token = "hf_" + "s" * 34
    for name in ("HF_TOKEN", "WANDB_API_KEY", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, token)
    overrides = (
        "cluster.secrets=[{secret: hub, key: token, env: HF_TOKEN}, "
        "{secret: wandb, key: key, env: WANDB_API_KEY}, {secret: all, mount: /etc/all}]",
        "monitoring.wandb={project: p}",
    )
    plan = load_plan(recipe("eks-llama2-7b-p4d").path, overrides, CATALOG)[1]
    for part in Part:
        text = yaml_documents(render(plan, CATALOG, part, FIRST).manifests)
        assert token not in text
        # The names of the secrets are there, or nobody would receive them.
        assert ("secretKeyRef" in text) == (part is not Part.ADMIN)
