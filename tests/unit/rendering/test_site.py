# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What a cluster needs, in versions that work together, in three formats."""

import shutil
import subprocess
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from seatrial.catalog.catalog import Catalog, Kind
from seatrial.catalog.components import ComponentRole, VersionRange
from seatrial.errors import FindingsError, NotInCatalogError, UsageError
from seatrial.rendering.site import Release, conflicts_among
from seatrial.rendering.site_files import SiteFormat
from seatrial.sdk.site import SiteComponents, site

CATALOG = Catalog()
PROFILES = ("aks", "eks", "hyperpod-eks", "gke")


def made(target: str, *overrides: str, catalog: Catalog = CATALOG) -> SiteComponents:
    return site(target, overrides, catalog=catalog)


def versions(found: SiteComponents) -> dict[str, str]:
    return {each.name: each.version for each in found.releases}


def release(found: SiteComponents, name: str) -> Release:
    return next(each for each in found.releases if each.name == name)


NEEDED = {
    "aks": "kube-prometheus-stack network-operator aks-nic-policy gpu-operator dcgm-exporter "
    "training-operator kueue azure-lustre-csi-driver",
    "eks": "kube-prometheus-stack aws-efa-device-plugin nvidia-device-plugin dcgm-exporter "
    "training-operator kueue aws-fsx-csi-driver",
    "hyperpod-eks": "hyperpod-dependencies kube-prometheus-stack aws-efa-device-plugin "
    "nvidia-device-plugin dcgm-exporter training-operator kueue aws-fsx-csi-driver",
    "gke": "kube-prometheus-stack gke-nccl-rdma-installer gke-gpus gke-dcgm training-operator "
    "kueue gke-lustre-csi-driver",
}


@pytest.mark.parametrize("profile", PROFILES)
def test_every_profile_has_a_component_for_each_role(profile: str) -> None:
    assert [each.name for each in made(profile).releases] == NEEDED[profile].split()


@pytest.mark.parametrize("profile", PROFILES)
def test_every_release_is_pinned_or_managed_and_states_its_source(profile: str) -> None:
    for each in made(profile).releases:
        assert each.version or each.part_of or each.component.managed, each.name
        assert each.component.source


def test_a_run_needs_less_than_its_profile(tmp_path: Path) -> None:
    spec = tmp_path / "run.yaml"
    spec.write_text(
        "apiVersion: seatrial.dev/v1alpha1\nname: small\nmodel: {preset: gpt3-1.3b}\n"
        "data: {mock: true}\ntraining: {tokens: 1B}\n"
        "cluster: {profile: eks, storage: {claim: shared}}\n"
    )
    names = versions(made(str(spec)))
    assert "kueue" not in names  # one node needs no gang
    assert "aws-fsx-csi-driver" not in names  # the volume exists
    names = versions(made(str(spec), "monitoring.prometheus.enabled=false", "cluster.queue=q"))
    assert "kueue" in names
    assert not {"kube-prometheus-stack", "dcgm-exporter"} & set(names)


def test_what_another_component_installs_is_named_and_not_installed_twice() -> None:
    found = made("hyperpod-eks")
    for name in ("training-operator", "nvidia-device-plugin", "aws-efa-device-plugin"):
        assert release(found, name).part_of == "hyperpod-dependencies"
    text = found.text()
    assert "kubeflow/training-operator.git" not in text
    assert "(training-operator). Installed by hyperpod-dependencies." in text
    assert release(made("aks", "cluster.operator=trainjob"), "jobset").part_of == "kubeflow-trainer"


def test_only_one_node_feature_discovery_is_installed() -> None:
    values = dict(release(made("aks"), "gpu-operator").values or {})
    assert values["nfd"] == {"enabled": False}
    assert values["driver"] == {"rdma": {"enabled": True}}
    alone = made("aks", "cluster.fabric=none", "monitoring.prometheus.enabled=false")
    assert release(alone, "gpu-operator").values == {}


def test_hyperpods_own_operator_needs_certificates() -> None:
    names = versions(made("hyperpod-eks", "cluster.operator=hyperpod-pytorchjob"))
    assert names["cert-manager"] == "v1.18.2"
    assert names["hyperpod-training-operator"] == ""
    assert "cert-manager" not in versions(made("hyperpod-eks"))


def test_versions_that_work_together_are_chosen() -> None:
    chosen = versions(made("eks", "cluster.operator=trainjob"))
    assert (chosen["kubeflow-trainer"], chosen["kueue"]) == ("2.2.0", "0.19.2")
    chosen = versions(made("eks", "cluster.operator=trainjob", 'cluster.operator_version="2.1"'))
    assert (chosen["kubeflow-trainer"], chosen["kueue"]) == ("2.1.0", "0.15.0")
    chosen = versions(made("eks", "cluster.operator=trainjob", "cluster.gang=none"))
    assert chosen["kubeflow-trainer"] == "2.3.0"
    assert versions(made("eks"))["kueue"] == "0.15.0"


def test_versions_that_do_not_work_together_are_refused_with_the_reason() -> None:
    with pytest.raises(FindingsError) as refused:
        made("eks", "cluster.operator=trainjob", 'cluster.operator_version="2.3"')
    old, new = refused.value.findings
    assert old.code == new.code == "ST-OPERATOR-011"
    assert old.rule.startswith("kueue 0.15.0 and kubeflow-trainer 2.3.0")
    assert new.rule.startswith("kueue 0.19.2 and kubeflow-trainer 2.3.0")
    assert "cluster.operator_version" in new.fix


