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
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from seatrial.storage.state_files import sync_directory
from seatrial.storage.writer_claims import is_dead, new_attempt
from seatrial.worker.settings import settings

BUILDING = ".building-"
"""What the name of a directory begins with in which files are made before they are whole."""
DESCRIPTION = "description.txt"
"""How the name of the file ends that the engine writes first, and that is put in place last."""


def main() -> None:
    """Build what is missing and print what there is."""
    # The engine wants to see a GPU even where it only reads files.
    from seatrial.worker.megatron.cpu.runtime import install  # noqa: PLC0415

    install()
    own, sys.argv[1:] = _own_options().parse_known_args()
    said = io.StringIO()
    try:
        with redirect_stdout(said):
            answer = _built(own)
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


def _built(own: Namespace) -> dict[str, Any]:
    """Let the engine build its data sets, as at the start of training."""
    from megatron.training.arguments import parse_args  # noqa: PLC0415

    from seatrial.worker.checkpointing import safe_load  # noqa: PLC0415
    from seatrial.worker.megatron.training import pin_tokenizer  # noqa: PLC0415

    # Others may have written to the cache.
    safe_load.install()
    revision = settings().tokenizer_revision
    if revision:
        pin_tokenizer(sys.argv, revision)
    args = parse_args()
    if not args.data_cache_path:
        raise ValueError("--data-cache-path is absent, so the engine would keep no cache")
    cache = Path(_found(own, args.data_cache_path))
    cache.mkdir(parents=True, exist_ok=True)
    there = _whole(cache)
    building = _prepare(cache, there)
    try:
        _build(own, args, building)
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


def _build(own: Namespace, args: Namespace, building: Path) -> None:
    """What training does at its start, up to the data sets."""
    from megatron.core.datasets.gpt_dataset import GPTDataset  # noqa: PLC0415
    from megatron.training import global_vars  # noqa: PLC0415
    from megatron.training.training import (  # noqa: PLC0415
        get_train_valid_test_num_samples,
        update_train_iters,
    )

    from seatrial.worker.megatron.gpt import build_datasets  # noqa: PLC0415

    args.data_cache_path = str(building)
    if args.data_args_path:
        args.data_args_path = _found(own, args.data_args_path)
    # Both take the cache for built, which is what happens here.
    args.dataloader_fast_cache_load = args.dataloader_defer_npy_index_mmap = False
    if args.eval_global_batch_size is None:
        args.eval_global_batch_size = args.global_batch_size
    args.iteration = 0
    open_data = GPTDataset.build_low_level_dataset
    GPTDataset.build_low_level_dataset = staticmethod(
        lambda path, config: open_data(_found(own, path), config)
    )
    global_vars.set_args(args)
    global_vars._build_tokenizer(args)
    update_train_iters(args)
    build_datasets(list(get_train_valid_test_num_samples()))


if __name__ == "__main__":
    main()
