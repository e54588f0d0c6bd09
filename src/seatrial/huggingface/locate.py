# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Find a published config.json: delivered with a run, in a file, in the cache, or on the Hub.

A Hub name has a commit, so a file in the cache is the same as on the Hub and needs no network.
"""

import hashlib
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seatrial.codes.huggingface import HubConfigCode, config_refusal
from seatrial.spec.model import hub_address
from seatrial.storage.state_files import DamagedError, parse_json, write_state

CONFIG = "config.json"
MAX_BYTES = 1 << 20
"""Maximum size of a config.json; published ones have a few kilobytes."""


@dataclass(frozen=True, slots=True)
class PublishedConfig:
    """The content of a config.json, and what it was read from."""

    config: dict[str, Any]
    data: bytes
    """The file as it was read."""
    where: str
    """The file or the name on the Hub, for messages."""

    @property
    def sha256(self) -> str:
        """The digest of the file."""
        return hashlib.sha256(self.data).hexdigest()


def delivered_name(address: str) -> str:
    """Return the file name under which a run's pods get the config.json of an address."""
    return f"model-config-{hashlib.sha256(address.encode()).hexdigest()[:16]}.json"


def find_config(address: str, delivered: Iterable[Path] = ()) -> PublishedConfig:
    """Return the config.json at a path or on the Hub, `owner/name@commit`.

    Directories with files that were delivered with a run come first: a path of the host where the
    run was launched does not exist in a pod, and a pod may not reach the Hub.
    """
    for directory in delivered:
        with suppress(OSError):
            return _parsed((directory / delivered_name(address)).read_bytes(), address)
    name, commit = hub_address(address)
    if not commit:
        return _parsed(_read_file(Path(address)), address)
    cached = cache_directory() / f"{name.replace('/', '--')}@{commit}.json"
    with suppress(OSError):
        return _parsed(cached.read_bytes(), address)
    # Most commands do not download anything and start faster without an HTTP client.
    from seatrial.huggingface.download import download_config  # noqa: PLC0415

    found = _parsed(download_config(name, commit, MAX_BYTES), address)
    _keep(cached, found.data)
    return found


def cache_directory() -> Path:
    """Return the directory with files from the Hub; each is named by its commit."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "seatrial" / "model-configs"


def _keep(file: Path, data: bytes) -> None:
    """Write a file to the cache; a cache that cannot be written is not needed."""
    with suppress(OSError):
        write_state(file, data, durable=False)


def _read_file(path: Path) -> bytes:
    file = path / CONFIG if path.is_dir() else path
    try:
        with file.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        rule = f"the file cannot be read: {error.strerror}."
        fix = "Use the path of a config.json or of its directory; a relative path starts at the "
        fix += "working directory."
        raise config_refusal(HubConfigCode.INVALID, str(file), "", rule, fix) from None
    if len(data) > MAX_BYTES:
        rule, fix = "the file is too large for a config.json.", "Check the path."
        raise config_refusal(HubConfigCode.INVALID, str(file), "", rule, fix)
    return data


def _parsed(data: bytes, where: str) -> PublishedConfig:
    try:
        config = parse_json(data)
    except DamagedError:
        config = None
    if not isinstance(config, dict):
        rule = "the file is not a JSON object."
        fix = "Use the config.json that was published with the model."
        raise config_refusal(HubConfigCode.INVALID, where, "", rule, fix)
    return PublishedConfig(config, data, where)
