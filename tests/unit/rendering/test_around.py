# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What stands around the job: volume, TensorBoard, network, access, data preparation."""

import shlex
from pathlib import Path

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.catalog.entry import Kind
from seatrial.rendering.access import launcher_rules, observer_rules
from seatrial.rendering.attempt import Attempt
from seatrial.rendering.context import scene_of
from seatrial.rendering.data_jobs import indexed_job
from seatrial.rendering.manifest import Manifest
from seatrial.rendering.render import Part, render
from seatrial.rendering.resources import TIB, capacity_bytes, quantity, saved_bytes
from seatrial.rendering.spec_config import DIRECTORY, FILE, spec_config, spec_text
from seatrial.rendering.storage import storage_class
from seatrial.spec.cluster import Operator
from seatrial.spec.loader import loads
from tests.conftest import loaded, plan_spec, resolved
from tests.unit.rendering.scenes import (
    CATALOG,
    PROFILES,
    environment,
    manifests,
    pod_templates,
    scene,
)


def of_kind(kind: str, *overrides: str, part: Part = Part.RUN) -> list[Manifest]:
    """The objects of a kind."""
    return [m for m in manifests(*overrides, part=part) if m["kind"] == kind]


def test_kuberays_operator_reaches_the_heads_dashboard_and_nothing_else() -> None:
    (_, policy) = of_kind("NetworkPolicy", part=Part.DATA_RAY)
    chosen = policy["spec"]["podSelector"]["matchLabels"]
    (template, *_) = pod_templates(manifests(part=Part.DATA_RAY)[-1])
    # KubeRay adds the last label to the head.
    assert chosen.pop("ray.io/node-type") == "head"
    assert chosen.items() <= template["metadata"]["labels"].items()
    (rule,) = policy["spec"]["ingress"]
    assert rule["ports"] == [{"protocol": "TCP", "port": 8265}]
    (source,) = rule["from"]
    assert source["namespaceSelector"] == {}
    labels = {"app.kubernetes.io/name": "kuberay-operator"}
    assert source["podSelector"] == {"matchLabels": labels}


def test_a_new_volume_is_claimed_of_its_tiers_class_and_large_enough() -> None:
    (claim,) = of_kind("PersistentVolumeClaim")
    assert claim["spec"]["storageClassName"] == "seatrial-fsx-lustre-250"
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    plan, tier = resolved(), CATALOG.storage("fsx-lustre-250")
    size = capacity_bytes(plan, tier)
    assert claim["spec"]["resources"]["requests"]["storage"] == quantity(size)
    # The newest three, and the one that is being written.
    assert size >= 4 * saved_bytes(plan)
    # 1200 GiB, then steps of 2400.
    assert (size - 1200 * (1 << 30)) % (2400 * (1 << 30)) == 0


def test_a_given_capacity_is_asked_for() -> None:
    (claim,) = of_kind("PersistentVolumeClaim", "cluster.storage={capacity: 3600Gi}")
    assert claim["spec"]["resources"]["requests"]["storage"] == "3600Gi"


def test_checkpoints_that_are_kept_for_good_need_room_too() -> None:
    tier = CATALOG.storage("fsx-lustre-250")
    plain, kept = (
        capacity_bytes(resolved(f"checkpoints={{every_steps: 10, keep_last: 2{more}}}"), tier)
        for more in ("", ", keep_every_steps: 10")
    )
    assert kept > plain + 90 * saved_bytes(resolved())


def test_the_checkpoint_of_175b_is_as_large_as_azures_guide_states() -> None:
    plan = resolved("model.preset=gpt3-175b", "cluster.nodes=64")
    assert saved_bytes(plan) / TIB == pytest.approx(2.22, abs=0.01)


