# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Where a tokenizer's file lies: in a folder, on the Hugging Face Hub, or with tiktoken."""

import importlib
import json
import os
import re
import time
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from threading import Thread
from typing import Any

from seatrial.codes.data import BadInputError, InputCode
from seatrial.dataprep.tasks.records import tokenizer_file
from seatrial.dataprep.tasks.task_list import TaskList
from seatrial.dataprep.tokenizers.tiktoken_file import known_encodings, ranks_file
from seatrial.errors import SeatrialError
from seatrial.storage.state_files import DamagedError, read_state, write_state
from seatrial.storage.store import Store

_FILES = ("tokenizer.json", "tokenizer.model")
"""What a folder or a repository is searched for, the preferred first."""
_SETTINGS = "tokenizer_config.json"
_COMMIT = re.compile(r"[0-9a-f]{40}")
_TRIES = 3
"""How often the Hub is asked whether it answers; the library's own way takes 30 s and 11 lines."""
_PAUSE = 1.0
"""Seconds between two tries."""
_TIMEOUT = 5.0
_PATIENCE = 20.0
"""Seconds for all tries together: looking up the Hub's address has no timeout of its own."""


@dataclass(frozen=True, slots=True)
class FoundTokenizer:
    """A tokenizer's file and what lies beside it."""

    address: str
    """Where it was found, pinned where that is possible."""
    data: bytes
    settings: dict[str, Any] = field(default_factory=dict)
    """`tokenizer_config.json`, if there is one."""


def _absent(address: str, rule: str, fix: str) -> BadInputError:
    return BadInputError(InputCode.TOKENIZER, address, rule, fix, address)


def locate(address: str) -> FoundTokenizer:
    """Read the file at an address; BadInputError when there is none."""
    if address.startswith("hf://"):
        return _on_the_hub(address)
    path = Path(address).expanduser()
    if path.exists():
        return _on_disk(path)
    if "/" not in address:
        return _with_tiktoken(address)
    raise _absent(address, "there is no such file.", "Check data.tokenizer.")


def _on_disk(path: Path) -> FoundTokenizer:
    if path.is_dir():
        files = [path / name for name in _FILES if (path / name).is_file()]
        if not files:
            raise _absent(
                str(path),
                f"the folder has neither {_FILES[0]} nor {_FILES[1]}.",
                "Give data.tokenizer the path of the file.",
            )
        path = files[0]
    beside = path.parent / _SETTINGS
    try:
        data = path.read_bytes()
        settings = beside.read_bytes() if beside.is_file() else b"{}"
    except OSError as error:
        raise _absent(
            str(path), f"cannot be read: {error.strerror}.", "Check its permissions."
        ) from error
    return FoundTokenizer(str(path.resolve()), data, _settings(beside, settings))


def _settings(path: Path, data: bytes) -> dict[str, Any]:
    try:
        content = json.loads(data)
    except ValueError as error:
        raise _absent(str(path), f"is not JSON: {error}.", "Mend it, or remove it.") from error
    return content if isinstance(content, dict) else {}


def _on_the_hub(address: str) -> FoundTokenizer:
    """From the Hub, through its cache; a revision becomes the commit that it stands for."""
    hub = importlib.import_module("huggingface_hub")
    name, _, revision = address.removeprefix("hf://").partition("@")
    silence = _unanswered(hub, name, revision)

    def fetch(file: str) -> Path | None:
        try:
            return Path(
                hub.hf_hub_download(
                    name, file, revision=revision or None, local_files_only=bool(silence)
                )
            )
        except hub.errors.LocalEntryNotFoundError:
            if silence:
                return None
            # It is not known whether there is one: the Hub did not answer.
            raise
        except hub.errors.EntryNotFoundError:
            return None

    try:
        path = next((path for path in map(fetch, _FILES) if path is not None), None)
        beside = fetch(_SETTINGS)
    except (OSError, hub.errors.HfHubHTTPError, hub.errors.HFValidationError, ValueError) as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise _absent(
            address,
            f"the Hub does not give this tokenizer: {first}",
            "Check the name and the revision; set HF_TOKEN for a gated one, or download"
            " tokenizer.json and give its path.",
        ) from error
    if path is None and silence:
        raise _absent(
            address,
            f"the Hub does not answer ({silence}), and its cache on this machine does not have the"
            " tokenizer.",
            "Try again when the Hub can be reached, or download tokenizer.json where it can and"
            " give its path.",
        )
    if path is None:
        raise _absent(
            address,
            f"the repository has neither {_FILES[0]} nor {_FILES[1]}.",
            "Name one that has, or give the path of a file.",
        )
    # The cache keeps each file below the commit that it belongs to.
    pinned = f"hf://{name}@{path.parent.name}"
    settings = beside.read_bytes() if beside is not None else b"{}"
    return FoundTokenizer(pinned, path.read_bytes(), _settings(Path(_SETTINGS), settings))


def _unanswered(hub: Any, name: str, revision: str) -> str:
    """Why the Hub cannot be asked now; empty if it can, or need not because a commit is cached."""
    if _COMMIT.fullmatch(revision) and isinstance(
        hub.try_to_load_from_cache(name, _FILES[0], revision=revision), str
    ):
        return ""
    try:
        url = hub.hf_hub_url(name, _FILES[0], revision=revision or None)
    except (ValueError, hub.errors.HFValidationError):
        # Said by the download, better than here.
        return ""
    found: list[str] = []
    asking = Thread(target=lambda: found.append(_silence(hub, url)), daemon=True)
    asking.start()
    asking.join(_PATIENCE)
    return found[0] if found else f"not within {_PATIENCE:.0f} s"


def _silence(hub: Any, url: str) -> str:
    """Why the Hub does not answer about a file; empty if it does."""
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
            # Of the HTTP library, which is the Hub's own choice.
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
            f"tiktoken cannot give this encoding: {error}",
            "Download its .tiktoken file and give the path.",
        ) from error
    raise _absent(
        name,
        "there is no such file, and no such encoding of tiktoken's.",
        f"Write hf://NAME@REVISION, a path, or one of {', '.join(known)}.",
    )


CACHE = "SEATRIAL_CACHE"
"""Where copies of tokenizers in object stores are kept; ~/.cache/seatrial when absent."""


def tokenizer_path(store: Store, tasks: TaskList) -> Path:
    """The file beside the list, or a copy of it in the cache that is named by its digest."""
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
    # Other processes may do the same at this moment, with the same bytes.
    write_state(kept, data)
    return kept


def _refuse_other(data: bytes, digest: str, store: Store, path: str) -> None:
    """Refuse a tokenizer that is not the one of the list."""
    found = sha256(data).hexdigest()
    if found != digest:
        raise SeatrialError(
            f"{store.address}/{path}: the tokenizer has the digest {found[:12]}, and the list "
            f"was frozen with {digest[:12]}. Remove {store.address}/work and start again."
        )
