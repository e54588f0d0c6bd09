# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The SDK: what the command line does, as functions."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seatrial.catalog.catalog import Catalog, default_catalog
from seatrial.engines.check import option_findings, plan_findings
from seatrial.engines.registry import ENGINES
from seatrial.errors import FindingsError, MissingExtraError, UsageError
from seatrial.findings import Finding, has_errors
from seatrial.hashing import digest
from seatrial.planning.plan import Plan
from seatrial.planning.resolve import resolve, waits_for_planner
from seatrial.rehearsal.worker_process import WORKER_PYTHON, worker_python
from seatrial.rehearsal.worker_process import build_index_cache as build_engine_cache
from seatrial.spec.cluster import Operator
from seatrial.spec.engine import EngineName
from seatrial.spec.loader import LoadedSpec, load
from seatrial.spec.placeholders import refuse_placeholders
from seatrial.spec.run import RunSpec
from seatrial.spec.secrets import looks_secret

if TYPE_CHECKING:
    from seatrial.checks.check import Verdict
    from seatrial.dataprep.drivers.driver import Driver
    from seatrial.dataprep.estimate import Estimate
    from seatrial.dataprep.listing import FrozenList
    from seatrial.dataprep.prepare import Outcome
    from seatrial.dataprep.progress import Tell as TellProgress
    from seatrial.monitoring.mlflow_export import Sent
    from seatrial.rendering.render import Part, Rendering
    from seatrial.runs.kept_plan import Tell
    from seatrial.runs.launch import Confirm, Launched
    from seatrial.runs.site import Site
    from seatrial.runs.status import Status

PathOrText = str | PathLike[str]
Overrides = Sequence[str] | Mapping[str, object]
"""Fields to set differently: `["cluster.nodes=4"]`, or `{"cluster.nodes": 4}`."""


DATA_PACKAGES = ("fsspec", "numpy", "orjson", "pyarrow", "tokenizers", "zstandard")
"""What the data extra brings and no preparation can do without."""


CACHE_MARK = "built-"
"""What the name of the file begins with that says for which plan and blend a cache was built."""


@dataclass(frozen=True, slots=True)
class Validation:
    """A spec that was found valid."""

    spec: RunSpec
    """What the user wants."""
    plan: Plan
    """What it resolves to; what is `auto` is filled by the planner."""
    findings: tuple[Finding, ...]
    """Warnings and notes; errors are raised instead."""


def load_spec(path: PathOrText, overrides: Overrides = ()) -> RunSpec:
    """The spec in a file, with overrides; raises FindingsError when it is wrong."""
    return load(Path(path), _texts(overrides)).spec


def plan(path: PathOrText, overrides: Overrides = (), *, catalog: Catalog | None = None) -> Plan:
    """The plan of a spec; raises FindingsError with every reason when there can be none."""
    return load_plan(path, overrides, catalog or default_catalog(), keep=False)[1]


def load_plan(
    path: PathOrText,
    overrides: Overrides,
    catalog: Catalog,
    *,
    keep: bool = True,
    tell: "Tell | None" = None,
) -> tuple[LoadedSpec, Plan]:
    """The spec with its places and its plan, for commands that go on from there.

    Where fields are `auto`, the plan that is kept beside the spec is used as long as it follows
    from the spec; else the planner makes a new one, which is kept unless there are overrides.

    Args:
        path: The spec.
        overrides: Fields to set differently.
        catalog: The facts.
        keep: Whether a new plan is written beside the spec.
        tell: Told why a kept plan was made anew.
    """
    loaded = load_checked(path, overrides)
    resolved = _resolved(loaded, catalog, Path(path), tell, keep=keep and not overrides)
    refuse_unsupported(loaded, resolved)
    return loaded, resolved


