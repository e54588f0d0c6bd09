# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Defects that manifests have had, elsewhere or here, to be put back and refused by a cluster.

Many are those of the charts and manifests that Seatrial replaces: a TTL at the wrong level, a
container that is not called `pytorch`, the override field of another version.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from enum import StrEnum

from seatrial.rendering.attempt import Attempt
from seatrial.rendering.manifest import Manifest
from seatrial.rendering.render import Part
from tests.unit.rendering.scenes import manifests

TRAINJOB = ("cluster.operator=trainjob",)
EXCLUDING = Attempt(2, ("node-a",))


class Refused(StrEnum):
    """Who refuses a defect."""

    SCHEMA = "schema"
    """The definition of the object: unknown field, missing field, wrong type or form."""
    SERVER = "server"
    """The API server's own rules, beyond the definition."""
    WEBHOOK = "webhook"
    """The operator's webhook."""


@dataclass(frozen=True, slots=True)
class Defect:
    """One thing to break in a good manifest."""

    name: str
    """What is wrong."""
    kind: str
    """The object that it is put into."""
    refused: Refused
    """Who refuses it."""
    change: Callable[[Manifest], object]
    """Puts it in."""
    overrides: tuple[str, ...] = ()
    """The spec that the good manifest is of."""
    part: Part = Part.RUN
    """The part that the object belongs to."""
    version: str = ""
    """The version of the operator, where only that one refuses it."""

    def good(self) -> Manifest:
        """The manifest as it is rendered."""
        given = self.overrides
        if self.version:
            given = (*given, f"cluster.operator_version='{self.version}'")
        made = manifests(*given, part=self.part, attempt=EXCLUDING)
        return next(manifest for manifest in made if manifest["kind"] == self.kind)

    def broken(self) -> Manifest:
        """The manifest with the defect."""
        made = deepcopy(self.good())
        self.change(made)
        return made


def _replica(manifest: Manifest, role: str = "Master") -> Manifest:
    found: Manifest = manifest["spec"]["pytorchReplicaSpecs"][role]
    return found


def _pod(manifest: Manifest) -> Manifest:
    found: Manifest = _replica(manifest)["template"]["spec"]
    return found


def _container(manifest: Manifest) -> Manifest:
    found: Manifest = _pod(manifest)["containers"][0]
    return found


def _jobset(manifest: Manifest) -> Manifest:
    found: Manifest = manifest["spec"]["template"]["spec"]
    return found


def _node_pod(manifest: Manifest) -> Manifest:
    job = _jobset(manifest)["replicatedJobs"][0]
    found: Manifest = job["template"]["spec"]["template"]["spec"]
    return found


