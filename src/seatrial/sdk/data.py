# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The data of a run: prepare, freeze, estimate, verify, and the engine's index cache."""

import json
from dataclasses import dataclass
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from seatrial.dataprep.drivers.driver import THREADS, usable_cores
from seatrial.dataprep.output.tokenizer_copy import verified_copy
from seatrial.engine_process.process import build_index_cache as build_engine_cache
from seatrial.engine_process.process import worker_python
from seatrial.engines.registry import ENGINES
from seatrial.errors import MissingExtraError, UsageError
from seatrial.findings import Finding
from seatrial.hashing import digest
from seatrial.planning.plan import Plan
from seatrial.process_environment import default_variables
from seatrial.sdk.plan import Overrides, PathOrText, plan
from seatrial.secrets.redaction import looks_secret
from seatrial.spec.cluster import Operator
from seatrial.storage.state_files import read_json, write_whole

if TYPE_CHECKING:
    from seatrial.dataprep.drivers.driver import Driver
    from seatrial.dataprep.estimate import Estimate
    from seatrial.dataprep.inspection import Inspection
    from seatrial.dataprep.output.dataset import DatasetRecord
    from seatrial.dataprep.prepare import FrozenList, PreparationOutcome
    from seatrial.dataprep.progress import Tell as TellProgress

DATA_PACKAGES = ("fsspec", "numpy", "orjson", "pyarrow", "tokenizers", "zstandard")
"""The packages of the data extra that every preparation needs."""


CACHE_MARK = "built-"
"""The prefix of the file that records the plan and the blend of a cache."""


def prepare_data(
    path: PathOrText,
    overrides: Overrides = (),
    *,
    to: str | None = None,
    driver: "str | Driver" = "local",
    workers: int | None = None,
    tell: "TellProgress | None" = None,
) -> "PreparationOutcome":
    """Prepare the data of a spec: raw text to verified `.bin` and `.idx` files. Resumable.

    Args:
        path: The spec.
        overrides: Fields to override.
        to: The output location. Default: where the run reads its data.
        driver: `local`, `ray`, or your own driver.
        workers: The number of parallel processes. Default: one per core.
        tell: Receives the progress.
    """
    require_data_extra()
    refuse_secret(to)
    # Imported here and below because the rest needs no data libraries.
    from seatrial.dataprep.prepare import driver_of, prepare  # noqa: PLC0415

    chosen = driver_of(driver, workers) if isinstance(driver, str) else driver
    planned = plan(path, overrides)
    if to is None:
        _refuse_missing_volume(path, planned)
    with default_variables(THREADS):
        return prepare(planned, chosen, to=to, tell=tell)


def freeze_data(
    path: PathOrText, overrides: Overrides = (), *, to: str | None = None
) -> "FrozenList":
    """List the data of a spec and freeze the tasks for your own scheduler, without running any.

    Run each task with `python -m seatrial.dataprep.drivers.single`. `prepare_data` then assembles
    the results.
    """
    require_data_extra()
    refuse_secret(to)
    from seatrial.dataprep.prepare import freeze_list  # noqa: PLC0415

    planned = plan(path, overrides)
    if to is None:
        _refuse_missing_volume(path, planned)
    return freeze_list(planned, to)


def _refuse_missing_volume(path: PathOrText, planned: Plan) -> None:
    """Raise if the data belongs on the volume of a cluster, which this host has not mounted."""
    mount = Path(planned.spec.cluster.storage.mount)
    on_volume = Path(planned.data_location).is_relative_to(mount)
    if planned.machines.operator is Operator.TORCHRUN or not on_volume or mount.is_dir():
        return
    raise UsageError(
        f"the data of {planned.spec.name} belongs in {planned.data_location}, on the volume of its "
        f"cluster (profile {planned.machines.profile}), and this host has no {mount}. To prepare "
        f"it in the cluster: seatrial data prepare {path} --on kubernetes. To prepare it on this "
        "host: --to DIR, and copy it to the volume."
    )


def refuse_secret(address: PathOrText | None) -> None:
    """Reject an address that contains a password, a key or a signature, without printing it."""
    if address is not None and looks_secret(str(address), "revision"):
        raise UsageError(
            "an address contains what looks like a password or a key. Remove it: Seatrial reads "
            "credentials from the environment or from the cloud tools' own files."
        )


@dataclass(frozen=True, slots=True)
class VerifiedData:
    """A prepared dataset after a complete verification."""

    address: str
    record: "DatasetRecord"
    findings: tuple[Finding, ...]
    """The problems. Empty if the data is intact."""