def _resolved(
    loaded: LoadedSpec, catalog: Catalog, path: Path, tell: "Tell | None", *, keep: bool
) -> Plan:
    """The plan of a spec; the planner fills what is `auto`."""
    try:
        return resolve(loaded, catalog)
    except FindingsError as error:
        if not waits_for_planner(error):
            raise
    # Loaded here because a spec without `auto` needs none of the planner.
    from seatrial.runs.kept_plan import plan_of  # noqa: PLC0415

    return plan_of(loaded, catalog, path, tell, keep=keep)


def load_checked(path: PathOrText, overrides: Overrides = ()) -> LoadedSpec:
    """The spec with its places, when its engine takes the options that it passes through."""
    loaded = load(Path(path), _texts(overrides))
    findings = option_findings(loaded)
    if has_errors(findings):
        raise FindingsError(findings)
    return loaded


def refuse_unsupported(loaded: LoadedSpec, resolved: Plan) -> None:
    """Raise when the engine cannot do what the plan says."""
    findings = plan_findings(loaded, resolved)
    if has_errors(findings):
        raise FindingsError(findings)


def validate(
    path: PathOrText, overrides: Overrides = (), *, catalog: Catalog | None = None
) -> Validation:
    """Everything that can be said of a spec without a cluster; raises FindingsError on errors.

    Fields that are `auto` are filled by the planner, or from the plan that is kept beside the spec.
    """
    loaded = load(Path(path), _texts(overrides))
    findings = option_findings(loaded)
    try:
        resolved = _resolved(loaded, catalog or default_catalog(), Path(path), None, keep=False)
    except FindingsError as error:
        raise FindingsError([*findings, *error.findings]) from error
    findings += [*resolved.findings, *plan_findings(loaded, resolved)]
    if has_errors(findings):
        raise FindingsError(findings)
    return Validation(loaded.spec, resolved, tuple(findings))


def prepare_data(
    path: PathOrText,
    overrides: Overrides = (),
    *,
    to: str | None = None,
    driver: "str | Driver" = "local",
    workers: int | None = None,
    tell: "TellProgress | None" = None,
) -> "Outcome":
    """Prepare the data of a spec: raw text to verified `.bin` and `.idx`; resumable.

    Args:
        path: The spec.
        overrides: Fields to set differently.
        to: Where the data go, when not to where the run will look for them.
        driver: `local`, `ray`, or a driver of your own.
        workers: Processes at a time; as many as there are cores when absent.
        tell: Told how far it has come.
    """
    require_data_extra()
    refuse_secret(to)
    # Loaded here, and in the functions below, because the rest needs none of the data libraries.
    from seatrial.dataprep.prepare import prepare  # noqa: PLC0415

    chosen = _driver(driver, workers) if isinstance(driver, str) else driver
    return prepare(plan(path, overrides), chosen, to=to, tell=tell)


def freeze_data(
    path: PathOrText, overrides: Overrides = (), *, to: str | None = None
) -> "FrozenList":
    """List the data of a spec and freeze the tasks without doing any: for your own scheduler.

    Every task is then done by `python -m seatrial.dataprep.drivers.single`, and `prepare_data`
    puts together what they made.
    """
    require_data_extra()
    refuse_secret(to)
    from seatrial.dataprep.listing import freeze_list  # noqa: PLC0415

    return freeze_list(plan(path, overrides), to)


def refuse_secret(address: PathOrText | None) -> None:
    """Refuse an address that holds a password, a key or a signature, without repeating it."""
    if address is not None and looks_secret(str(address), "revision"):
        raise UsageError(
            "an address that was given holds something like a password or a key. Take it out: "
            "credentials come from the environment or from the files of the clouds' own tools."
        )


def _driver(name: str, workers: int | None) -> "Driver":
    """The driver of that name."""
    from seatrial.dataprep.drivers.cores import usable_cores  # noqa: PLC0415
    from seatrial.dataprep.drivers.driver import DriverName  # noqa: PLC0415
    from seatrial.dataprep.drivers.local import LocalDriver  # noqa: PLC0415
    from seatrial.dataprep.drivers.ray import RayDriver  # noqa: PLC0415

    if name not in tuple(DriverName):
        raise UsageError(f"there is no driver {name!r}. Use one of: {', '.join(DriverName)}.")
    count = workers or usable_cores()
    return RayDriver(count) if name == DriverName.RAY else LocalDriver(count)


