# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The training pod: what it asks for, may do, mounts, is told, and where it goes."""

import pytest

from seatrial.engines.registry import ENGINES
from seatrial.rendering.attempt import Attempt
from seatrial.rendering.context import scene_of
from seatrial.rendering.environment import (
    SITE,
    fabric_environment,
    forbidding,
    training_environment,
)
from seatrial.rendering.resources import grace_seconds
from seatrial.spec.cluster import Operator
from tests.conftest import resolved
from tests.unit.rendering.scenes import (
    CATALOG,
    FIRST,
    environment,
    every_combination,
    pod,
    retargeted,
    scene,
)

TRAINING = -1
"""The place of the training container among a pod's; it is the only one."""


def test_it_asks_for_whole_nodes_and_as_much_as_it_may_use() -> None:
    resources = pod()["containers"][TRAINING]["resources"]
    assert resources["requests"] == resources["limits"]
    assert resources["limits"] == {
        "cpu": "86",
        "memory": "979Gi",
        "nvidia.com/gpu": "8",
        "vpc.amazonaws.com/efa": "4",
    }


def test_ranks_that_update_on_the_host_share_its_cores() -> None:
    def threads(*overrides: str) -> str:
        found = environment(pod(*overrides)["containers"][TRAINING])["OMP_NUM_THREADS"]
        return str(found)

    assert threads() == "1"
    offload = "performance.optimizer_offload=0.5"
    # 86 hardware threads are 43 cores, for 8 ranks.
    assert threads(offload) == "5"
    assert threads(offload, "cluster.processes_per_node=4") == "5"
    assert threads(offload, 'cluster.env={OMP_NUM_THREADS: "2"}') == "2"


def test_the_supervisor_knows_by_how_much_steps_grow() -> None:
    def told(*schedule: str) -> object:
        given = pod("training.global_batch_size=1024", *schedule)["containers"][TRAINING]
        return environment(given).get("SEATRIAL_STEP_GROWTH")

    assert told("training.batch_schedule=[{global_batch_size: 64, until_tokens: 100M}]") == "16"
    assert told() is None


