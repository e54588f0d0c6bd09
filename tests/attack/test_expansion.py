# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Random texts in every text field of a spec: what a pod's process sees is what the spec says.

The way is the real one: spec, plan, manifests, chart, Helm, and kubectl's reading of YAML; only the
kubelet is an oracle (`kubelet.py`). A field may refuse a text, with a finding at that field.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import ValidationError

from seatrial.catalog.catalog import Catalog
from seatrial.catalog.entry import Kind
from seatrial.codes.rendering import RenderCode
from seatrial.engines.registry import option_findings, plan_findings
from seatrial.errors import FindingsError
from seatrial.findings import Severity, has_errors
from seatrial.planning.plan import Plan
from seatrial.rendering.commands import SUPERVISION
from seatrial.rendering.context import scene_of
from seatrial.rendering.data_jobs import (
    assembly_job,
    indexed_job,
    listing_job,
    ray_job,
)
from seatrial.rendering.expansion import PYTHON, escape
from seatrial.rendering.helm_chart import chart_files
from seatrial.rendering.manifest import Manifest
from seatrial.rendering.reader_pod import VolumeCommand, VolumeReading, reader_pod
from seatrial.rendering.render import FIRST, Rendering, render
from seatrial.rendering.spec_config import DIRECTORY, FILE
from seatrial.spec.fields import all_fields
from seatrial.spec.loader import loads
from seatrial.spec.run import RunSpec
from tests.attack.hostile_specs import OPERATORS, UNUSABLE, Case, make_texts, yaml_of
from tests.attack.kubelet import Process, expand, process_of
from tests.cluster.kubectl import helm, kubectl
from tests.conftest import plan_spec

pytestmark = pytest.mark.attack

CATALOG = Catalog()
BATCH = 250
"""Charts that one Helm renders: it takes longer to start than to render one."""
GIVEN = {"X": "expanded", "HOME": "/of/the/image", "RANK": "0", "JOB_COMPLETION_INDEX": "0"}
"""Variables that the image and the operator set before ours."""


@dataclass
class Rendered:
    """A case that became manifests."""

    case: Case
    plan: Plan
    rendering: Rendering
    spec: dict[str, Any]


def rendered(case: Case) -> Rendered | None:
    """The case with as many fields as take the text; None if what they make looks like a secret."""
    prefilter(case)
    for _ in range(30):
        spec = case.spec()
        try:
            loaded = loads(yaml_of(spec), "run.yaml")
            plan = plan_spec(loaded, CATALOG)
            findings = [*option_findings(loaded), *plan_findings(loaded, plan)]
            if has_errors(findings):
                raise FindingsError(findings)
            return Rendered(case, plan, render(plan, CATALOG, place=loaded.where), spec)
        except FindingsError as error:
            errors = [each for each in error.findings if each.severity is Severity.ERROR]
            if all(each.code == RenderCode.SECRET for each in errors):
                return None
            named = {path for each in errors for path in blamed(case, each.where.field)}
            assert named - case.refused, (case.text, [each.one_line() for each in errors])
            case.refused |= named
    raise AssertionError(f"no spec takes {case.text!r}")


def prefilter(case: Case) -> None:
    """Leave out fields whose own validator or catalog refuses the text: most names.

    The spec is read anew for every refusal, and reading it takes longer than all the rest.
    """
    for path, kind in CATALOG_NAMES.items():
        if case.text not in CATALOG.names(kind):
            case.refused.add(path)
    try:
        RunSpec.model_validate(case.spec(), by_alias=True, by_name=False)
    except ValidationError as error:
        for each in error.errors():
            where = "".join(f"[{k}]" if isinstance(k, int) else f".{k}" for k in each["loc"])
            case.refused |= blamed(case, where.removesuffix(".[key]").lstrip("."))


CATALOG_NAMES = {
    "model.preset": Kind.MODELS,
    "cluster.profile": Kind.PROFILES,
    "cluster.node_type": Kind.NODE_TYPES,
    "cluster.accelerator": Kind.ACCELERATORS,
    "cluster.fabric": Kind.FABRICS,
    "cluster.storage.tier": Kind.STORAGE,
}


