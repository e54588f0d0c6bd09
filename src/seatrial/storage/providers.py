# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The object stores behind fsspec: their differences, and the meaning of their errors.

Credentials come only from each library's own chain (environment, profile, workload identity).
Seatrial's addresses, arguments and files never contain credentials.
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
    """The name in messages."""
    package: str
    """The module with its file system."""
    file_system: str
    """The class in that module."""
    version: str
    """Key in a file's metadata that changes with its content."""
    credentials: str
    """Where its library looks for credentials; shown in error messages."""
    content_type: Callable[[str], dict[str, Any]]
    """Returns the upload option that sets the content type."""


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
    # The default class queries a second service over gRPC for the type of each bucket.
    "gcsfs.core",
    "GCSFileSystem",
    "generation",
    "GOOGLE_APPLICATION_CREDENTIALS, `gcloud auth application-default login`, or the service "
    "account of the machine or pod",
    lambda content_type: {"content_type": content_type},
)
KINDS = {"s3": S3, "abfs": AZURE, "abfss": AZURE, "az": AZURE, "gs": _GOOGLE}
"""The kinds by address scheme."""

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
    """A location in an object store. Retries calls after transient errors, and explains errors."""

    kind: StoreKind
    address: str
    """The location as the user wrote it, without a trailing slash."""
    root: str
    """The location as the file system names it: the bucket and the key prefix."""
    files: Any
    """The fsspec file system."""
    patience: RetryPolicy
    """Retry policy for calls."""

    def call[T](self, path: str, action: Callable[[], T]) -> T:
        """Run an action on a file. FileNotFoundError and FileExistsError pass through.

        Any other error becomes a StoreError with a fix.
        """
        where = named(f"{self.address}/{path}" if path else self.address)
        try:
            return self.patience.call(where, action)
        except (FileNotFoundError, FileExistsError, SeatrialError, MemoryError):
            raise
        except Exception as error:
            raise self._explained(where, error) from error

    def info(self, path: str) -> dict[str, Any]:
        """Return the current metadata of a file."""
        found: dict[str, Any] = self.call(path, lambda: self.files.info(self.full(path)))
        return found

    def version(self, info: dict[str, Any]) -> str:
        """Return the version of a file, without the quotes that only some responses have."""
        return str(info.get(self.kind.version) or "").strip('"')

    def full(self, path: str) -> str:
        """Return a path below this location as the file system names it."""
        return f"{self.root}/{path}" if path else self.root

    def _explained(self, where: str, error: Exception) -> StoreError:
        status = status_of(error)
        no_credentials = any(is_a(cause, _NO_CREDENTIALS) for cause in chain(error))
        # Azure's file system raises a ValueError if no account is configured.
        no_account = self.files is None and isinstance(error, ValueError)
        if no_credentials or no_account or status == 401:
            fix = f"{self.kind.name} needs credentials: {self.kind.credentials}."
        elif status == 403 or isinstance(error, PermissionError):
            fix = f"Check that these credentials have permission: {self.kind.credentials}."
        else:
            fix = "Check the address and the settings of the object store."
        return StoreError(f"{where}: {self.kind.name} returned {described(error)}. {fix}")


def object_files(address: str, patience: RetryPolicy = PATIENCE) -> ObjectFiles:
    """Return the location at an address such as `s3://BUCKET/PATH`."""
    address = address.rstrip("/")
    kind = KINDS[address.partition("://")[0]]
    try:
        file_system = getattr(importlib.import_module(kind.package), kind.file_system)
    except ImportError as error:
        raise MissingExtraError(
            f"Reading {named(address)} needs the data extra ({error.name} is not installed). "
            "In a Seatrial checkout, run: pip install '.[data]'",
            extra="data",
        ) from error
    for name in ("azure", "gcsfs", "s3fs"):
        # Seatrial handles these errors; without a handler, Python would also print tracebacks.
        logging.getLogger(name).addHandler(_SILENT)
    options = {"use_listings_cache": False, **file_system._get_kwargs_from_urls(address)}
    if kind is _GOOGLE and os.environ.get("STORAGE_EMULATOR_HOST"):
        # As in Google's own libraries: an emulator has no accounts.
        options |= {"token": "anon"}
    root = str(file_system._strip_protocol(address)).rstrip("/")
    place = ObjectFiles(kind, address, root, None, patience)
    files = place.call("", lambda: file_system(**options))
    if kind is AZURE:
        _hurry(files)
    return ObjectFiles(kind, address, root, files, patience)


def _hurry(files: Any) -> None:
    """Make Azure's library wait 1 s before a retry instead of 15 s."""
    configuration = getattr(files.service_client, "_config", None)
    policy = getattr(configuration, "retry_policy", None)
    if policy is not None:
        policy.initial_backoff = 1
        policy.random_jitter_range = 1
