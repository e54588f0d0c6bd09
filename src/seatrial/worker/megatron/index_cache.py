# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Build the engine's cache of sample indices before a job uses GPUs, in one process on CPU.

`python -m seatrial.worker.megatron.index_cache [--seen-at PATH --found-at PATH] ARGUMENTS` accepts
the training arguments, including `--data-cache-path`. The engine names its cache files with a hash
of the data paths, the tokenizer's path, the seed, the sequence length, the split and the number of
samples, so all of them must be the same as in training. If the data has a different path on this
machine, `--found-at` replaces `--seen-at` in the paths of the data and the cache.

Prints one line of JSON: the number of files built and already present, or an error.
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
"""Prefix of directories with incomplete files."""
DESCRIPTION = "description.txt"
"""Suffix of the file that the engine writes first, and that is moved into place last."""


def main() -> None:
    """Build the missing files and print the result."""
    own, arguments = _own_options().parse_known_args()
    # The engine requires a GPU even if it only reads files.
    start_on_cpu(arguments)
    output = io.StringIO()
    try:
        with redirect_stdout(output):
            answer = _built(own, arguments)
    except Exception as error:
        sys.stderr.write(output.getvalue())
        answer = {"error": f"{type(error).__name__}: {error}"}
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.exit("error" in answer)


def _own_options() -> ArgumentParser:
    parser = ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--seen-at", default="")
    parser.add_argument("--found-at", default="")
    return parser


def _built(own: Namespace, arguments: Sequence[str]) -> dict[str, Any]:
    """Let the engine build its datasets, as at the start of training."""
    # Import late: this imports the engine, which needs the CPU runtime first.
    from seatrial.worker.megatron.gpt import build_indices, parse_data_arguments  # noqa: PLC0415

    args = parse_data_arguments(arguments)
    if not args.data_cache_path:
        raise ValueError("--data-cache-path is not set, so the engine would not write a cache")
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
    """Map a path that training uses to the path on this machine."""
    seen = own.seen_at.rstrip("/")
    if seen and (path == seen or path.startswith(f"{seen}/")):
        return str(own.found_at).rstrip("/") + path[len(seen) :]
    return path


def _whole(cache: Path) -> set[str]:
    """Return the cache files that have a description, which is moved into place last."""
    names = {path.name for path in cache.iterdir() if path.is_file()}
    stems = {name.removesuffix(DESCRIPTION) for name in names if name.endswith(DESCRIPTION)}
    return {name for name in names if name[: name.rfind("-") + 1] in stems}


def _prepare(cache: Path, there: set[str]) -> Path:
    """Create a build directory with links to existing files. Delete those of dead processes.

    The engine treats any file with the right name as complete. If it wrote to the cache directly
    and was killed, it would leave a cache that training cannot load.
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
    """Move new files into place, each description after its files."""
    made = [path for path in building.iterdir() if not path.is_symlink()]
    described = [path for path in made if path.name.endswith(DESCRIPTION)]
    for paths in ([path for path in made if path not in described], described):
        for path in paths:
            with path.open("rb") as file:
                os.fsync(file.fileno())
            path.replace(cache / path.name)
        # Ensure that no description exists without its files after a power failure.
        sync_directory(cache)


if __name__ == "__main__":
    main()