def test_an_existing_claim_is_mounted_and_nothing_is_made() -> None:
    made = manifests("cluster.storage={claim: fsx-claim}")
    assert "PersistentVolumeClaim" not in {m["kind"] for m in made}
    assert {"claimName": "fsx-claim"} in [
        volume.get("persistentVolumeClaim")
        for template in pod_templates(made[-1])
        for volume in template["spec"]["volumes"]
    ]
    admin = manifests("cluster.storage={claim: fsx-claim}", part=Part.ADMIN)
    assert {m["kind"] for m in admin} == {"Role", "ClusterRole"}


STATIC = "cluster.storage={volume: {handle: fs-1, attributes: {dnsname: d, mountname: m}}}"


def test_an_existing_file_system_is_bound_and_never_deleted() -> None:
    (claim,) = of_kind("PersistentVolumeClaim", STATIC)
    (volume,) = of_kind("PersistentVolume", STATIC, part=Part.ADMIN)
    assert claim["spec"]["storageClassName"] == volume["spec"]["storageClassName"] == ""
    assert claim["spec"]["volumeName"] == volume["metadata"]["name"]
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert volume["spec"]["claimRef"]["name"] == claim["metadata"]["name"]
    assert volume["spec"]["csi"] == {
        "driver": "fsx.csi.aws.com",
        "volumeHandle": "fs-1",
        "volumeAttributes": {"dnsname": "d", "mountname": "m"},
    }
    assert volume["spec"]["mountOptions"] == ["flock"]
    assert not of_kind("StorageClass", STATIC, part=Part.ADMIN)


TIERS = [
    name
    for name in CATALOG.names(Kind.STORAGE)
    if CATALOG.storage(name).csi_driver and CATALOG.storage(name).dynamic
]


@pytest.mark.parametrize("name", TIERS)
def test_volumes_of_every_tier_outlive_their_claims(name: str) -> None:
    tier = CATALOG.storage(name)
    made = storage_class(resolved("cluster.storage={parameters: {subnetId: subnet-1}}"), tier)
    assert made["reclaimPolicy"] == "Retain"
    assert made["provisioner"] == tier.csi_driver
    assert made["parameters"] == tier.storage_class_parameters | {"subnetId": "subnet-1"}
    assert made.get("mountOptions", []) == list(tier.mount_options)