def blamed(case: Case, where: str) -> set[str]:
    """The fields of the case that a finding speaks of: one, or those of a section."""
    name = re.sub(r"\[\d+\]", ".[]", where)
    if name.startswith("cluster.env."):
        return {"cluster.env" if name == "cluster.env.MARK" else "cluster.env name"}
    found = {path for path in case.placed if name == path or name.startswith(f"{path}.")}
    return found or {path for path in case.placed if path.startswith(name)}


def templated(batch: Sequence[Rendered], directory: Path) -> dict[int, list[Manifest]]:
    """What Helm and kubectl make of the charts of all cases, as the API server gets it."""
    directory.mkdir()
    (directory / "Chart.yaml").write_text("apiVersion: v2\nname: attack\nversion: 1.0.0\n")
    for one in batch:
        chart = directory / "charts" / f"c{one.case.number}"
        (chart / "templates").mkdir(parents=True)
        for name, text in chart_files(one.rendering, one.plan).items():
            if name == "Chart.yaml":
                # Charts of one name would be taken for the same.
                text = re.sub(r"(?m)^name: .*$", f"name: c{one.case.number}", text, count=1)
            (chart / name).write_text(text, encoding="utf-8")
    text = helm("template", "attack", str(directory))
    owners = [int(n) for n in re.findall(r"(?m)^# Source: attack/charts/c(\d+)/", text)]
    answer = kubectl("annotate", "--local", "-f", "-", "-o", "json", "attack=1", given=text)
    objects, decoder, at = [], json.JSONDecoder(), 0
    while at < len(answer):
        made, end = decoder.raw_decode(answer, at)
        objects.append(made)
        at = end + 1
    assert len(objects) == len(owners)
    found: dict[int, list[Manifest]] = {}
    for owner, made in zip(owners, objects, strict=True):
        del made["metadata"]["annotations"]["attack"]
        if not made["metadata"]["annotations"]:
            del made["metadata"]["annotations"]
        found.setdefault(owner, []).append(made)
    return found


def identity(made: Manifest) -> tuple[str, str]:
    return made["kind"], made["metadata"]["name"]


def flag(argv: Sequence[str], name: str) -> str:
    """The value of an option, as argparse takes it."""
    for number, word in enumerate(argv):
        if word == name:
            return argv[number + 1]
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
    raise AssertionError(f"{name} is not given")


