# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Load hostile files in forks of a process that has loaded an engine once; see which execute.

    python -m tests.attack.jail DIRECTORY --engine NAME   (with the Python of an engine)

Reads DIRECTORY/index.jsonl, writes one JSON line for each file: `raw`, by the loaders as the
engine calls them, with `weights_only=False`; and `seatrial`, by the same ones after
`safe_load.install` and by Seatrial's own. Each file has a directory of its own; the forks have
limits, and no network if the test runs as root.
"""

import argparse
import contextlib
import gc
import importlib
import io
import json
import os
import pickle
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.attack.pickle_tricks import MARKER, POISON, POISONED

SECONDS = 20
"""How long a file may take."""
BATCH = 60
"""Files for one fork, which takes long: torch has much memory. One that changes it is its last."""
MODULES = {
    "megatron": "megatron.core.dist_checkpointing.strategies.common",
    "composer": "composer.utils.checkpoint",
}
SAFE_LOADERS = {
    "torch": "seatrial.worker.checkpointing.safe_load",
    "megatron": "seatrial.worker.megatron.safe_load",
    "composer": "seatrial.worker.llm_foundry.safe_load",
}
ITEM = "item"
"""The name of the crafted item in a distributed checkpoint."""

Case = dict[str, Any]
Answer = dict[str, Any]
Loader = Callable[[Path, Case], Any]
Loaders = dict[str, list[Loader]]
"""By route."""


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (16 << 20, 16 << 20))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with open("/proc/self/statm") as stream:
        mapped = int(stream.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + (2 << 30),) * 2)


# ---------------------------------------------------------------------- loaders of the engines


def _torch_load(path: Path, case: Case) -> Any:
    torch = importlib.import_module("torch")
    return torch.load(path, map_location="cpu", weights_only=False)


def _torch_load_stream(path: Path, case: Case) -> Any:
    torch = importlib.import_module("torch")
    return torch.load(io.BytesIO(path.read_bytes()), map_location="cpu", weights_only=False)


def _composer(path: Path, case: Case) -> Any:
    return importlib.import_module("composer.utils.checkpoint").safe_torch_load(str(path))


def _megatron_common(path: Path, case: Case) -> Any:
    shutil.copyfile(path, "common.pt")
    common = importlib.import_module("megatron.core.dist_checkpointing.strategies.common")
    loader = getattr(common, "load_common", None) or common.TorchCommonLoadStrategy().load_common
    return loader(Path.cwd())


def _read_metadata(path: Path, case: Case) -> Any:
    shutil.copyfile(path, ".metadata")
    checkpoint = importlib.import_module("torch.distributed.checkpoint")
    return checkpoint.FileSystemReader(Path.cwd()).read_metadata()


def _distributed_item(path: Path, case: Case) -> Any:
    """Load one object of a distributed checkpoint whose list of tensors is in order."""
    shutil.copyfile(path, "__0_0.distcp")
    checkpoint = importlib.import_module("torch.distributed.checkpoint")
    described = importlib.import_module("torch.distributed.checkpoint.metadata")
    files = importlib.import_module("torch.distributed.checkpoint.filesystem")
    place = files._StorageInfo("__0_0.distcp", case["offset"], case["length"])
    index = described.MetadataIndex(ITEM)
    metadata = described.Metadata(
        state_dict_metadata={ITEM: described.BytesStorageMetadata()},
        planner_data={ITEM: (ITEM,)},
        storage_data={index: place},
    )
    Path(".metadata").write_bytes(pickle.dumps(metadata))
    state = {ITEM: None}
    checkpoint.load(state, storage_reader=checkpoint.FileSystemReader(Path.cwd()), no_dist=True)
    return state[ITEM]


def _plain_pickle(path: Path, case: Case) -> Any:
    with path.open("rb") as stream:
        return pickle.load(stream)  # noqa: S301


def _safe_archive(path: Path, case: Case) -> Any:
    return importlib.import_module("seatrial.worker.checkpointing.safe_load").load_archive(path)


def _safe_dump(path: Path, case: Case) -> Any:
    recorder = importlib.import_module("seatrial.monitoring.diagnosis.flight_recorder")
    return recorder.read_dump(path.name, path.read_bytes())


def _safe_extra_state(path: Path, case: Case) -> Any:
    rules = importlib.import_module("seatrial.checkpoints.fp8_rules").EXTRA_STATE_RULES
    loader = importlib.import_module("seatrial.worker.checkpointing.safe_load")
    return loader.load_pickle(path.read_bytes(), rules)


def _loaders(engine: str, is_raw: bool) -> Loaders:
    own = {"composer": [_composer], "megatron": [_megatron_common], "torch": []}[engine]
    return {
        "archive": [*([_torch_load, _torch_load_stream] if is_raw else [_safe_archive]), *own],
        "item": [_distributed_item],
        "metadata": [_read_metadata],
        "dump": [_plain_pickle] if is_raw else [_safe_dump],
        "extra state": [_plain_pickle] if is_raw else [_safe_extra_state],
    }


# ---------------------------------------------------------------------- evidence


def _use(loaded: Any) -> None:
    """Do with the result what any program does: print, compare, look up, let go."""
    for use in (repr, lambda one: one == one, lambda one: one["missing"], lambda one: one[0]):
        with contextlib.suppress(Exception):
            use(loaded)
    del loaded
    gc.collect()


def _poisoned() -> bool:
    for module, name in POISONED.values():
        held = getattr(sys.modules.get(module), name, None)
        if held is not None and POISON in getattr(held, "__dict__", {}):
            return True
    return False


def _load(case: Case, path: Path, loaders: list[Loader]) -> Answer:
    """Try each loader, until one executes something."""
    loaded, error = False, ""
    for load in loaders:
        try:
            _use(load(path, case))
            loaded = True
        except BaseException as caught:
            error = f"{type(caught).__name__}: {str(caught)[:200]}"
        if os.path.lexists(MARKER) or _poisoned():
            return {"executed": True, "loader": load.__name__, "error": error}
    return {"executed": False, "loaded": loaded, "error": error}


def _run(cases: list[tuple[Case, Path]], loaders: Loaders, place: Path, send: int) -> None:
    """Load files in this process, each in its own directory, until one has changed the process."""
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    os.dup2(0, 1)
    os.dup2(0, 2)
    _limit()
    for number, (case, path) in enumerate(cases):
        directory = place / str(number)
        directory.mkdir()
        os.chdir(directory)
        signal.alarm(SECONDS)
        found = _load(case, path, loaders[case["route"]])
        os.write(send, json.dumps(found).encode() + b"\n")
        if _poisoned():
            return


def _fork(cases: list[tuple[Case, Path]], prepare: Callable[[], Loaders]) -> list[Answer]:
    """Load files in a child; fewer answers than files if it did not get to the last."""
    place = Path(tempfile.mkdtemp())
    receive, send = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.setsid()
            _run(cases, prepare(), place, send)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(send)
    with os.fdopen(receive, "rb") as stream:
        answers = [json.loads(line) for line in stream]
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code:
        answers.append({"executed": False, "loaded": False, "died": code})
    # What a payload left running writes its marker late, into the directory of its own file.
    time.sleep(0.05)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    for number, answer in enumerate(answers):
        if os.path.lexists(place / str(number) / MARKER):
            answer["executed"] = True
    shutil.rmtree(place, ignore_errors=True)
    if not answers:
        raise SystemExit(f"the process that loads files ended with {code} before the first")
    return answers


def _cases(directory: Path) -> list[tuple[Case, Path]]:
    with (directory / "index.jsonl").open() as stream:
        listed = [json.loads(line) for line in stream]
    return [(case, directory / case["file"]) for case in listed]


def _pass(cases: list[tuple[Case, Path]], prepare: Callable[[], Loaders]) -> list[Answer]:
    found: list[Answer] = []
    while len(found) < len(cases):
        found += _fork(cases[len(found) : len(found) + BATCH], prepare)
    return found


def main() -> None:
    """Load every file of the index twice."""
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("--engine", choices=("torch", "megatron", "composer"), required=True)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    importlib.import_module("torch.distributed.checkpoint")
    if options.engine != "torch":
        importlib.import_module(MODULES[options.engine])

    def raw() -> Loaders:
        return _loaders(options.engine, is_raw=True)

    def seatrial() -> Loaders:
        importlib.import_module("seatrial.worker.environment").set_variables()
        importlib.import_module(SAFE_LOADERS[options.engine]).install()
        return _loaders(options.engine, is_raw=False)

    gc.collect()
    gc.freeze()
    cases = _cases(options.directory.resolve())
    for one, other in zip(_pass(cases, raw), _pass(cases, seatrial), strict=True):
        sys.stdout.write(json.dumps({"raw": one, "seatrial": other}) + "\n")


if __name__ == "__main__":
    main()
