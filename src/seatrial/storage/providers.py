# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The object stores through fsspec: what differs between them, and what their errors mean.

Credentials come from each library's own chain (environment, profile, workload identity) and from
nowhere else: no address, argument or file of Seatrial holds one.
"""

import importlib
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from seatrial.errors import MissingExtraError, SeatrialError
from seatrial.storage.retries import PATIENCE, RetryPolicy, chain, described, is_a, status_of
from seatrial.storage.store import StoreError, named


@dataclass(frozen=True, slots=True)
class StoreKind:
    """One kind of object store."""

    name: str
    """What people call it."""
    package: str
    """The module with its file system."""
    file_system: str
    """The class in that module."""
    version: str
    """The entry of a file's information that changes with its content."""
    credentials: str
    """Where its library looks for credentials, for an error's fix."""
    content_type: Callable[[str], dict[str, Any]]
    """The option of an upload that sets the content type."""


S3 = StoreKind(
    "S3",
    "s3fs",
    "S3FileSystem",
    "ETag",
    "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or the role of the machine or pod",
    lambda content_type: {"ContentType": content_type},
)
AZURE = StoreKind(
    "Azure Blob",
    "adlfs",
    "AzureBlobFileSystem",
    "etag",
    "AZURE_STORAGE_ACCOUNT_NAME with AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_CONNECTION_STRING, "
    "or `az login` or the identity of the machine or pod",
    lambda content_type: {"content_settings": {"content_type": content_type}},
)
_GOOGLE = StoreKind(
    "Google Storage",
    # The package's own class asks a second service, over gRPC, of what kind each bucket is.
    "gcsfs.core",
    "GCSFileSystem",
    "generation",
    "GOOGLE_APPLICATION_CREDENTIALS, `gcloud auth application-default login`, or the service "
    "account of the machine or pod",
    lambda content_type: {"content_type": content_type},
)
KINDS = {"s3": S3, "abfs": AZURE, "abfss": AZURE, "az": AZURE, "gs": _GOOGLE}
"""The kinds by the scheme of an address."""

_SILENT = logging.NullHandler()
_NO_CREDENTIALS = {
    ("azure", "ClientAuthenticationError"),
    ("azure", "CredentialUnavailableError"),
    ("botocore", "NoCredentialsError"),
    ("botocore", "PartialCredentialsError"),
    ("botocore", "ProfileNotFound"),
    ("botocore", "TokenRetrievalError"),
    ("google", "DefaultCredentialsError"),
}


@dataclass(frozen=True, slots=True)
class ObjectFiles:
    """A place in an object store: calls are tried again while that may help, and explained."""

    kind: StoreKind
    address: str
    """The place as the user wrote it, without a slash at its end."""
    root: str
    """The place as the file system has it: the bucket and the key's beginning."""
    files: Any
    """The file system of fsspec."""
    patience: RetryPolicy
    """How often a call is tried."""

    def call[T](self, path: str, action: Callable[[], T]) -> T:
        """What an action on a file gives; FileNotFoundError and FileExistsError pass through.

        Whatever else goes wrong becomes a StoreError that says what to do.
        """
        where = named(f"{self.address}/{path}" if path else self.address)
        try:
            return self.patience.call(where, action)
        except (FileNotFoundError, FileExistsError, SeatrialError, MemoryError):
            raise
        except Exception as error:
            raise self._explained(where, error) from error

    def info(self, path: str) -> dict[str, Any]:
        """What the store knows of a file now."""
        found: dict[str, Any] = self.call(path, lambda: self.files.info(self.full(path)))
        return found

    def version(self, info: dict[str, Any]) -> str:
        """What tells a changed file; listings and single answers differ in the quotes."""
        return str(info.get(self.kind.version) or "").strip('"')

    def full(self, path: str) -> str:
        """A path below the place as the file system has it."""
        return f"{self.root}/{path}" if path else self.root

    def _explained(self, where: str, error: Exception) -> StoreError:
        status = status_of(error)
        no_credentials = any(is_a(cause, _NO_CREDENTIALS) for cause in chain(error))
        # Azure's file system cannot be made without an account, and says so with a ValueError.
        no_account = self.files is None and isinstance(error, ValueError)
        if no_credentials or no_account or status == 401:
            fix = f"{self.kind.name} needs credentials: {self.kind.credentials}."
        elif status == 403 or isinstance(error, PermissionError):
            fix = f"Check that these credentials may do this: {self.kind.credentials}."
        else:
            fix = "Check the address and the store's settings."
        return StoreError(f"{where}: {self.kind.name} refused with {described(error)}. {fix}")


def object_files(address: str, patience: RetryPolicy = PATIENCE) -> ObjectFiles:
    """The place at an address such as `s3://BUCKET/PATH`."""
    address = address.rstrip("/")
    kind = KINDS[address.partition("://")[0]]
    try:
        file_system = getattr(importlib.import_module(kind.package), kind.file_system)
    except ImportError as error:
        raise MissingExtraError(
            f"Reading {named(address)} needs the data extra ({error.name} is not installed). "
            "Install it with: pip install '.[data]' in a checkout of Seatrial.",
            extra="data",
        ) from error
    for name in ("azure", "gcsfs", "s3fs"):
        # Their errors come to us; without a handler, Python would print tracebacks of them too.
        logging.getLogger(name).addHandler(_SILENT)
    options = {"use_listings_cache": False, **file_system._get_kwargs_from_urls(address)}
    if kind is _GOOGLE and os.environ.get("STORAGE_EMULATOR_HOST"):
        # As Google's own libraries do: an emulator knows no accounts.
        options |= {"token": "anon"}
    root = str(file_system._strip_protocol(address)).rstrip("/")
    place = ObjectFiles(kind, address, root, None, patience)
    files = place.call("", lambda: file_system(**options))
    if kind is AZURE:
        _hurry(files)
    return ObjectFiles(kind, address, root, files, patience)


def _hurry(files: Any) -> None:
    """Let Azure's library wait 1 s before it tries again, and not 15 s as it would."""
    configuration = getattr(files.service_client, "_config", None)
    policy = getattr(configuration, "retry_policy", None)
    if policy is not None:
        policy.initial_backoff = 1
        policy.random_jitter_range = 1
