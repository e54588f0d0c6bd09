# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Find a tokenizer file: in a directory, on the Hugging Face Hub, or in tiktoken."""

import importlib
import json
import os
import re
import time
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from threading import Thread
from typing import Any

from seatrial.codes.data import BadInputError, InputCode
from seatrial.dataprep.tasks.records import tokenizer_file
from seatrial.dataprep.tasks.task_list import TaskList, Tokenizer
from seatrial.dataprep.tokenizers.tiktoken_file import known_encodings, ranks_file
from seatrial.errors import SeatrialError
from seatrial.spec.addresses import is_stored
from seatrial.storage.access import store_at
from seatrial.storage.state_files import DamagedError, read_state, write_state
from seatrial.storage.store import Store

_FILES = ("tokenizer.json", "tokenizer.model")
"""The files to look for in a directory or a repository, the preferred one first."""
_SETTINGS = "tokenizer_config.json"
COPIED = (
    *_FILES,
    _SETTINGS,
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "vocab.txt",
    "spiece.model",
    "sentencepiece.bpe.model",
    "chat_template.jinja",
    "config.json",
)
"""Files that transformers reads to load a tokenizer, by name: no Python code and no pickles.

`config.json` names the class if `tokenizer_config.json` does not."""
_COMMIT = re.compile(r"[0-9a-f]{40}")
_TRIES = 3
"""Attempts to reach the Hub; the library's own retries take 30 s and print 11 lines."""
_PAUSE = 1.0
"""Seconds between two attempts."""
_TIMEOUT = 5.0
_PATIENCE = 20.0
"""Seconds for all attempts together: the DNS lookup has no timeout."""


@dataclass(frozen=True, slots=True)
class FoundTokenizer:
    """A tokenizer file and the settings next to it."""

    address: str
    """Address where it was found, pinned if possible."""
    data: bytes
    settings: dict[str, Any] = field(default_factory=dict)
    """Content of `tokenizer_config.json`; empty if there is none."""
    files: dict[str, bytes] = field(default_factory=dict)
    """All files of the tokenizer by name; empty unless `locate` was called with `whole`."""


def _absent(address: str, rule: str, fix: str) -> BadInputError:
    return BadInputError(InputCode.TOKENIZER, address, rule, fix, address)


def locate(address: str, *, whole: bool = False) -> FoundTokenizer:
    """Read the file at an address, and with `whole` all files that belong to the tokenizer.

    Raises:
        BadInputError: There is no tokenizer at the address.
    """
    if address.startswith("hf://"):
        return _on_the_hub(address, whole=whole)
    if is_stored(address):
        return _in_store(address, whole=whole)
    path = Path(address).expanduser()
    if path.exists():
        return _on_disk(path, whole=whole)
    if "/" not in address:
        return _with_tiktoken(address)
    raise _absent(address, "the file does not exist.", "Check data.tokenizer.")


def tokenizer_files(tokenizer: Tokenizer) -> dict[str, bytes]:
    """Return all files of a tokenizer by name, to store them next to the data."""
    found = locate(tokenizer.address, whole=True)
    if sha256(found.data).hexdigest() != tokenizer.sha256:
        raise _absent(
            tokenizer.address, "the tokenizer changed in the meantime.", "Rerun the command."
        )
    return found.files


def _on_disk(path: Path, *, whole: bool) -> FoundTokenizer:
    if path.is_dir():
        files = [path / name for name in _FILES if (path / name).is_file()]
        if not files:
            raise _absent(
                str(path),
                f"the directory contains neither {_FILES[0]} nor {_FILES[1]}.",
                "Set data.tokenizer to the path of the file.",
            )
        path = files[0]
    beside = path.parent / _SETTINGS
    try:
        data = path.read_bytes()
        settings = beside.read_bytes() if beside.is_file() else b"{}"
        # A file with a different name is complete: the files around it may be of other tokenizers.
        others = COPIED if whole and path.name in _FILES else ()
        there = [name for name in others if (path.parent / name).is_file()]
        copied = {name: (path.parent / name).read_bytes() for name in there}
    except OSError as error:
        raise _absent(
            str(path), f"cannot be read: {error.strerror}.", "Check its permissions."
        ) from error
    copied |= {path.name: data} if whole else {}
    return FoundTokenizer(str(path.resolve()), data, _settings(beside, settings), copied)


def _in_store(address: str, *, whole: bool) -> FoundTokenizer:
    """Read a file in an object store, or the files in a directory there."""
    above, _, last = address.rstrip("/").rpartition("/")
    is_file = last.endswith((".json", ".model", ".tiktoken"))
    store = store_at(above if is_file else address)

    def fetch(name: str) -> bytes | None:
        try:
            return store.read(name)
        except FileNotFoundError:
            return None

    names = (last,) if is_file else _FILES
    name, data = next(((name, data) for name in names if (data := fetch(name))), ("", b""))
    if not data:
        rule = f"there is no {' or '.join(names)}, or it is empty."
        raise _absent(address, rule, "Check data.tokenizer.")
    beside = fetch(_SETTINGS) or b"{}"
    others = COPIED if whole and name in _FILES else ()
    files = {other: found for other in others if (found := fetch(other)) is not None}
    files |= {name: data} if whole else {}
    where = f"{store.address}/{name}"
    return FoundTokenizer(where, data, _settings(Path(_SETTINGS), beside), files)


def _settings(path: Path, data: bytes) -> dict[str, Any]:
    try:
        content = json.loads(data)
    except ValueError as error:
        raise _absent(str(path), f"is not JSON: {error}.", "Fix or remove it.") from error
    return content if isinstance(content, dict) else {}


