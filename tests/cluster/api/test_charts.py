# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The charts: that of an administrator, and those that `seatrial render --helm` writes."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from seatrial.cli.main import app
from seatrial.recipes.shipped import recipe
from tests.cluster.cluster import Cluster
from tests.cluster.kubectl import CommandError, helm, yaml_objects
from tests.cluster.strict import verdict

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]
CHART = Path(__file__).parents[3] / "charts/seatrial"
LOCK = f"seatrial==0.1.0 --hash=sha256:{'0' * 64}"
EVERYTHING = {
    "serviceAccount": {"identity": {"aws": "arn:aws:iam::123456789012:role/run"}},
    "launcher": {
        "subjects": [
            {"kind": "Group", "name": "research"},
            {"kind": "ServiceAccount", "name": "ci", "namespace": "ci"},
        ]
    },
    "observer": {"create": True, "subjects": [{"kind": "User", "name": "somebody"}]},
    "storageClasses": [
        {"tier": "azure-blob"},
        {
            "tier": "fsx-lustre-250",
            "parameters": {"subnetId": "subnet-0", "securityGroupIds": "sg-0"},
        },
    ],
    "workerLock": {"create": True, "seatrial": LOCK},
    "monitoring": {
        "rules": {"create": True, "labels": {"release": "prometheus"}},
        "dashboard": {"create": True},
    },
    "tensorboard": {"enabled": True, "claim": "shared", "image": "example.org/board:1"},
}
"""Values that switch every part on."""


@pytest.fixture
def values(tmp_path: Path) -> Path:
    path = tmp_path / "values.json"
    path.write_text(json.dumps(EVERYTHING))
    return path


def test_the_administrators_chart_passes_lint(values: Path) -> None:
    assert "0 chart(s) failed" in helm("lint", "--strict", str(CHART))
    assert "0 chart(s) failed" in helm("lint", "--strict", str(CHART), "--values", str(values))


def test_every_object_of_the_administrators_chart_is_taken(
    control_plane: Cluster, values: Path
) -> None:
    namespace, api = control_plane.new_namespace(), control_plane.api()
    kinds: dict[str, int] = {}
    for given in ((), ("--values", str(values))):
        text = helm("template", "seatrial", str(CHART), "--namespace", namespace, *given)
        for made in yaml_objects(text):
            found = verdict(api, made)
            assert found.refusal == "", made
            assert found.warnings == (), made
            kinds[made["kind"]] = kinds.get(made["kind"], 0) + 1
    assert set(kinds) >= {"Role", "RoleBinding", "ClusterRole", "StorageClass", "Deployment"}
    assert kinds["PrometheusRule"] == 1


def test_the_administrators_chart_installs_upgrades_and_goes(
    control_plane: Cluster, values: Path
) -> None:
    namespace = control_plane.new_namespace()
    where = ("--namespace", namespace)
    control_plane.helm("install", "seatrial", str(CHART), *where)
    role = control_plane.get("role", "seatrial-launcher", namespace)
    assert (["batch"], ["jobs"]) in [(r["apiGroups"], r["resources"]) for r in role["rules"]]
    control_plane.helm("upgrade", "seatrial", str(CHART), *where, "--values", str(values))
    lock = control_plane.get("configmap", "seatrial-worker-lock", namespace)
    assert LOCK in lock["data"]["worker.txt"]
    control_plane.helm("uninstall", "seatrial", *where)
    with pytest.raises(CommandError, match="not found"):
        control_plane.get("role", "seatrial-launcher", namespace)


def test_what_a_site_does_not_use_is_left_out_of_the_role(tmp_path: Path) -> None:
    given = tmp_path / "values.json"
    off = dict.fromkeys(("rayJobs", "tensorboard", "podMonitors", "serviceAccounts"), False)
    given.write_text(json.dumps({"launcher": {"may": off}}))

    def kinds(*words: str) -> set[str]:
        text = helm("template", "seatrial", str(CHART), *words)
        (role,) = [each for each in yaml_objects(text) if each["kind"] == "Role"]
        return {kind for rule in role["rules"] for kind in rule["resources"]}

    left_out = {"rayjobs", "deployments", "podmonitors", "serviceaccounts"}
    assert kinds() - kinds("--values", str(given)) == left_out


def test_a_value_that_is_not_known_is_refused(tmp_path: Path) -> None:
    wrong = tmp_path / "values.json"
    wrong.write_text(json.dumps({"launcher": {"subjetcs": []}}))
    with pytest.raises(CommandError, match="subjetcs"):
        helm("template", "seatrial", str(CHART), "--values", str(wrong))


@pytest.mark.parametrize("name", ["aks-gpt3-175b", "eks-llama2-7b-p4d", "aks-gpt3-375m-quick-test"])
@pytest.mark.parametrize("operator", ["pytorchjob", "trainjob"])
def test_the_chart_of_a_run_is_good(
    control_plane: Cluster, tmp_path: Path, name: str, operator: str
) -> None:
    namespace, chart = control_plane.new_namespace(), tmp_path / "chart"
    told = [f"cluster.namespace={namespace}", f"cluster.operator={operator}"]
    arguments = ["render", str(recipe(name).path), *told, "--helm", "--output", str(chart)]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert "0 chart(s) failed" in helm("lint", "--strict", str(chart))
    where = ("--namespace", namespace)
    owner: tuple[str, ...] = ()
    if operator == "trainjob":
        # Trainer wants the runtime before the job, and a dry run keeps nothing.
        runtime = next(chart.glob("templates/*-trainingruntime-*"))
        shown = helm(
            "template", "run", str(chart), *where, "--show-only", f"templates/{runtime.name}"
        )
        control_plane.kubectl("create", *where, "-f", "-", given=shown)
        owner = ("--take-ownership",)
    made = control_plane.helm("install", "run", str(chart), *where, "--dry-run=server", *owner)
    assert "STATUS: pending-install" in made
