# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The engine's cache of sample indices, built before GPUs wait for it, in one process on a CPU.

`python -m seatrial.worker.megatron.index_cache [--seen-at PATH --found-at PATH] ARGUMENTS` takes
the arguments of the training, `--data-cache-path` among them. The engine names the files of its
cache by a hash over the paths of the data, the tokenizer's path, the seed, the sequence length,
the split and the number of samples; so all of them must be here as they will be there. Where
this machine has the data under another path, what training sees below `--seen-at` is read, and
the cache written, below `--found-at`.

Prints one line of JSON: how many files were built and how many were there, or an error.
"""

import io
import json
import os
import shutil
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any

from seatrial.storage.state_files import sync_directory
from seatrial.storage.writer_claims import is_dead, new_attempt
from seatrial.worker.megatron.cpu.start import start_on_cpu

BUILDING = ".building-"
"""What the name of a directory begins with in which files are made before they are whole."""
DESCRIPTION = "description.txt"
"""How the name of the file ends that the engine writes first, and that is put in place last."""


def main() -> None:
    """Build what is missing and print what there is."""
    own, arguments = _own_options().parse_known_args()
    # The engine wants to see a GPU even where it only reads files.
    start_on_cpu(arguments)
    said = io.StringIO()
    try:
        with redirect_stdout(said):
            answer = _built(own, arguments)
    except Exception as error:
        sys.stderr.write(said.getvalue())
        answer = {"error": f"{type(error).__name__}: {error}"}
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.exit("error" in answer)


def _own_options() -> ArgumentParser:
    parser = ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--seen-at", default="")
    parser.add_argument("--found-at", default="")
    return parser


def _built(own: Namespace, arguments: Sequence[str]) -> dict[str, Any]:
    """Let the engine build its data sets, as at the start of training."""
    # Not above: it imports the engine, which needs the CPU runtime first.
    from seatrial.worker.megatron.gpt import build_indices, parse_data_arguments  # noqa: PLC0415

    args = parse_data_arguments(arguments)
    if not args.data_cache_path:
        raise ValueError("--data-cache-path is absent, so the engine would keep no cache")
    cache = Path(_found(own, args.data_cache_path))
    cache.mkdir(parents=True, exist_ok=True)
    there = _whole(cache)
    building = _prepare(cache, there)
    try:
        build_indices(args, building, partial(_found, own))
        _put_in_place(building, cache)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return {"built": len(_whole(cache) - there), "there": len(there)}


def _found(own: Namespace, path: str) -> str:
    """Where this machine has what training sees at a path."""
    seen = own.seen_at.rstrip("/")
    if seen and (path == seen or path.startswith(f"{seen}/")):
        return str(own.found_at).rstrip("/") + path[len(seen) :]
    return path


def _whole(cache: Path) -> set[str]:
    """The files of the cache whose description is there too; it comes last."""
    names = {path.name for path in cache.iterdir() if path.is_file()}
    stems = {name.removesuffix(DESCRIPTION) for name in names if name.endswith(DESCRIPTION)}
    return {name for name in names if name[: name.rfind("-") + 1] in stems}


def _prepare(cache: Path, there: set[str]) -> Path:
    """A directory to build in, with links to what is there; those of dead processes are removed.

    The engine takes any file of the right name for whole. Killed while it writes one, it would
    leave a cache that training cannot load.
    """
    for old in cache.glob(f"{BUILDING}*"):
        if is_dead(old.name.removeprefix(BUILDING)):
            shutil.rmtree(old, ignore_errors=True)
    building = cache / f"{BUILDING}{new_attempt()}"
    building.mkdir()
    for name in there:
        (building / name).symlink_to(cache.absolute() / name)
    return building


def _put_in_place(building: Path, cache: Path) -> None:
    """Give new files their names, each description after the files that it speaks of."""
    made = [path for path in building.iterdir() if not path.is_symlink()]
    described = [path for path in made if path.name.endswith(DESCRIPTION)]
    for paths in ([path for path in made if path not in described], described):
        for path in paths:
            with path.open("rb") as file:
                os.fsync(file.fileno())
            path.replace(cache / path.name)
        # After a power cut no description is there whose files are not.
        sync_directory(cache)


if __name__ == "__main__":
    main()