def _on_the_hub(address: str, *, whole: bool) -> FoundTokenizer:
    """Load from the Hub through its cache; resolves the revision to a commit."""
    hub = importlib.import_module("huggingface_hub")
    name, _, revision = address.removeprefix("hf://").partition("@")
    cached = partial(_cached, hub, name, revision)
    # The Hub is not needed if the cache knows of every file if it exists in this commit.
    wanted = COPIED if whole else _FILES[:1]
    silence = "" if all(map(cached, wanted)) else _unanswered(hub, name, revision)

    def fetch(file: str) -> Path | None:
        if known := cached(file):
            return known[0]
        try:
            return Path(
                hub.hf_hub_download(
                    name, file, revision=revision or None, local_files_only=bool(silence)
                )
            )
        except hub.errors.LocalEntryNotFoundError:
            if silence:
                return None
            # The Hub did not answer, so the file may exist.
            raise
        except hub.errors.EntryNotFoundError:
            return None

    try:
        path = next((path for path in map(fetch, _FILES) if path is not None), None)
        beside = fetch(_SETTINGS)
        others = {file: fetch(file) for file in COPIED} if whole else {}
    except (OSError, hub.errors.HfHubHTTPError, hub.errors.HFValidationError, ValueError) as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise _absent(
            address,
            f"the tokenizer cannot be loaded from the Hub: {first}",
            "Check the name and the revision; set HF_TOKEN for a gated repository, or download"
            " tokenizer.json and use its path.",
        ) from error
    if path is None:
        raise _not_on_the_hub(address, silence)
    # The cache stores each file below its commit.
    pinned = f"hf://{name}@{path.parent.name}"
    settings = beside.read_bytes() if beside is not None else b"{}"
    files = {file: found.read_bytes() for file, found in others.items() if found is not None}
    return FoundTokenizer(pinned, path.read_bytes(), _settings(Path(_SETTINGS), settings), files)


def _not_on_the_hub(address: str, silence: str) -> BadInputError:
    if silence:
        return _absent(
            address,
            f"the Hub does not respond ({silence}), and its cache on this machine does not contain"
            " the tokenizer.",
            "Retry when the Hub is reachable, or download tokenizer.json on a machine that can"
            " reach it and use its path.",
        )
    return _absent(
        address,
        f"the repository has neither {_FILES[0]} nor {_FILES[1]}.",
        "Use a repository that has one, or the path of a file.",
    )


def _cached(hub: Any, name: str, revision: str, file: str) -> tuple[Path | None] | None:
    """Return a commit's file in the cache, or (None,) if it does not exist; None if unknown."""
    if not _COMMIT.fullmatch(revision):
        return None
    found = hub.try_to_load_from_cache(name, file, revision=revision)
    return None if found is None else (Path(found) if isinstance(found, str) else None,)


def _unanswered(hub: Any, name: str, revision: str) -> str:
    """Explain why the Hub is unreachable; empty if it is reachable."""
    try:
        url = hub.hf_hub_url(name, _FILES[0], revision=revision or None)
    except (ValueError, hub.errors.HFValidationError):
        # The download reports this better.
        return ""
    found: list[str] = []
    asking = Thread(target=lambda: found.append(_silence(hub, url)), daemon=True)
    asking.start()
    asking.join(_PATIENCE)
    return found[0] if found else f"not within {_PATIENCE:.0f} s"


def _silence(hub: Any, url: str) -> str:
    """Explain why the Hub does not respond about a file; empty if it does."""
    reason = ""
    for number in range(_TRIES):
        if number:
            time.sleep(_PAUSE)
        try:
            hub.get_hf_file_metadata(url, timeout=_TIMEOUT)
            return ""
        except hub.errors.HfHubHTTPError as error:
            status = error.response.status_code
            if status < 500 and status not in (408, 429):
                return ""
            reason = f"status {status}"
        except Exception as error:
            # The exceptions belong to the HTTP library that the Hub's client uses.
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    return reason


def _with_tiktoken(name: str) -> FoundTokenizer:
    try:
        known = known_encodings()
        if name in known:
            return FoundTokenizer(name, ranks_file(name))
    except (ImportError, OSError) as error:
        raise _absent(
            name,
            f"tiktoken cannot load this encoding: {error}",
            "Download its .tiktoken file and use its path.",
        ) from error
    raise _absent(
        name,
        "the file does not exist, and tiktoken has no encoding of this name.",
        f"Use hf://NAME@REVISION, a path, or one of {', '.join(known)}.",
    )


CACHE = "SEATRIAL_CACHE"
"""Variable with the cache directory for object store tokenizers; default ~/.cache/seatrial."""


def tokenizer_path(store: Store, tasks: TaskList) -> Path:
    """Return the file next to the list, or a cached copy that is named by its digest."""
    path, digest = tokenizer_file(tasks.name), tasks.settings.tokenizer.sha256
    if "://" not in store.address:
        file = Path(store.address) / path
        _refuse_other(store.read(path), digest, store, path)
        return file
    home = Path(os.environ.get(CACHE) or "~/.cache/seatrial").expanduser() / "tokenizers"
    kept = home / digest
    with suppress(FileNotFoundError, DamagedError):
        if sha256(read_state(kept)).hexdigest() == digest:
            return kept
    data = store.read(path)
    _refuse_other(data, digest, store, path)
    # Other processes may write the same bytes at the same time.
    write_state(kept, data)
    return kept


def _refuse_other(data: bytes, digest: str, store: Store, path: str) -> None:
    """Reject a tokenizer that is not the one of the list."""
    found = sha256(data).hexdigest()
    if found != digest:
        raise SeatrialError(
            f"{store.address}/{path}: the tokenizer has the digest {found[:12]}, but the list was "
            f"frozen with {digest[:12]}. Delete {store.address}/work and rerun the command."
        )