def read_again(where: PathOrText, overrides: Overrides = ()) -> VerifiedData:
    """Read a prepared dataset completely, and compare it with its record.

    `where` is a run's spec, or the directory or address of a dataset.
    """
    require_data_extra()
    from seatrial.dataprep.inspection import record_at, verify_at  # noqa: PLC0415

    address = data_address(where, overrides)
    return VerifiedData(address, record_at(address), tuple(verify_at(address)))


def verify_data(where: PathOrText, overrides: Overrides = ()) -> list[Finding]:
    """Read a prepared dataset completely. Return findings, empty if it is intact.

    `where` is a run's spec, or the directory or address of a dataset.
    """
    return list(read_again(where, overrides).findings)


def inspect_data(
    where: PathOrText, overrides: Overrides = (), *, file: str | None = None
) -> "Inspection":
    """Open one file in a prepared dataset for inspection. Default: the first file.

    `where` is a run's spec, or the directory or address of a dataset.
    """
    require_data_extra()
    from seatrial.dataprep.inspection import Inspection  # noqa: PLC0415

    return Inspection.at(data_address(where, overrides), file)


def estimate_data(
    path: PathOrText, overrides: Overrides = (), *, cores: int | None = None
) -> "Estimate":
    """Estimate the cost of preparing the data of a spec from a sample of its corpus."""
    require_data_extra()
    from seatrial.dataprep.estimate import estimate  # noqa: PLC0415

    with default_variables(THREADS):
        return estimate(plan(path, overrides), cores or usable_cores())


def build_index_cache(
    path: PathOrText, overrides: Overrides = (), *, found_at: str | None = None
) -> str:
    """Build the engine's cache of sample indices for prepared data before training.

    Needs the worker extra. Returns a short text: the result, or the reason why it was not built.

    Args:
        path: The spec.
        overrides: Fields to override.
        found_at: The data's location on this host. Default: where the run reads its data.
    """
    resolved = plan(path, overrides)
    place = found_at or resolved.data_location
    engine = ENGINES[resolved.spec.engine.name]
    if not engine.modules.index_cache:
        return f"not needed by {resolved.spec.engine.name}"
    if "://" in place:
        return "not built: the engine needs a local path; training builds it when it first starts"
    arguments = engine.arguments(resolved)
    blend = Path(place, Path(str(arguments.get(engine.blend_option))).name)
    if not blend.is_file():
        return f"not built: {blend} does not exist"
    # Calling the engine takes about ten seconds. A different plan or blend may need other files.
    cache = Path(place, "cache")
    copy = verified_copy(place, cache)
    wanted = digest(
        {"arguments": arguments, "blend": sha256(blend.read_bytes()).hexdigest()}
        | ({"tokenizer": copy.digest} if copy else {})
    )
    built = cache / f"{CACHE_MARK}{wanted.partition(':')[2][:12]}"
    if _is_whole(built):
        return f"already in {cache}"
    try:
        worker_python(engine)
    except MissingExtraError:
        variable = engine.installation.variable
        missing = f"{engine.title} was not found (run seatrial doctor, or set {variable})"
        return f"not built: {missing}; training builds it when it first starts"
    ranks = resolved.layout.world_size
    environment = engine.environment(resolved) | (copy.variables() if copy else {})
    answer = build_engine_cache(
        *(arguments, resolved.data_location, place, ranks), engine=engine, environment=environment
    )
    if "error" in answer:
        return f"not built: {answer['error']}"
    cache.mkdir(exist_ok=True)
    write_whole(built, json.dumps(_cache_files(cache)))
    return f"{answer['built'] + answer['there']:,} files in {cache}"


def _cache_files(cache: Path) -> dict[str, int]:
    """Return the files in an index cache with their sizes, without marks and temporary files."""
    return {
        path.name: path.stat().st_size
        for path in sorted(cache.iterdir())
        if path.is_file() and not path.name.startswith((CACHE_MARK, "."))
    }


def _is_whole(built: Path) -> bool:
    """True if the index cache was built and all its files still exist."""
    try:
        wanted = dict(read_json(built))
    except (FileNotFoundError, ValueError, TypeError):
        return False
    return bool(wanted) and wanted.items() <= _cache_files(built.parent).items()


def data_address(where: PathOrText, overrides: Overrides = ()) -> str:
    """Return the location of a spec's prepared data. An address is returned unchanged."""
    text = str(where)
    refuse_secret(text)
    if text.endswith((".yaml", ".yml")) or Path(text).is_file():
        return plan(text, overrides).data_location
    return text


def missing_data_packages() -> list[str]:
    return [name for name in DATA_PACKAGES if find_spec(name) is None]


def require_data_extra() -> None:
    """Raise if a package of the data extra is missing."""
    missing = missing_data_packages()
    if missing:
        raise MissingExtraError(
            f"reading and preparing data needs {', '.join(missing)}, which is not installed. "
            "To install it, in a Seatrial checkout, run: pip install '.[data]'",
            extra="data",
        )