def _workers(manifest: Manifest) -> Manifest:
    found: Manifest = manifest["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]
    return found


def _old_override(manifest: Manifest) -> None:
    manifest["spec"].pop("runtimePatches", None)
    manifest["spec"]["podTemplateOverrides"] = [{"targetJobs": [{"name": "node"}], "spec": {}}]


def _new_override(manifest: Manifest) -> None:
    manifest["spec"].pop("podTemplateOverrides", None)
    manifest["spec"]["runtimePatches"] = [{"manager": "seatrial.dev/attempt"}]


def _moved_up(name: str) -> Callable[[Manifest], object]:
    """A field of the run policy at the level of the job, where Azure's chart has one."""

    def change(manifest: Manifest) -> None:
        manifest["spec"][name] = manifest["spec"]["runPolicy"].pop(name)

    return change


def _rename(container: Manifest, name: str) -> None:
    container["name"] = name


SCHEMA, SERVER, WEBHOOK = Refused.SCHEMA, Refused.SERVER, Refused.WEBHOOK

DEFECTS = (
    *(
        Defect(f"{name} at the level of the job", "PyTorchJob", SCHEMA, _moved_up(name))
        for name in ("ttlSecondsAfterFinished", "cleanPodPolicy", "backoffLimit")
    ),
    Defect(
        "processes as a number",
        "PyTorchJob",
        SCHEMA,
        lambda m: m["spec"].update(nprocPerNode=8),
    ),
    Defect("replicas as a text", "PyTorchJob", SCHEMA, lambda m: _replica(m).update(replicas="1")),
    Defect("no replicas", "PyTorchJob", SCHEMA, lambda m: m["spec"].pop("pytorchReplicaSpecs")),
    Defect(
        "a metric without a type",
        "PyTorchJob",
        SCHEMA,
        lambda m: m["spec"].update(elasticPolicy={"metrics": [{}]}),
    ),
    Defect(
        "a variable that is a number",
        "PyTorchJob",
        SCHEMA,
        lambda m: _container(m)["env"].append({"name": "A", "value": 1}),
    ),
    Defect(
        "a variable without a name",
        "PyTorchJob",
        SCHEMA,
        lambda m: _container(m)["env"].append({"value": "1"}),
    ),
    Defect(
        "a quantity in words",
        "PyTorchJob",
        SCHEMA,
        lambda m: _container(m)["resources"]["limits"].update({"nvidia.com/gpu": "8 GPUs"}),
    ),
    Defect(
        "shared memory without a unit that exists",
        "PyTorchJob",
        SCHEMA,
        lambda m: _pod(m)["volumes"][1]["emptyDir"].update(sizeLimit="64 GB"),
    ),
    Defect(
        "a mount without a path",
        "PyTorchJob",
        SCHEMA,
        lambda m: _container(m)["volumeMounts"][0].pop("mountPath"),
    ),
    Defect(
        "a misspelt field of a container",
        "PyTorchJob",
        SCHEMA,
        lambda m: _container(m).update(commands=["true"]),
    ),
    Defect(
        "capabilities as a list",
        "PyTorchJob",
        SCHEMA,
        lambda m: _container(m)["securityContext"].update(capabilities=["IPC_LOCK"]),
    ),
    Defect(
        "a port as a text",
        "PyTorchJob",
        SCHEMA,
        lambda m: _container(m)["ports"][0].update(containerPort="23456"),
    ),
    Defect(
        "a grace in words",
        "PyTorchJob",
        SCHEMA,
        lambda m: _pod(m).update(terminationGracePeriodSeconds="5m"),
    ),
    Defect(
        "spread without a skew",
        "PyTorchJob",
        SCHEMA,
        lambda m: _pod(m)["topologySpreadConstraints"][0].pop("maxSkew"),
    ),
    Defect(
        "node affinity without terms",
        "PyTorchJob",
        SCHEMA,
        lambda m: _pod(m)["affinity"]["nodeAffinity"][
            "requiredDuringSchedulingIgnoredDuringExecution"
        ].pop("nodeSelectorTerms"),
    ),
    Defect(
        "a gang of how many in words",
        "PyTorchJob",
        SCHEMA,
        lambda m: m["spec"]["runPolicy"]["schedulingPolicy"].update(minAvailable="all"),
        ("cluster.gang=volcano",),
    ),
    Defect("a name in capitals", "PyTorchJob", SERVER, lambda m: m["metadata"].update(name="Run")),
    Defect(
        "a label that is too long",
        "PyTorchJob",
        SERVER,
        lambda m: m["metadata"]["labels"].update({"seatrial.dev/plan": "a" * 64}),
    ),
    Defect(
        "a container of another name",
        "PyTorchJob",
        WEBHOOK,
        lambda m: _rename(_container(m), "megatron"),
    ),
    Defect("no image", "PyTorchJob", WEBHOOK, lambda m: _container(m).pop("image")),
    Defect("two masters", "PyTorchJob", WEBHOOK, lambda m: _replica(m).update(replicas=2)),
    Defect(
        "no workers in the role of workers",
        "PyTorchJob",
        WEBHOOK,
        lambda m: _replica(m, "Worker").update(replicas=0),
    ),
    Defect(
        "a role that does not exist",
        "PyTorchJob",
        WEBHOOK,
        lambda m: m["spec"]["pytorchReplicaSpecs"].update(Leader=_replica(m)),
    ),
    *(
        Defect(
            f"the override field of 2.1 in {version}",
            "TrainJob",
            SCHEMA,
            _old_override,
            TRAINJOB,
            version=version,
        )
        for version in ("2.0", "2.2", "2.3")
    ),
    *(
        Defect(
            f"the override field of 2.2 in {version}",
            "TrainJob",
            SCHEMA,
            _new_override,
            TRAINJOB,
            version=version,
        )
        for version in ("2.0", "2.1")
    ),
    Defect(
        "a runtime without a name",
        "TrainJob",
        SCHEMA,
        lambda m: m["spec"]["runtimeRef"].pop("name"),
        TRAINJOB,
    ),
    Defect(
        "a TTL of the job itself",
        "TrainJob",
        SCHEMA,
        lambda m: m["spec"].update(ttlSecondsAfterFinished=3600),
        TRAINJOB,
    ),
    Defect(
        "processes by name",
        "TrainJob",
        SCHEMA,
        lambda m: m["spec"]["trainer"].update(numProcPerNode="gpu"),
        TRAINJOB,
        version="2.3",
    ),
    Defect(
        "processes in the policy, where 2.0 had them",
        "TrainingRuntime",
        SCHEMA,
        lambda m: m["spec"]["mlPolicy"]["torch"].update(numProcPerNode=8),
        TRAINJOB,
        version="2.3",
    ),
    Defect(
        "Volcano in 2.0",
        "TrainingRuntime",
        SCHEMA,
        lambda m: m["spec"].update(podGroupPolicy={"volcano": {}}),
        TRAINJOB,
        version="2.0",
    ),
    Defect(
        "a strategy of restarts that does not exist",
        "TrainingRuntime",
        SCHEMA,
        lambda m: _jobset(m)["failurePolicy"].update(restartStrategy="Again"),
        TRAINJOB,
    ),
    Defect(
        "a replicated job without a name",
        "TrainingRuntime",
        SCHEMA,
        lambda m: _jobset(m)["replicatedJobs"][0].pop("name"),
        TRAINJOB,
    ),
    Defect(
        "a container of another name in the runtime",
        "TrainingRuntime",
        WEBHOOK,
        lambda m: _rename(_node_pod(m)["containers"][0], "pytorch"),
        TRAINJOB,
    ),
    Defect(
        "workers of Ray without a template",
        "RayJob",
        SCHEMA,
        lambda m: _workers(m).pop("template"),
        part=Part.DATA_RAY,
    ),
    Defect(
        "a parameter of Ray that is a number",
        "RayJob",
        SCHEMA,
        lambda m: m["spec"]["rayClusterSpec"]["headGroupSpec"]["rayStartParams"].update(
            {"num-cpus": 0}
        ),
        part=Part.DATA_RAY,
    ),
    Defect(
        "a way of access that is no list",
        "PersistentVolumeClaim",
        SCHEMA,
        lambda m: m["spec"].update(accessModes="ReadWriteMany"),
    ),
    Defect(
        "a misspelt selector of a policy",
        "NetworkPolicy",
        SCHEMA,
        lambda m: m["spec"].update(podSelectr=m["spec"].pop("podSelector")),
    ),
    Defect(
        "a deployment without a selector",
        "Deployment",
        SCHEMA,
        lambda m: m["spec"].pop("selector"),
    ),
    Defect(
        "a class without a provisioner",
        "StorageClass",
        SCHEMA,
        lambda m: m.pop("provisioner"),
        part=Part.ADMIN,
    ),
    Defect(
        "a rule without verbs",
        "Role",
        SCHEMA,
        lambda m: m["rules"][0].pop("verbs"),
        part=Part.ADMIN,
    ),
)
"""All of them."""