def test_tensorboard_has_a_service_that_selects_it_and_only_reads() -> None:
    (deployment,) = of_kind("Deployment")
    (service,) = [m for m in of_kind("Service") if "tensorboard" in m["metadata"]["name"]]
    template = deployment["spec"]["template"]
    assert service["spec"]["selector"].items() <= template["metadata"]["labels"].items()
    assert deployment["spec"]["selector"]["matchLabels"] == service["spec"]["selector"]
    (container,) = template["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports[service["spec"]["ports"][0]["targetPort"]] == service["spec"]["ports"][0]["port"]
    assert "--logdir=/data/slim-7b/checkpoints/tensorboard" in container["command"]
    (storage,) = [v for v in template["spec"]["volumes"] if v["name"] == "storage"]
    assert storage["persistentVolumeClaim"]["readOnly"] is True
    assert "nvidia.com/gpu" not in str(template)
    kinds = {m["kind"] for m in manifests("monitoring.tensorboard=false")}
    assert "Deployment" not in kinds


@pytest.mark.parametrize(
    "profile", [name for name in PROFILES if CATALOG.profile(name).node_type_label]
)
def test_tensorboard_has_a_small_image_and_stays_off_the_gpu_nodes(profile: str) -> None:
    node_type = CATALOG.profile(profile).default_node_type
    chosen = (f"cluster.profile={profile}", f"cluster.node_type={node_type}")
    (deployment,) = of_kind("Deployment", *chosen)
    spec = deployment["spec"]["template"]["spec"]
    assert [each["image"] for each in spec["containers"]] == ["tensorflow/tensorflow:2.19.0"]
    affinity = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (term,) = affinity["nodeSelectorTerms"]
    rules = {each["key"]: (each["operator"], each["values"]) for each in term["matchExpressions"]}
    operator, avoided = rules[CATALOG.profile(profile).node_type_label]
    assert operator == "NotIn"
    assert node_type in avoided
    assert rules["kubernetes.io/arch"] == ("In", ["amd64"])
    assert "tolerations" not in spec


def test_an_own_catalog_names_the_nodes_for_tensorboard(tmp_path: Path) -> None:
    (tmp_path / "profiles.toml").write_text(
        '[lab]\nlike = "eks"\ncpu_node_labels = { pool = "cpu" }\n'
        'cpu_tolerations = [{ key = "pool", operator = "Equal", value = "cpu" }]\n'
    )
    catalog = Catalog([tmp_path])
    plan = plan_spec(loaded("cluster.profile=lab"), catalog)
    made = render(plan, catalog).manifests
    (deployment,) = [each for each in made if each["kind"] == "Deployment"]
    spec = deployment["spec"]["template"]["spec"]
    assert spec["tolerations"] == [
        {"key": "pool", "operator": "Equal", "value": "cpu", "effect": "NoSchedule"}
    ]
    assert {"key": "pool", "operator": "In", "values": ["cpu"]} in spec["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]["nodeSelectorTerms"][0]["matchExpressions"]


def test_only_the_run_and_collectors_of_metrics_reach_its_pods() -> None:
    (policy, tensorboard) = of_kind("NetworkPolicy")
    assert policy["spec"]["podSelector"] == {"matchLabels": {"seatrial.dev/run": "slim-7b"}}
    own, metrics = policy["spec"]["ingress"]
    assert own == {"from": [{"podSelector": {"matchLabels": {"seatrial.dev/run": "slim-7b"}}}]}
    assert metrics["ports"] == [{"protocol": "TCP", "port": 9400}]
    assert tensorboard["spec"]["ingress"][0]["ports"] == [{"protocol": "TCP", "port": 6006}]
    (closed, _) = of_kind("NetworkPolicy", "monitoring.prometheus.enabled=false")
    assert len(closed["spec"]["ingress"]) == 1


def test_the_operator_of_hyperpod_reaches_its_agent_and_nobody_else_does() -> None:
    (policy, _) = of_kind(
        "NetworkPolicy",
        "cluster.profile=hyperpod-eks",
        "cluster.node_type=ml.p4d.24xlarge",
        f"cluster.operator={Operator.HYPERPOD}",
    )
    (agent,) = [
        rule
        for rule in policy["spec"]["ingress"]
        if rule.get("ports") == [{"protocol": "TCP", "port": 8080}]
    ]
    named = {"kubernetes.io/metadata.name": "aws-hyperpod"}
    assert agent["from"] == [{"namespaceSelector": {"matchLabels": named}}]
    assert "8080" not in str(of_kind("NetworkPolicy"))


ALLOWED = {"get", "list", "watch", "create", "patch", "delete"}


def test_a_launcher_may_not_do_what_no_launch_needs() -> None:
    for rules in (launcher_rules(), observer_rules()):
        for rule in rules:
            assert set(rule["verbs"]) <= ALLOWED
            assert "*" not in (*rule["resources"], *rule["apiGroups"])
    granted = {
        (group, kind): rule["verbs"]
        for rule in launcher_rules()
        for group in rule["apiGroups"]
        for kind in rule["resources"]
    }
    for denied in ("secrets", "pods/exec", "nodes", "persistentvolumes", "roles", "rolebindings"):
        assert denied not in {kind for _, kind in granted}
    assert granted["", "pods/log"] == ["get"]
    # Every kind that a launch submits can be made, and taken away again.
    for operator in ("pytorchjob", "trainjob"):
        for manifest in manifests(f"cluster.operator={operator}"):
            group = manifest["apiVersion"].rpartition("/")[0]
            irregular = {"NetworkPolicy": "networkpolicies"}
            plural = irregular.get(manifest["kind"], f"{manifest['kind'].lower()}s")
            assert {"create", "delete"} <= set(granted[group, plural]), manifest["kind"]


def test_the_look_at_the_cluster_changes_nothing() -> None:
    assert {verb for rule in observer_rules() for verb in rule["verbs"]} == {"get", "list", "watch"}


def test_the_role_of_a_run_is_for_its_operator_alone() -> None:
    (role,) = of_kind("Role", part=Part.ADMIN)
    assert "trainjobs" not in str(role["rules"])
    assert "pytorchjobs" in str(role["rules"])
    assert role["metadata"]["namespace"] == "default"
    # It is the same for the next run of the namespace.
    (cluster_role,) = of_kind("ClusterRole", part=Part.ADMIN)
    for shared in (role, cluster_role):
        assert "slim-7b" not in str(shared["metadata"])
    with pytest.raises(KeyError):
        launcher_rules((Operator.TORCHRUN,))


@pytest.mark.parametrize(
    ("overrides", "annotation"),
    [
        (
            ("cluster.identity=arn:aws:iam::1:role/r",),
            {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/r"},
        ),
        (
            ("cluster.profile=aks", "cluster.node_type=null", "cluster.identity=1234-5678"),
            {"azure.workload.identity/client-id": "1234-5678"},
        ),
        (
            (
                *("cluster.profile=gke", "cluster.node_type=null"),
                "cluster.identity=run@project.iam.gserviceaccount.com",
            ),
            {"iam.gke.io/gcp-service-account": "run@project.iam.gserviceaccount.com"},
        ),
    ],
)
def test_a_cloud_identity_becomes_an_account_of_the_pods(
    overrides: tuple[str, ...], annotation: dict[str, str]
) -> None:
    made = manifests(*overrides)
    (account,) = [m for m in made if m["kind"] == "ServiceAccount"]
    assert account["metadata"]["annotations"] == annotation
    for template in pod_templates(made[-1]):
        assert template["spec"]["serviceAccountName"] == account["metadata"]["name"]
        labelled = template["metadata"]["labels"].get("azure.workload.identity/use")
        assert (labelled == "true") == ("cluster.profile=aks" in overrides)


def test_an_existing_account_is_used_and_not_made() -> None:
    made = manifests("cluster.service_account=training", "cluster.image_pull_secret=registry")
    assert "ServiceAccount" not in {m["kind"] for m in made}
    for template in pod_templates(made[-1]):
        assert template["spec"]["serviceAccountName"] == "training"
        assert template["spec"]["imagePullSecrets"] == [{"name": "registry"}]


def test_the_spec_in_the_cluster_is_the_spec() -> None:
    spec = loaded("cluster.storage={capacity: 3600Gi}", "training.steps=777").spec
    again = loads(spec_text(spec), "run.yaml").spec
    assert again == spec


def test_a_catalog_of_ones_own_goes_where_the_spec_is_read_again(tmp_path: Path) -> None:
    facts = '["p4d.24xlarge"]\ntitle = "As we have them"\nsource = "measured"\n'
    (tmp_path / "node_types.toml").write_text(facts)
    (tmp_path / "notes.txt").write_text("not a fact")
    ours = scene_of(resolved(), Catalog([tmp_path]), Attempt())
    assert spec_config(ours)["data"] == {
        FILE: spec_text(ours.plan.spec),
        "node_types.toml": facts,
    }
    for given, expected in ((ours, DIRECTORY), (scene(), None)):
        (template,) = pod_templates(indexed_job(given))
        (container,) = template["spec"]["containers"]
        assert environment(container).get("SEATRIAL_CATALOG") == expected
    assert list(spec_config(scene())["data"]) == [FILE]


def test_a_worker_is_tried_again_alone_unless_its_input_is_bad() -> None:
    made = indexed_job(scene("cluster.preparation={pods: 2, cpus: 4, memory: 16Gi}"))
    spec = made["spec"]
    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", 2, 2)
    assert spec["backoffLimitPerIndex"] == 5
    ignored, failed = spec["podFailurePolicy"]["rules"]
    assert ignored["action"] == "Ignore"
    assert failed == {
        "action": "FailIndex",
        "onExitCodes": {"containerName": "prepare", "operator": "In", "values": [1]},
    }
    (template,) = pod_templates(made)
    # A failure policy is taken only with this one.
    assert template["spec"]["restartPolicy"] == "Never"
    (container,) = template["spec"]["containers"]
    assert container["command"][-2:] == ["--at=/data/slim-7b/data", "--workers=2"]
    assert container["resources"]["limits"] == {"cpu": "4", "memory": "16Gi"}


def test_data_are_prepared_with_a_spec_of_their_own() -> None:
    # A preparation with other overrides must not change the spec of a run that is training.
    for part in (Part.DATA, Part.DATA_RAY):
        made = manifests(part=part)
        (config,) = [each for each in made if each["kind"] == "ConfigMap"]
        assert config["metadata"]["name"] == "slim-7b--data-spec"
        mounted = {
            volume["configMap"]["name"]
            for each in made
            for template in pod_templates(each)
            for volume in template["spec"]["volumes"]
            if "configMap" in volume
        }
        assert mounted == {"slim-7b--data-spec"}
    run = {(each["kind"], each["metadata"]["name"]): each for each in manifests()}
    for each in manifests(part=Part.DATA):
        key = (each["kind"], each["metadata"]["name"])
        assert run.get(key, each) == each


def test_ray_prepares_what_the_spec_says_and_leaves_nothing_behind() -> None:
    given = ("cluster.preparation={pods: 3, cpus: 4, memory: 16Gi}", "cluster.queue=research")
    made = manifests(*given, part=Part.DATA_RAY)[-1]
    assert made["kind"] == "RayJob"
    assert made["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "research"
    spec = made["spec"]
    assert spec["shutdownAfterJobFinishes"] is True
    words = shlex.split(spec["entrypoint"])
    assert words[-3:] == ["prepare", "/etc/seatrial/run.yaml", "--driver=ray"]
    cluster = spec["rayClusterSpec"]
    assert cluster["headGroupSpec"]["rayStartParams"] == {"num-cpus": "0"}
    (workers,) = cluster["workerGroupSpecs"]
    assert workers["replicas"] == workers["minReplicas"] == workers["maxReplicas"] == 3
    (container,) = workers["template"]["spec"]["containers"]
    assert container["resources"]["limits"] == {"cpu": "4", "memory": "16Gi"}
    mounted = {m["mountPath"] for m in container["volumeMounts"]}
    assert {"/data", "/etc/seatrial"} <= mounted


def test_who_prepares_data_gets_the_secrets_and_who_submits_does_not() -> None:
    secret = "cluster.secrets=[{secret: hub, key: token, env: HF_TOKEN}]"
    spec = manifests(secret, part=Part.DATA_RAY)[-1]["spec"]
    (submitter,) = spec["submitterPodTemplate"]["spec"]["containers"]
    assert "HF_TOKEN" not in environment(submitter)
    (worker,) = spec["rayClusterSpec"]["workerGroupSpecs"]
    (container,) = worker["template"]["spec"]["containers"]
    assert environment(container)["HF_TOKEN"] == {"secretKeyRef": {"name": "hub", "key": "token"}}


def test_data_go_into_the_image_that_is_named(catalog: Catalog) -> None:
    for part in (Part.DATA, Part.DATA_RAY):
        made = manifests("cluster.preparation={image: 'example.com/data:1'}", part=part)
        templates = [template for each in made for template in pod_templates(each)]
        assert {c["image"] for t in templates for c in t["spec"]["containers"]} == {
            "example.com/data:1"
        }
