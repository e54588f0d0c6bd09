# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Download weights from the Hugging Face Hub or an object store; never download a pickle.

The token comes from HF_TOKEN, or from the file that `hf auth login` writes, and is sent only to the
Hub.
"""

import hashlib
import json
import shutil
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from huggingface_hub import hf_hub_download, snapshot_download
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from seatrial.checkpoints.exchange.import_plan import CONFIG
from seatrial.codes.exchange import ExchangeCode, refusal
from seatrial.errors import FindingsError, SeatrialError
from seatrial.spec.addresses import is_stored, tokenizer_name
from seatrial.storage.access import store_at
from seatrial.storage.directory import LocalStore
from seatrial.storage.retries import described, passes

CHUNK = 1 << 24
WEIGHTS = ("model*.safetensors", "model.safetensors.index.json", CONFIG)
"""Files that an import reads; a repository often contains the same weights in other formats."""


class UnreachedHubError(SeatrialError):
    """The Hub does not respond; a later start may succeed."""


def fetch_config(address: str, directory: Path) -> None:
    """Download only the model's configuration."""
    if is_stored(address):
        _fetch_stored(address, directory, (CONFIG,))
        return
    name, revision = tokenizer_name(address)
    _fetch(
        address,
        lambda: hf_hub_download(name, CONFIG, revision=revision or None, local_dir=directory),
    )


def fetch_weights(address: str, directory: Path) -> None:
    """Download all files that an import reads. Skip files that already exist."""
    if is_stored(address):
        _fetch_stored(address, directory, WEIGHTS)
        return
    name, revision = tokenizer_name(address)
    wanted = list(WEIGHTS)
    _fetch(
        address,
        lambda: snapshot_download(
            name, revision=revision or None, local_dir=directory, allow_patterns=wanted
        ),
    )


def _fetch_stored(address: str, directory: Path, patterns: Sequence[str]) -> None:
    """Download the files of a directory in an object store that match one of the patterns."""
    store = store_at(address)
    found = [
        file
        for file in store.list(deep=False)
        if any(fnmatchcase(file.path, pattern) for pattern in patterns)
    ]
    if not any(file.path == CONFIG for file in found):
        fix = f"Use the address of the directory that contains {CONFIG} and the weights."
        raise _refused(address, f"there is no {CONFIG}.", fix)
    target = LocalStore(directory, "checkpoints.location")
    there = {file.path: file.size for file in target.list(deep=False)}
    for file in found:
        if there.get(file.path) != file.size:
            with (
                store.open_reader(file.path) as source,
                target.open_writer(file.path) as stream,
            ):
                shutil.copyfileobj(source, stream, CHUNK)


def source_record(address: str, directory: Path) -> str:
    """Return the address of downloaded files and their SHA-256 by name, as JSON."""
    files = {}
    for file in sorted(path for path in directory.iterdir() if path.is_file()):
        with file.open("rb") as stream:
            files[file.name] = hashlib.file_digest(stream, "sha256").hexdigest()
    return json.dumps({"address": address, "sha256": files}, indent=2) + "\n"


def _fetch(address: str, fetch: Callable[[], str]) -> None:
    """Download. Raise FindingsError for permanent errors, UnreachedHubError for transient ones."""
    try:
        fetch()
    except Exception as error:
        explained = _explain(address, error)
        if explained is None:
            raise
        raise explained from error


_FINAL: tuple[tuple[type[Exception], str, str], ...] = (
    (
        GatedRepoError,
        "the repository is gated: you must accept its conditions to get access.",
        "Accept them on the repository's page, and set HF_TOKEN in the pods with a secret "
        "(cluster.secrets).",
    ),
    (
        RevisionNotFoundError,
        "the repository has no such revision.",
        "Use a branch, tag or commit from the repository's page, such as @main.",
    ),
    (
        RepositoryNotFoundError,
        "the repository does not exist, or this account cannot access it.",
        "Check the name. If the repository is private, set HF_TOKEN in the pods with a secret "
        "(cluster.secrets).",
    ),
    (
        EntryNotFoundError,
        f"the repository has no {CONFIG}.",
        "Use a repository with weights in transformers format.",
    ),
)
"""Permanent Hub errors, each with its rule and fix; the first match applies."""


def _explain(address: str, error: Exception) -> SeatrialError | None:
    """Explain an error from the Hub's library; None if the error is not about the Hub."""
    if isinstance(error, LocalEntryNotFoundError):
        return _unreached(address, error)
    for kind, rule, fix in _FINAL:
        if isinstance(error, kind):
            return _refused(address, rule, fix)
    if isinstance(error, HFValidationError | OfflineModeIsEnabled):
        fix = "Check the address and the variables in cluster.env, or use a local directory."
        return _refused(address, f"the download failed: {described(error)}.", fix)
    if isinstance(error, HfHubHTTPError) and error.response.status_code in (401, 403):
        fix = (
            "Set HF_TOKEN in the pods to a token that has access, with a secret (cluster.secrets)."
        )
        return _refused(address, f"the Hub returned HTTP {error.response.status_code}.", fix)
    # Transient errors come from the HTTP library, which the Hub's library chooses.
    if isinstance(error, HfHubHTTPError) or passes(error):
        return _unreached(address, error)
    return None


def _refused(address: str, rule: str, fix: str) -> FindingsError:
    return refusal(ExchangeCode.NOT_GIVEN, address, rule, fix, address)


def _unreached(address: str, error: Exception) -> UnreachedHubError:
    return UnreachedHubError(
        f"{address}: the download of the weights failed: {described(error)}. Check that pods can "
        "reach the Hub; the next start resumes the download."
    )