@dataclass
class View:
    """What the objects of a run mean to those who read them."""

    objects: dict[str, list[Manifest]]
    training: Process
    preflight: Process
    tensorboard: Process
    pod: Manifest

    @classmethod
    def of(cls, objects: Sequence[Manifest]) -> "View":
        kinds: dict[str, list[Manifest]] = {}
        for made in objects:
            kinds.setdefault(made["kind"], []).append(made)
        if "HyperPodPyTorchJob" in kinds:
            pod = kinds["HyperPodPyTorchJob"][0]["spec"]["replicaSpecs"][0]["template"]
        elif "PyTorchJob" in kinds:
            pod = kinds["PyTorchJob"][0]["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]
        else:
            runtime = kinds["TrainingRuntime"][0]["spec"]["template"]["spec"]
            pod = runtime["replicatedJobs"][0]["template"]["spec"]["template"]
        board = kinds["Deployment"][0]["spec"]["template"]["spec"]["containers"][0]
        (container,), (before,) = pod["spec"]["containers"], pod["spec"]["initContainers"]
        training, preflight = process_of(container, GIVEN), process_of(before, GIVEN)
        return cls(kinds, training, preflight, process_of(board, GIVEN), pod)


def changed(one: Rendered, objects: Sequence[Manifest]) -> list[str]:
    """The fields whose text means something else in the cluster."""
    view, wrong = View.of(objects), []
    for path, value in one.case.placed.items():
        seen = SEEN.get(path)
        if seen is not None and seen(view, one.case) != value:
            wrong.append(f"{path}: {value!r} became {seen(view, one.case)!r}")
    # Every field is in the file that pods mount.
    (mounted,) = (each["data"]["run.yaml"] for each in view.objects["ConfigMap"])
    if json.loads(mounted) != one.spec:
        wrong.append("the mounted spec")
    # YAML and JSON disagree about characters beyond ASCII only.
    reread = not one.case.text.isascii() or one.case.number % 20 == 0
    if reread and loads(mounted, "run.yaml").spec != one.plan.spec:
        wrong.append("the mounted spec, read as YAML")
    # HyperPod's own agent supervises, and knows where it writes.
    on_hyperpod = "HyperPodPyTorchJob" in view.objects
    probes = [[*PROBE, name, SUPERVISION] for name in ("startup", "liveness")]
    if view.training.probes != ([] if on_hyperpod else probes):
        wrong.append("the probes")
    home = f"{one.spec['cluster']['storage']['mount'].rstrip('/')}/{one.plan.spec.name}"
    if view.training.environment["SEATRIAL_EVENTS"] != f"{home}/events.jsonl":
        wrong.append("SEATRIAL_EVENTS")
    logs = "/tmp/hyperpod" if on_hyperpod else f"{home}/logs/attempt-1/node-0"  # noqa: S108  (of the pod)
    if flag(view.training.argv, "--log-dir") != logs:
        wrong.append("--log-dir")
    if flag(view.preflight.argv, "--directory") != home:
        wrong.append("--directory")
    return wrong


def beside(one: Rendered) -> dict[str, tuple[Manifest, list[str] | None]]:
    """The pods beside the training, each with its command; None where KubeRay gives it."""
    scene, spec = scene_of(one.plan, CATALOG, FIRST), f"{DIRECTORY}/{FILE}"
    prepare = [PYTHON, "-m", "seatrial", "data", "prepare", spec]
    # No command line has what no field takes.
    text = "a" if any(map(one.case.text.__contains__, UNUSABLE)) else one.case.text
    at, pods = one.plan.data_location, one.plan.spec.cluster.preparation.pods
    words = ("checkpoints", "list", f"/{text}", text)
    read = [PYTHON, "-m", "seatrial", *words]
    ray = ray_job(scene)["spec"]["rayClusterSpec"]
    jobs = {
        "tasks": (
            indexed_job(scene),
            [PYTHON, "-m", "seatrial.dataprep.drivers.single", f"--at={at}", f"--workers={pods}"],
        ),
        "listing": (listing_job(scene), [*prepare, "--list-only", "--json"]),
        "assembly": (assembly_job(scene), [*prepare, "--driver=pods", "--json"]),
    }
    return {
        **{name: (job["spec"]["template"], argv) for name, (job, argv) in jobs.items()},
        "ray head": (ray["headGroupSpec"]["template"], None),
        "ray worker": (ray["workerGroupSpecs"][0]["template"], None),
        "reader": (reader_pod(scene, VolumeCommand(words), "1"), read),
        "export": (reader_pod(scene, VolumeCommand(words, VolumeReading.EXPORTS), "1"), read),
    }


def changed_beside(one: Rendered, counted: Counter[str]) -> list[str]:
    """The fields whose text means something else in the pods beside the training."""
    wrong, placed = [], one.case.placed
    for name, (pod, argv) in beside(one).items():
        process = process_of(pod["spec"]["containers"][0], GIVEN)
        seen: dict[str, tuple[object, object]] = {}
        if argv is not None:
            seen["command"] = (process.argv, argv)
        image = "cluster.image" if name == "export" else "cluster.preparation.image"
        found = {"cluster.storage.mount": process.mounts["storage"], image: process.image}
        if name not in ("reader", "export"):
            found["cluster.secrets.[].env"] = secret_of(pod)["name"]
            found["cluster.secrets.[].mount"] = process.mounts["secret-1"]
        seen |= {path: (value, placed[path]) for path, value in found.items() if path in placed}
        counted.update(f"{name}: {path}" for path in seen)
        wrong += [f"{name}: {path}: {a!r}, not {b!r}" for path, (a, b) in seen.items() if a != b]
    return wrong


PROBE = ["python3", "-m", "seatrial.worker.supervisor.probe"]


def both(read: Callable[[Process], Any]) -> Callable[[View, Case], Any]:
    """What training and the pre-flight see alike."""

    def look(view: View, _: Case) -> Any:
        here, before = read(view.training), read(view.preflight)
        return here if here == before else (here, before)

    return look


def option(name: str) -> Callable[[View, Case], Any]:
    return lambda view, _: flag(view.training.argv, name)


def secret(view: View) -> Manifest:
    """The variable that a secret gives."""
    return secret_of(view.pod)


def secret_of(pod: Manifest) -> Manifest:
    entries = [each for each in pod["spec"]["containers"][0]["env"] if "valueFrom" in each]
    return next(dict(each) for each in entries if "secretKeyRef" in each["valueFrom"])


SEEN: dict[str, Callable[[View, Case], Any]] = {
    "name": lambda view, _: view.objects["ConfigMap"][0]["metadata"]["labels"]["seatrial.dev/run"],
    "cluster.env": both(lambda process: {"MARK": process.environment["MARK"]}),
    "cluster.env name": lambda view, case: {case.text: view.training.environment[case.text]},
    "cluster.image": both(lambda process: process.image),
    "cluster.storage.mount": both(lambda process: process.mounts["storage"]),
    "cluster.storage.claim": lambda view, _: next(
        each["persistentVolumeClaim"]["claimName"]
        for each in view.pod["spec"]["volumes"]
        if each["name"] == "storage"
    ),
    "cluster.namespace": lambda view, _: view.objects["ConfigMap"][0]["metadata"]["namespace"],
    "cluster.queue": lambda view, _: next(
        view.objects[kind][0]["metadata"]["labels"]["kueue.x-k8s.io/queue-name"]
        for kind in ("TrainJob", "PyTorchJob", "HyperPodPyTorchJob")
        if kind in view.objects
    ),
    "cluster.topology.level": lambda view, _: view.pod["metadata"]["annotations"][
        "kueue.x-k8s.io/podset-preferred-topology"
    ],
    "cluster.priority_class": lambda view, _: view.pod["spec"]["priorityClassName"],
    "cluster.service_account": lambda view, _: view.pod["spec"]["serviceAccountName"],
    "cluster.image_pull_secret": lambda view, _: view.pod["spec"]["imagePullSecrets"][0]["name"],
    "cluster.labels": lambda view, case: {case.text: view.pod["metadata"]["labels"][case.text]},
    "cluster.annotations": lambda view, _: {
        "example.com/mark": view.pod["metadata"]["annotations"]["example.com/mark"]
    },
    "cluster.identity": lambda view, _: view.objects["ServiceAccount"][0]["metadata"][
        "annotations"
    ]["eks.amazonaws.com/role-arn"],
    "cluster.secrets.[].secret": lambda view, _: secret(view)["valueFrom"]["secretKeyRef"]["name"],
    "cluster.secrets.[].key": lambda view, _: secret(view)["valueFrom"]["secretKeyRef"]["key"],
    "cluster.secrets.[].env": lambda view, _: secret(view)["name"],
    "cluster.secrets.[].mount": lambda view, _: view.training.mounts["secret-1"],
    "monitoring.wandb.project": option("--wandb-project"),
    "monitoring.wandb.entity": option("--wandb-entity"),
    "monitoring.mlflow.tracking_uri": both(lambda p: p.environment["MLFLOW_TRACKING_URI"]),
    "monitoring.mlflow.experiment": both(lambda p: p.environment["SEATRIAL_MLFLOW_EXPERIMENT"]),
    "monitoring.prometheus.pod_monitor.labels": lambda view, case: {
        case.text: view.objects["PodMonitor"][0]["metadata"]["labels"][case.text]
    },
    "engine.options": lambda view, _: {
        "one-logger-project": flag(view.training.argv, "--one-logger-project")
    },
    "checkpoints.location": lambda view, _: flag(view.tensorboard.argv, "--logdir").removesuffix(
        "/tensorboard"
    ),
    "data.tokenizer": option("--tokenizer-model"),
    "initial_weights.checkpoint": option("--pretrained-checkpoint"),
}
"""Where each field is seen in the cluster, beside the file that pods mount."""


CLOSED_FIELDS = {*CATALOG_NAMES, "cluster.operator_version"}
"""Fields that take known names only."""
_PREPARING = ("cluster.storage.mount", "cluster.preparation.image", "cluster.secrets.[].env")
BESIDE = {
    **dict.fromkeys(("tasks", "listing", "assembly"), ("command", *_PREPARING)),
    **dict.fromkeys(("ray head", "ray worker"), (*_PREPARING, "cluster.secrets.[].mount")),
    "reader": ("command", "cluster.storage.mount", "cluster.preparation.image"),
    "export": ("command", "cluster.storage.mount", "cluster.image"),
}
"""What is compared in each pod beside the training."""
PODS_BESIDE = tuple(BESIDE)


def text_fields() -> set[str]:
    """The fields of the spec that hold text."""

    def holds_text(annotation: Any) -> bool:
        return annotation is str or any(map(holds_text, get_args(annotation)))

    # Overrides of variants reach no pod. The address of a model is used instead of a preset, and is
    # a commit on the Hub or an existing file. A pipeline layout has only the letters of its parts.
    elsewhere = {("variants",), ("model", "huggingface"), ("parallelism", "pipeline_layout")}
    return {
        ".".join(path)
        for path, known in all_fields().items()
        if known.section is None and path not in elsewhere and holds_text(known.info.annotation)
    }


@dataclass
class Score:
    """What came of some texts."""

    accepted: Counter[str] = field(default_factory=Counter)
    """How many texts each field took."""
    refused: Counter[str] = field(default_factory=Counter)
    """How many it refused."""
    beside: Counter[str] = field(default_factory=Counter)
    """How many were compared in each field of each pod beside the training."""
    operators: Counter[str] = field(default_factory=Counter)
    """How many were compared in jobs of each operator."""
    wrong: list[str] = field(default_factory=list)
    """What changed its meaning."""


def score(texts: Sequence[tuple[int, str]], directory: Path) -> Score:
    """Render the texts, in one chart, and compare."""
    found, batch = Score(), list[Rendered]()
    for number, text in texts:
        one = rendered(Case(number, text, number % len(OPERATORS)))
        if one is None:
            found.refused["looks like a secret"] += 1
            continue
        if one.case.placed and any(map(text.__contains__, UNUSABLE)):
            found.wrong.append(f"{text!r} was accepted in {list(one.case.placed)}")
        found.accepted.update(list(one.case.placed))
        found.refused.update(one.case.refused)
        batch.append(one)
    made = templated(batch, directory / f"batch-{texts[0][0]}")
    for one in batch:
        plain = json.loads(json.dumps(one.rendering.manifests))
        objects = made[one.case.number]
        if sorted(plain, key=identity) != sorted(objects, key=identity):
            found.wrong.append(f"{one.case.text!r}: the objects differ")
        wrong = [*changed(one, objects), *changed_beside(one, found.beside)]
        found.wrong += [f"{one.case.text!r}: {each}" for each in wrong]
        found.operators[OPERATORS[one.case.variant]] += 1
    return found


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        # The example of kubernetes.io, "Define Dependent Environment Variables".
        ("$(PROTOCOL)://$(X):80", "$(PROTOCOL)://expanded:80"),
        ("$$(X)", "$(X)"),
        ("$$", "$"),
        ("$$$(X)", "$expanded"),
        ("$X ${X} $", "$X ${X} $"),
        ("$(X", "$(X"),
    ],
)
def test_the_oracle_follows_the_documented_rules(text: str, becomes: str) -> None:
    assert expand(text, GIVEN) == becomes
    assert expand(escape(text), GIVEN) == text