def test_an_operator_version_that_is_not_known_is_refused() -> None:
    with pytest.raises(FindingsError) as refused:
        made("eks", "cluster.operator=trainjob", 'cluster.operator_version="2.9"')
    (finding,) = refused.value.findings
    assert finding.code == "ST-OPERATOR-010"
    assert "2.3.0" in finding.fix


@pytest.mark.parametrize(
    ("kueue", "other", "version", "known"),
    [
        ("0.17.3", "kubeflow-trainer", "2.1.0", True),  # kubernetes-sigs/kueue#11931
        ("0.16.9", "kubeflow-trainer", "2.1.0", False),
        ("0.17.0", "kubeflow-trainer", "2.2.0", False),
        ("0.15.0", "kubeflow-trainer", "2.2.0", True),
        ("0.19.2", "kubeflow-trainer", "2.3.0", True),
        ("0.20.0", "kubeflow-trainer", "2.3.0", False),
        ("0.13.0", "kubeflow-trainer", "2.0.0", True),
        ("0.14.0", "kubeflow-trainer", "2.0.0", False),
        ("0.18.0", "training-operator", "1.9.3", False),
        ("0.19.0", "training-operator", "1.9.3", True),
        ("", "kubeflow-trainer", "2.1.0", False),
    ],
)
def test_known_conflicts(kueue: str, other: str, version: str, *, known: bool) -> None:
    found = list(conflicts_among({"kueue": kueue, other: version}, CATALOG))
    assert bool(found) is known


def test_a_version_range() -> None:
    between = VersionRange(since="0.17", below="0.20")
    assert between.contains("v0.17.0")
    assert between.contains("0.19.9")
    assert not between.contains("0.20.0")
    assert not between.contains("main")
    assert str(between) == "0.17 to below 0.20"


def test_an_own_profile_gets_the_defaults(tmp_path: Path) -> None:
    (tmp_path / "profiles.toml").write_text(
        '[lab]\nlike = "aks"\ntitle = "Our rack"\nsource = "our own rack"\ncloud = "google"\n'
    )
    names = versions(made("lab", catalog=Catalog([tmp_path])))
    assert "gke-gpus" in names  # by its cloud
    assert "network-operator" in names  # by its devices
    assert "aks-nic-policy" not in names


def test_an_own_catalog_pins_other_versions(tmp_path: Path) -> None:
    (tmp_path / "components.toml").write_text('[kueue]\nversions = ["0.16.9"]\n')
    assert versions(made("eks", catalog=Catalog([tmp_path])))["kueue"] == "0.16.9"


def test_this_host_and_unknown_profiles_are_refused() -> None:
    with pytest.raises(UsageError, match="needs no cluster components"):
        made("local")
    with pytest.raises(NotInCatalogError, match="Did you mean aks"):
        made("azure")


@pytest.mark.parametrize("profile", PROFILES)
def test_the_commands_are_a_script_that_the_shell_accepts(profile: str) -> None:
    text = made(profile).text("commands")
    shell = shutil.which("bash")
    assert shell
    subprocess.run([shell, "-n"], input=text, text=True, check=True)
    for line in text.splitlines():
        assert not line.startswith("helm upgrade") or "--version" in line or "helm_chart" in line


def test_a_managed_component_says_how_to_enable_it() -> None:
    for form in SiteFormat:
        text = made("gke").text(form)
        assert "# Managed by the cloud. Enable it with: gcloud container clusters update" in text


@pytest.mark.parametrize("profile", PROFILES)
def test_the_helmfile_has_every_chart(profile: str) -> None:
    found = made(profile)
    body = YAML(typ="safe").load(found.text("helmfile"))
    charts = [each for each in found.releases if not each.part_of]
    wanted = {e.name: e.version for e in charts if e.component.chart or e.component.path}
    written = {each["name"]: each.get("version") for each in body["releases"]}
    assert set(written) == set(wanted)
    repositories = {each["name"] for each in body["repositories"]}
    for each in body["releases"]:
        prefix = each["chart"].partition("/")[0]
        assert prefix in repositories or each["chart"].startswith("git::")


@pytest.mark.parametrize("profile", PROFILES)
def test_the_applications_are_pinned(profile: str) -> None:
    found = made(profile, "cluster.operator=trainjob")
    documents = list(YAML(typ="safe").load_all(found.text("argocd")))
    own = [e.name for e in found.releases if not e.part_of and not e.component.managed]
    assert [each["metadata"]["name"] for each in documents] == own
    for each in documents:
        for source in each["spec"]["sources"]:
            assert source["targetRevision"]
            assert not source["repoURL"].startswith("oci://")


def test_every_component_is_for_some_cluster() -> None:
    for name in CATALOG.names(Kind.COMPONENTS):
        component = CATALOG.component(name)
        assert component.role in ComponentRole
        if component.role in (ComponentRole.FABRIC, ComponentRole.FABRIC_SETTINGS):
            assert component.devices or component.fabrics
        if component.role is ComponentRole.STORAGE:
            assert component.csi_driver