def verify_data(where: PathOrText, overrides: Overrides = ()) -> list[Finding]:
    """What is wrong with a prepared data set, found by reading all of it; nothing when all is well.

    `where` is the spec of a run, or the directory or address of a data set.
    """
    require_data_extra()
    from seatrial.dataprep.inspection import verify_at  # noqa: PLC0415

    return verify_at(data_address(where, overrides))


def estimate_data(
    path: PathOrText, overrides: Overrides = (), *, cores: int | None = None
) -> "Estimate":
    """What preparing the data of a spec would take, from a sample of its corpus."""
    require_data_extra()
    from seatrial.dataprep.drivers.cores import usable_cores  # noqa: PLC0415
    from seatrial.dataprep.estimate import estimate  # noqa: PLC0415

    return estimate(plan(path, overrides), cores or usable_cores())


def build_index_cache(
    path: PathOrText, overrides: Overrides = (), *, found_at: str | None = None
) -> str:
    """Build the engine's cache of sample indices for prepared data, so that no GPU waits for it.

    Needs the worker extra. Gives what was done, or why nothing was, as a few words.

    Args:
        path: The spec.
        overrides: Fields to set differently.
        found_at: Where this machine has the data, when not where the run will look for them.
    """
    resolved = plan(path, overrides)
    place = found_at or resolved.data_location
    if resolved.spec.engine.name is not EngineName.MEGATRON:
        return f"not needed by {resolved.spec.engine.name}"
    if "://" in place:
        return "not built: the engine reads it from a path; training builds it at its first start"
    arguments = ENGINES[resolved.spec.engine.name].arguments(resolved)
    blend = Path(place, Path(str(arguments.get("data-args-path"))).name)
    if not blend.is_file():
        return f"not built: there is no {blend}"
    # Asking the engine takes some ten seconds, and another plan or blend may need other files.
    cache = Path(place, "cache")
    wanted = digest({"arguments": arguments, "blend": sha256(blend.read_bytes()).hexdigest()})
    built = cache / f"{CACHE_MARK}{wanted.partition(':')[2][:12]}"
    if _is_whole(built):
        return f"there already, in {cache}"
    try:
        worker_python()
    except MissingExtraError:
        missing = f"no Megatron is known here (see seatrial doctor, or set {WORKER_PYTHON})"
        return f"not built: {missing}; training builds it at its first start"
    answer = build_engine_cache(
        arguments, resolved.data_location, place, resolved.layout.world_size
    )
    if "error" in answer:
        return f"not built: {answer['error']}"
    cache.mkdir(exist_ok=True)
    built.write_text(json.dumps(_cache_files(cache)))
    return f"{answer['built'] + answer['there']:,} files in {cache}"


def _cache_files(cache: Path) -> dict[str, int]:
    """The files of an index cache, with their sizes; without our marks and what is being built."""
    return {
        path.name: path.stat().st_size
        for path in sorted(cache.iterdir())
        if path.is_file() and not path.name.startswith((CACHE_MARK, "."))
    }


def _is_whole(built: Path) -> bool:
    """Whether the index cache has been built, and all files that it had then are there."""
    try:
        wanted: dict[str, int] = json.loads(built.read_bytes())
    except (FileNotFoundError, ValueError):
        return False
    return bool(wanted) and wanted.items() <= _cache_files(built.parent).items()


def data_address(where: PathOrText, overrides: Overrides = ()) -> str:
    """Where the prepared data of a spec are; the address of a data set itself stands for itself."""
    text = str(where)
    refuse_secret(text)
    if text.endswith((".yaml", ".yml")) or Path(text).is_file():
        return plan(text, overrides).data_location
    return text