@pytest.mark.timeout(1800)
def test_no_text_changes_its_meaning(
    attack_size: Callable[[int, int], int],
    record_property: Callable[[str, object], None],
    tmp_path: Path,
) -> None:
    count = attack_size(10_000, 150)
    texts = list(enumerate(make_texts(count, seed=24)))
    batches = [texts[start : start + BATCH] for start in range(0, count, BATCH)]
    places = [tmp_path] * len(batches)
    if len(batches) == 1:
        scores = list(map(score, batches, places))
    else:
        with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
            scores = list(pool.map(score, batches, places))
    wrong = [each for one in scores for each in one.wrong]
    assert wrong == []
    accepted = sum((one.accepted for one in scores), Counter[str]())
    refused = sum((one.refused for one in scores), Counter[str]())
    assert text_fields() <= {*accepted, *refused}
    # What refuses everything would prove nothing: each field has a bar of its own.
    bar = max(1, count // 1000)
    open_fields = (text_fields() | set(SEEN)) - CLOSED_FIELDS
    assert {path: accepted[path] for path in open_fields if accepted[path] < bar} == {}
    compared = sum((one.beside for one in scores), Counter[str]())
    wanted = {f"{pod}: {path}" for pod in PODS_BESIDE for path in BESIDE[pod]}
    assert {path: compared[path] for path in wanted if compared[path] < bar} == {}
    operators = sum((one.operators for one in scores), Counter[str]())
    assert {name for name in OPERATORS if operators[name] < bar} == set()
    record_property(
        "figure",
        f"{count:,} texts in {len(open_fields)} fields and {len(PODS_BESIDE) + 1} kinds of pods: "
        f"{len(wrong)} changed meaning",
    )
