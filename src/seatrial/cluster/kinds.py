# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The kinds of objects that runs use, and their paths in the API."""

from dataclasses import dataclass

from seatrial.cluster.transport import Json


@dataclass(frozen=True, slots=True)
class ObjectKind:
    """One kind of object in one API version."""

    group: str
    """The API group. Empty for the core group."""
    version: str
    name: str
    """The kind in manifests."""
    plural: str
    """The kind in paths."""
    namespaced: bool = True
    """True if objects belong to a namespace."""

    @property
    def api_version(self) -> str:
        """Group and version, as in manifests."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_path(self) -> str:
        """The path of the group version."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    def path(self, namespace: str, name: str = "", part: str = "") -> str:
        """Return the path of all objects, of one, or of a subresource such as its log."""
        words = [self.group_path]
        words += ["namespaces", namespace] if self.namespaced else []
        return "/".join(word for word in (*words, self.plural, name, part) if word)

    def about(self, namespace: str, name: str = "") -> str:
        """Name the object in a message."""
        place = f"{namespace}/{name}".strip("/") if self.namespaced else name
        return f"{self.name} {place}".strip()


CONFIG_MAP = ObjectKind("", "v1", "ConfigMap", "configmaps")
EVENT = ObjectKind("", "v1", "Event", "events")
LIMIT_RANGE = ObjectKind("", "v1", "LimitRange", "limitranges")
NAMESPACE = ObjectKind("", "v1", "Namespace", "namespaces", namespaced=False)
NODE = ObjectKind("", "v1", "Node", "nodes", namespaced=False)
PERSISTENT_VOLUME = ObjectKind("", "v1", "PersistentVolume", "persistentvolumes", namespaced=False)
POD = ObjectKind("", "v1", "Pod", "pods")
RESOURCE_QUOTA = ObjectKind("", "v1", "ResourceQuota", "resourcequotas")
SECRET = ObjectKind("", "v1", "Secret", "secrets")
SERVICE = ObjectKind("", "v1", "Service", "services")
SERVICE_ACCOUNT = ObjectKind("", "v1", "ServiceAccount", "serviceaccounts")
VOLUME_CLAIM = ObjectKind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
DEPLOYMENT = ObjectKind("apps", "v1", "Deployment", "deployments")
DAEMON_SET = ObjectKind("apps", "v1", "DaemonSet", "daemonsets")
JOB = ObjectKind("batch", "v1", "Job", "jobs")
NETWORK_POLICY = ObjectKind("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies")
POD_MONITOR = ObjectKind("monitoring.coreos.com", "v1", "PodMonitor", "podmonitors")
ROLE = ObjectKind("rbac.authorization.k8s.io", "v1", "Role", "roles")
CLUSTER_ROLE = ObjectKind(
    "rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", namespaced=False
)
CSI_DRIVER = ObjectKind("storage.k8s.io", "v1", "CSIDriver", "csidrivers", namespaced=False)
PRIORITY_CLASS = ObjectKind(
    "scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", namespaced=False
)
STORAGE_CLASS = ObjectKind(
    "storage.k8s.io", "v1", "StorageClass", "storageclasses", namespaced=False
)
PYTORCH_JOB = ObjectKind("kubeflow.org", "v1", "PyTorchJob", "pytorchjobs")
TRAIN_JOB = ObjectKind("trainer.kubeflow.org", "v1alpha1", "TrainJob", "trainjobs")
TRAINING_RUNTIME = ObjectKind(
    "trainer.kubeflow.org", "v1alpha1", "TrainingRuntime", "trainingruntimes"
)
HYPERPOD_JOB = ObjectKind(
    "sagemaker.amazonaws.com", "v1", "HyperPodPyTorchJob", "hyperpodpytorchjobs"
)
JOB_SET = ObjectKind("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets")
POD_GROUP = ObjectKind("scheduling.x-k8s.io", "v1alpha1", "PodGroup", "podgroups")
VOLCANO_POD_GROUP = ObjectKind("scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups")
RAY_JOB = ObjectKind("ray.io", "v1", "RayJob", "rayjobs")
WORKLOAD = ObjectKind("kueue.x-k8s.io", "v1beta1", "Workload", "workloads")
LOCAL_QUEUE = ObjectKind("kueue.x-k8s.io", "v1beta1", "LocalQueue", "localqueues")
CLUSTER_QUEUE = ObjectKind(
    "kueue.x-k8s.io", "v1beta1", "ClusterQueue", "clusterqueues", namespaced=False
)
RESOURCE_FLAVOR = ObjectKind(
    "kueue.x-k8s.io", "v1beta1", "ResourceFlavor", "resourceflavors", namespaced=False
)
TOPOLOGY = ObjectKind("kueue.x-k8s.io", "v1beta1", "Topology", "topologies", namespaced=False)
ACCESS_REVIEW = ObjectKind(
    "authorization.k8s.io",
    "v1",
    "SelfSubjectAccessReview",
    "selfsubjectaccessreviews",
    namespaced=False,
)

KINDS = (
    *(CONFIG_MAP, EVENT, NODE, PERSISTENT_VOLUME, POD, SERVICE, SERVICE_ACCOUNT, VOLUME_CLAIM),
    *(DEPLOYMENT, DAEMON_SET, JOB, NETWORK_POLICY, POD_MONITOR, ROLE, CLUSTER_ROLE, STORAGE_CLASS),
    *(PYTORCH_JOB, TRAIN_JOB, TRAINING_RUNTIME, HYPERPOD_JOB, RAY_JOB, WORKLOAD),
    *(JOB_SET, POD_GROUP, VOLCANO_POD_GROUP),
    *(LIMIT_RANGE, NAMESPACE, RESOURCE_QUOTA, SECRET, CSI_DRIVER, PRIORITY_CLASS),
    *(LOCAL_QUEUE, CLUSTER_QUEUE, RESOURCE_FLAVOR, TOPOLOGY),
)

_BY_NAME = {(kind.api_version, kind.name): kind for kind in KINDS}


def kind_of(manifest: Json) -> ObjectKind:
    """Return the kind of a manifest that Seatrial rendered."""
    return _BY_NAME[manifest["apiVersion"], manifest["kind"]]