def render(path: PathOrText, overrides: Overrides = (), part: "Part | str" = "run") -> "Rendering":
    """The Kubernetes manifests of a run, as plain data; no cluster is asked.

    Args:
        path: The spec.
        overrides: Fields to set differently.
        part: `run`, `data` or `admin`.
    """
    # Loaded here, and in the functions below, because planning needs none of it.
    from seatrial.rendering.attempt import Attempt  # noqa: PLC0415
    from seatrial.rendering.render import Part  # noqa: PLC0415
    from seatrial.rendering.render import render as made  # noqa: PLC0415
    from seatrial.runs.own_files import own_digest  # noqa: PLC0415

    catalog = default_catalog()
    loaded, resolved = load_plan(path, overrides, catalog, keep=False)
    attempt = Attempt(code_digest=own_digest())
    return made(resolved, catalog, Part(part), attempt, loaded.where)


def connect(
    namespace: str = "", *, kubeconfig: str = "", context: str = "", tell: "Tell | None" = None
) -> "Site":
    """A namespace of a cluster, for the functions of `seatrial.runs`.

    Args:
        namespace: The namespace; that of the context when empty.
        kubeconfig: The kubeconfig; KUBECONFIG, else ~/.kube/config, when empty.
        context: The context in it; the current one when empty.
        tell: Told what takes long, such as an API server that does not answer.
    """
    from seatrial.runs.clusters import connect as reach  # noqa: PLC0415

    return reach(namespace, kubeconfig=kubeconfig, context=context, tell=tell)


def launch(
    path: PathOrText,
    overrides: Overrides = (),
    *,
    kubeconfig: str = "",
    context: str = "",
    confirm: "Confirm | None" = None,
    tell: "Tell | None" = None,
    readmit: Sequence[str] = (),
) -> "Launched":
    """Make sure that a run is on its cluster once, as its spec says; launching twice does nothing.

    With the profile `local` it runs on this host, in the background, without Kubernetes.

    Args:
        path: The spec.
        overrides: Fields to set differently.
        kubeconfig: The kubeconfig; KUBECONFIG, else ~/.kube/config, when empty.
        context: The context in it; the current one when empty.
        confirm: Asked with the differences whether a changed spec takes the place of the one
            before; without it, a changed spec raises FindingsError.
        tell: Told what takes long.
        readmit: Nodes that earlier attempts left out and that are mended.
    """
    from seatrial.runs.clusters import fitting  # noqa: PLC0415
    from seatrial.runs.launch import Wanted  # noqa: PLC0415
    from seatrial.runs.launch import launch as submit  # noqa: PLC0415

    catalog = default_catalog()
    loaded, resolved = load_plan(path, overrides, catalog, tell=tell)
    refuse_placeholders(loaded)
    agree = confirm or (lambda _: False)
    if resolved.machines.operator is Operator.TORCHRUN:
        from seatrial.runs.local_launch import launch_here  # noqa: PLC0415
        from seatrial.runs.local_ledger import local_run  # noqa: PLC0415

        if readmit:
            raise UsageError("a run on this host leaves no node out, so none can be readmitted.")
        run = local_run(Path(path).parent, resolved.spec.name)
        return launch_here(run, Wanted(resolved, catalog, loaded.where), agree)
    namespace = resolved.spec.cluster.namespace
    site = connect(namespace, kubeconfig=kubeconfig, context=context, tell=tell)
    fit = fitting(site, resolved, catalog, loaded.where)
    return submit(site, Wanted(fit, catalog, loaded.where, tuple(readmit)), agree)