def test_half_a_node_is_half_of_everything_and_pods_stay_apart() -> None:
    half = pod("cluster.processes_per_node=4")
    limits = half["containers"][TRAINING]["resources"]["limits"]
    assert limits["nvidia.com/gpu"] == "4"
    assert limits["vpc.amazonaws.com/efa"] == "2"
    assert int(limits["cpu"]) == 43
    apart = half["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert [term["topologyKey"] for term in apart] == ["kubernetes.io/hostname"]
    assert "podAntiAffinity" not in pod()["affinity"]


def test_shared_memory_is_sized_and_part_of_the_memory() -> None:
    (volume,) = [v for v in pod()["volumes"] if v["name"] == "shared-memory"]
    assert volume["emptyDir"] == {"medium": "Memory", "sizeLimit": "64Gi"}
    small = pod(
        *("cluster.node_type=g5.8xlarge", "cluster.nodes=4"),
        *("parallelism.tp_size=1", "parallelism.sequence_parallel=false"),
    )
    (volume,) = [v for v in small["volumes"] if v["name"] == "shared-memory"]
    assert volume["emptyDir"]["sizeLimit"] == "8Gi"


@pytest.mark.parametrize(
    ("overrides", "user", "locks"),
    [
        ((), 0, True),
        (("cluster.fabric=none",), 1000, False),
        (("cluster.run_as_user=5000",), 5000, True),
        (("cluster.fabric=none", "cluster.run_as_user=0"), 0, False),
    ],
)
def test_it_may_do_what_the_fabric_needs_and_no_more(
    overrides: tuple[str, ...], user: int, locks: bool
) -> None:
    spec = pod(*overrides)
    context = spec["securityContext"]
    assert context["runAsUser"] == user
    assert context.get("runAsNonRoot", False) == bool(user)
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["automountServiceAccountToken"] is False
    for container in (*spec["initContainers"], *spec["containers"]):
        security = container["securityContext"]
        assert security["privileged"] is False
        assert security["allowPrivilegeEscalation"] is False
        assert security["capabilities"]["drop"] == ["ALL"]
        wanted = ["IPC_LOCK"] if locks and container["name"] != "install" else None
        assert security["capabilities"].get("add") == wanted


@pytest.mark.parametrize(("name", "profile", "operator"), every_combination())
def test_the_environment_is_the_catalogs_and_has_nothing_that_it_forbids(
    name: str, profile: str, operator: Operator
) -> None:
    plan = retargeted(name, profile, operator)
    made = scene_of(plan, CATALOG, FIRST)
    node_type = plan.machines.node_type
    told = environment({"env": training_environment(made)})
    asked = ENGINES[plan.spec.engine.name].environment(plan)
    wanted = fabric_environment(made.fabric, node_type) | asked
    assert wanted.items() <= told.items()
    harmful = [
        name
        for name, value in told.items()
        # What the catalog itself asks for on a fabric stands above what it says of its values.
        if isinstance(value, str)
        and name not in wanted
        and forbidding(made.fabric, node_type, name, value)
    ]
    assert harmful == []


def test_a_restart_goes_on_in_the_same_run_of_its_loggers() -> None:
    told = environment(pod("monitoring.wandb={project: p}")["containers"][TRAINING])
    assert told["WANDB_RUN_ID"] == "slim-7b"
    assert told["WANDB_RESUME"] == "allow"
    assert told["SEATRIAL_EVENTS"] == "/data/slim-7b/events.jsonl"


def test_a_value_of_the_spec_is_not_read_as_a_reference() -> None:
    told = environment(pod("cluster.env={MARK: '$(HF_TOKEN)'}")["containers"][TRAINING])
    assert told["MARK"] == "$$(HF_TOKEN)"
    words = pod("monitoring.wandb={project: '$(HF_TOKEN)'}")["containers"][TRAINING]["command"]
    assert "$$(HF_TOKEN)" in words
    assert "$(HF_TOKEN)" not in words


@pytest.mark.parametrize("text", ["$$", "a$$b", "$$(HOME)", "$", "$é", "${HOME}"])
def test_every_dollar_is_doubled_for_the_kubelet(text: str) -> None:
    told = environment(pod(f"cluster.env={{MARK: '{text}'}}")["containers"][TRAINING])
    assert told["MARK"] == text.replace("$", "$$")


def test_paths_of_the_volume_are_no_references_either() -> None:
    made = pod("cluster.storage.mount='/$(POD_NAME)'")
    words = [
        word
        for part in ("initContainers", "containers")
        for c in made[part]
        for word in c["command"]
    ]
    paths = [word for word in words if "POD_NAME" in word]
    assert {word.partition("=")[0] for word in paths} >= {"--mount", "--directory", "--log-dir"}
    assert all("$$(POD_NAME)" in word for word in paths)
    # What we refer to on purpose stays a reference.
    assert any(word.endswith("/node-$(RANK)") for word in paths)


def test_a_secret_replaces_a_default_of_the_same_name() -> None:
    given = "cluster.secrets=[{secret: s, key: k, env: HF_HOME}]"
    names = [entry["name"] for entry in pod(given)["containers"][TRAINING]["env"]]
    assert names.count("HF_HOME") == 1


def test_secrets_come_by_reference_and_only_to_who_needs_them() -> None:
    spec = pod(
        "cluster.secrets=[{secret: hub, key: token, env: HF_TOKEN}, "
        "{secret: keys, key: id, mount: /etc/keys}]"
    )
    training = spec["containers"][TRAINING]
    assert environment(training)["HF_TOKEN"] == {"secretKeyRef": {"name": "hub", "key": "token"}}
    (volume,) = [v for v in spec["volumes"] if "secret" in v]
    assert volume["secret"] == {
        "secretName": "keys",
        "defaultMode": 0o400,
        "items": [{"key": "id", "path": "id"}],
    }
    mounts = {mount["name"]: mount for mount in training["volumeMounts"]}
    assert mounts[volume["name"]]["readOnly"] is True
    for container in spec["initContainers"]:
        assert "HF_TOKEN" not in environment(container)
        assert volume["name"] not in {mount["name"] for mount in container["volumeMounts"]}


def test_files_of_a_secret_are_readable_by_a_user_who_is_not_root() -> None:
    spec = pod("cluster.fabric=none", "cluster.secrets=[{secret: keys, mount: /etc/keys}]")
    (volume,) = [v for v in spec["volumes"] if "secret" in v]
    assert volume["secret"]["defaultMode"] == 0o440
    assert spec["securityContext"]["fsGroup"] == 1000


def test_nodes_are_chosen_by_kind_and_failed_ones_are_left_out() -> None:
    attempt = Attempt(2, ("ip-1", "ip-2"))
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    (term,) = pod(attempt=attempt)["affinity"]["nodeAffinity"][required]["nodeSelectorTerms"]
    assert term == {
        "matchExpressions": [
            {
                "key": "node.kubernetes.io/instance-type",
                "operator": "In",
                "values": ["p4d.24xlarge"],
            }
        ],
        # One value each: the API server takes no more in a field.
        "matchFields": [
            {"key": "metadata.name", "operator": "NotIn", "values": ["ip-1"]},
            {"key": "metadata.name", "operator": "NotIn", "values": ["ip-2"]},
        ],
    }
    assert pod()["tolerations"] == [
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    ]


def test_hyperpods_unfit_nodes_are_left_out() -> None:
    spec = pod("cluster.profile=hyperpod-eks", "cluster.node_type=ml.p4d.24xlarge")
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    (term,) = spec["affinity"]["nodeAffinity"][required]["nodeSelectorTerms"]
    assert {
        "key": "sagemaker.amazonaws.com/node-health-status",
        "operator": "In",
        "values": ["Schedulable"],
    } in term["matchExpressions"]


def test_a_pod_has_time_to_save_and_torchrun_waits_for_it() -> None:
    spec = pod()
    told = environment(spec["containers"][TRAINING])
    grace = spec["terminationGracePeriodSeconds"]
    assert grace == grace_seconds(scene()) >= 120
    assert 30 < int(told["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"]) < grace
    assert "--exit-signal-handler" in spec["containers"][TRAINING]["command"]


def test_a_larger_model_gets_more_time() -> None:
    large = resolved("model.preset=gpt3-39.1b", "cluster.nodes=8")
    assert grace_seconds(scene_of(large, CATALOG, FIRST)) > grace_seconds(scene())


def test_the_image_is_named_by_its_digest_where_that_is_known() -> None:
    assert pod()["containers"][TRAINING]["image"] == "nvcr.io/nvidia/pytorch:26.02-py3"
    given = "example.com/worker@sha256:" + "a" * 64
    own = pod(f"cluster.image={given}")
    assert own["containers"][TRAINING]["image"] == given
    # An image of one's own brings the worker; the public one gets it installed.
    assert [c["name"] for c in own["initContainers"]] == ["preflight"]
    assert [c["name"] for c in pod()["initContainers"]] == ["install", "preflight"]
    # NeMo's has the engine, but not Seatrial.
    nemo = pod("cluster.image=nemo-26-04")
    assert [c["name"] for c in nemo["initContainers"]] == ["install", "preflight"]
    assert environment(nemo["containers"][0])["PYTHONPATH"] == SITE


def test_googles_network_is_attached_and_its_libraries_mounted() -> None:
    made = scene("cluster.profile=gke", "cluster.node_type=a3-ultragpu-8g")
    spec = pod("cluster.profile=gke", "cluster.node_type=a3-ultragpu-8g")
    assert "networking.gke.io/interfaces" in made.fabric.annotations
    mounted = {m["mountPath"] for m in spec["containers"][TRAINING]["volumeMounts"]}
    assert {"/usr/local/nvidia", "/usr/local/gib"} <= mounted
    limits = spec["containers"][TRAINING]["resources"]["limits"]
    assert set(limits) == {"cpu", "memory", "nvidia.com/gpu"}
    (preflight,) = [c for c in spec["initContainers"] if c["name"] == "preflight"]
    assert "--device-count=8" in preflight["command"]


def test_without_the_preflight_nothing_is_looked_at() -> None:
    assert "initContainers" not in pod("cluster.preflight=false", "cluster.image=a/b:1")
