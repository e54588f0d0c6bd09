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
from seatrial.engine_process.process import WORKER_PYTHON, worker_python
from seatrial.engine_process.process import build_index_cache as build_engine_cache
from seatrial.engines.registry import ENGINES
from seatrial.errors import MissingExtraError, UsageError
from seatrial.findings import Finding
from seatrial.hashing import digest
from seatrial.process_environment import default_variables
from seatrial.sdk.plan import Overrides, PathOrText, plan
from seatrial.secrets.redaction import looks_secret
from seatrial.storage.state_files import read_json, write_whole

if TYPE_CHECKING:
    from seatrial.dataprep.drivers.driver import Driver
    from seatrial.dataprep.estimate import Estimate
    from seatrial.dataprep.inspection import Inspection
    from seatrial.dataprep.output.dataset import DatasetRecord
    from seatrial.dataprep.prepare import FrozenList, PreparationOutcome
    from seatrial.dataprep.progress import Tell as TellProgress

DATA_PACKAGES = ("fsspec", "numpy", "orjson", "pyarrow", "tokenizers", "zstandard")
"""What the data extra brings and no preparation can do without."""


CACHE_MARK = "built-"
"""What the name of the file begins with that says for which plan and blend a cache was built."""


def prepare_data(
    path: PathOrText,
    overrides: Overrides = (),
    *,
    to: str | None = None,
    driver: "str | Driver" = "local",
    workers: int | None = None,
    tell: "TellProgress | None" = None,
) -> "PreparationOutcome":
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
    from seatrial.dataprep.prepare import driver_of, prepare  # noqa: PLC0415

    chosen = driver_of(driver, workers) if isinstance(driver, str) else driver
    with default_variables(THREADS):
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
    from seatrial.dataprep.prepare import freeze_list  # noqa: PLC0415

    return freeze_list(plan(path, overrides), to)


def refuse_secret(address: PathOrText | None) -> None:
    """Refuse an address that holds a password, a key or a signature, without repeating it."""
    if address is not None and looks_secret(str(address), "revision"):
        raise UsageError(
            "an address that was given holds something like a password or a key. Take it out: "
            "credentials come from the environment or from the files of the clouds' own tools."
        )


@dataclass(frozen=True, slots=True)
class VerifiedData:
    """A prepared data set, all of which was read again."""

    address: str
    record: "DatasetRecord"
    findings: tuple[Finding, ...]
    """What is wrong with it; empty if all is well."""


def read_again(where: PathOrText, overrides: Overrides = ()) -> VerifiedData:
    """Read all of a prepared data set again, and compare it with its record.

    `where` is the spec of a run, or the directory or address of a data set.
    """
    require_data_extra()
    from seatrial.dataprep.inspection import record_at, verify_at  # noqa: PLC0415

    address = data_address(where, overrides)
    return VerifiedData(address, record_at(address), tuple(verify_at(address)))


def verify_data(where: PathOrText, overrides: Overrides = ()) -> list[Finding]:
    """What is wrong with a prepared data set, found by reading all of it; nothing when all is well.

    `where` is the spec of a run, or the directory or address of a data set.
    """
    return list(read_again(where, overrides).findings)


def inspect_data(
    where: PathOrText, overrides: Overrides = (), *, file: str | None = None
) -> "Inspection":
    """One file of a prepared data set, opened for looking; the first one when none is named.

    `where` is the spec of a run, or the directory or address of a data set.
    """
    require_data_extra()
    from seatrial.dataprep.inspection import Inspection  # noqa: PLC0415

    return Inspection.at(data_address(where, overrides), file)


def estimate_data(
    path: PathOrText, overrides: Overrides = (), *, cores: int | None = None
) -> "Estimate":
    """What preparing the data of a spec would take, from a sample of its corpus."""
    require_data_extra()
    from seatrial.dataprep.estimate import estimate  # noqa: PLC0415

    with default_variables(THREADS):
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
    engine = ENGINES[resolved.spec.engine.name]
    if not engine.modules.index_cache:
        return f"not needed by {resolved.spec.engine.name}"
    if "://" in place:
        return "not built: the engine reads it from a path; training builds it at its first start"
    arguments = engine.arguments(resolved)
    blend = Path(place, Path(str(arguments.get(engine.blend_option))).name)
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
        missing = f"no {engine.title} is known here (see seatrial doctor, or set {WORKER_PYTHON})"
        return f"not built: {missing}; training builds it at its first start"
    ranks = resolved.layout.world_size
    answer = build_engine_cache(arguments, resolved.data_location, place, ranks)
    if "error" in answer:
        return f"not built: {answer['error']}"
    cache.mkdir(exist_ok=True)
    write_whole(built, json.dumps(_cache_files(cache)))
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
        wanted = dict(read_json(built))
    except (FileNotFoundError, ValueError, TypeError):
        return False
    return bool(wanted) and wanted.items() <= _cache_files(built.parent).items()


def data_address(where: PathOrText, overrides: Overrides = ()) -> str:
    """Where the prepared data of a spec are; the address of a data set itself stands for itself."""
    text = str(where)
    refuse_secret(text)
    if text.endswith((".yaml", ".yml")) or Path(text).is_file():
        return plan(text, overrides).data_location
    return text


def missing_data_packages() -> list[str]:
    """The packages of the data extra that are not installed."""
    return [name for name in DATA_PACKAGES if find_spec(name) is None]


def require_data_extra() -> None:
    """Refuse to go on without the libraries of the data extra."""
    missing = missing_data_packages()
    if missing:
        raise MissingExtraError(
            f"Reading and preparing data needs {', '.join(missing)}, which this installation does "
            "not have. Install it with: pip install '.[data]' in a checkout of Seatrial.",
            extra="data",
        )