def check(
    path: PathOrText,
    overrides: Overrides = (),
    *,
    data: bool = False,
    cluster: bool = False,
    kubeconfig: str = "",
    context: str = "",
) -> "Verdict":
    """Apply every rule to a run, before a GPU is asked for; findings are given, not raised.

    Args:
        path: The spec.
        overrides: Fields to set differently.
        data: Whether tokenizers, prepared data and corpora are looked at from here.
        cluster: Whether the cluster is looked at; nothing is changed there.
        kubeconfig: The kubeconfig; KUBECONFIG, else ~/.kube/config, when empty.
        context: The context in it; the current one when empty.
    """
    # Loaded here because the other functions need none of it.
    from seatrial.runs.checking import Looked, check_file  # noqa: PLC0415

    if data:
        require_data_extra()
    looked = Looked(data, cluster, kubeconfig, context)
    return check_file(Path(path), default_catalog(), _texts(overrides), looked)


def status(run: str, namespace: str = "", *, kubeconfig: str = "", context: str = "") -> "Status":
    """How a run on a cluster is, with the reasons when it does not run."""
    from seatrial.runs.status import status as look  # noqa: PLC0415

    return look(connect(namespace, kubeconfig=kubeconfig, context=context), run)


def export_mlflow(events: PathOrText, run: str, tracking_uri: str, experiment: str) -> "Sent":
    """Send an event log to MLflow: what is not there yet, to the one run of that name."""
    if find_spec("mlflow") is None:
        raise MissingExtraError(
            "Sending to MLflow needs its client, which this installation does not have. "
            "Install it with: pip install '.[mlflow]' in a checkout of Seatrial."
        )
    from seatrial.monitoring.event_log import read_events  # noqa: PLC0415
    from seatrial.monitoring.mlflow_export import export  # noqa: PLC0415

    path = Path(events)
    if not path.is_file():
        raise UsageError(f"{path} is no file. Give a run's event log, events.jsonl.")
    return export(read_events(path), run, tracking_uri, experiment)


def export_weights(checkpoint: PathOrText, to: PathOrText) -> dict[str, Any]:
    """Write a checkpoint's weights for Hugging Face's transformers; what the export's record says.

    Args:
        checkpoint: The directory of one checkpoint, such as `saved/iter_0000200`; it is verified.
        to: A directory that is empty or not there.
    """
    from seatrial.checkpoints.exchange.sides import engine_of  # noqa: PLC0415
    from seatrial.checkpoints.place import place_at  # noqa: PLC0415
    from seatrial.checkpoints.verification import read_record  # noqa: PLC0415
    from seatrial.rehearsal.weights_process import export_weights as export  # noqa: PLC0415

    source, _, directory = str(checkpoint).rstrip("/").rpartition("/")
    record, findings = read_record(place_at(source or "."), directory)
    if record is None:
        raise FindingsError(findings)
    engine = ENGINES[engine_of(record.setup)]
    return export(source or ".", directory, Path(to), engine=engine)


def import_weights(source: PathOrText, to: PathOrText) -> dict[str, Any]:
    """Write Hugging Face weights as a checkpoint of step 0; `spec` in it starts a run from there.

    Args:
        source: A directory with config.json and weights as safetensors.
        to: A directory that is empty or not there.
    """
    from seatrial.rehearsal.weights_process import import_weights as bring_in  # noqa: PLC0415

    return bring_in(Path(source), Path(to).absolute())


def require_data_extra() -> None:
    """Refuse to go on without the libraries of the data extra."""
    missing = [name for name in DATA_PACKAGES if find_spec(name) is None]
    if missing:
        raise MissingExtraError(
            f"Reading and preparing data needs {', '.join(missing)}, which this installation does "
            "not have. Install it with: pip install '.[data]' in a checkout of Seatrial."
        )


def _texts(overrides: Overrides) -> tuple[str, ...]:
    """The overrides as the command line has them; JSON is YAML too."""
    if isinstance(overrides, Mapping):
        return tuple(
            f"{key}={json.dumps(value, ensure_ascii=False, default=str)}"
            for key, value in overrides.items()
        )
    if isinstance(overrides, str) or not all(isinstance(text, str) for text in overrides):
        raise UsageError(
            f"overrides are a list of texts or a mapping, not {overrides!r}. "
            'Write ["cluster.nodes=4"] or {"cluster.nodes": 4}.'
        )
    return tuple(overrides)
