# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Questions to an API server over HTTP, with what a client library hides: codes and warnings."""

import http.client
import json
import re
import ssl
import tempfile
from base64 import b64decode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from seatrial.rendering.manifest import Manifest

STRICT = {"dryRun": "All", "fieldValidation": "Strict"}
"""Everything that a real request does, but nothing is kept."""
_WARNING = re.compile(r'\d{3} \S+ "((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server said."""

    status: int
    """The code of HTTP."""
    body: dict[str, Any]
    """The object, or a Status."""
    warnings: tuple[str, ...]
    """What the server warned of."""

    @property
    def accepted(self) -> bool:
        """Whether it did what it was asked."""
        return 200 <= self.status < 300

    @property
    def message(self) -> str:
        """Why it did not."""
        return "" if self.accepted else f"{self.status} {self.body.get('message', self.body)}"


class Api:
    """An API server, reached with a kubeconfig that this harness wrote (JSON, embedded keys)."""

    def __init__(self, kubeconfig: Path, timeout: float = 60) -> None:
        """Read it; nothing is asked yet."""
        self._connection: http.client.HTTPSConnection | None = None
        given = json.loads(kubeconfig.read_text())
        cluster, user = given["clusters"][0]["cluster"], given["users"][0]["user"]
        self._address = urlsplit(cluster["server"])
        self._timeout = timeout
        authority = b64decode(cluster["certificate-authority-data"]).decode()
        self._tls = ssl.create_default_context(cadata=authority)
        self._headers = {"Accept": "application/json"}
        if "token" in user:
            self._headers["Authorization"] = f"Bearer {user['token']}"
        else:
            _load_pair(self._tls, user)
        self._resources: dict[tuple[str, str], tuple[str, bool]] = {}

    def __del__(self) -> None:
        """Close the connection that is kept."""
        if self._connection is not None:
            self._connection.close()

    def ask(
        self,
        method: str,
        path: str,
        body: Manifest | None = None,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> Answer:
        """One request over a kept connection; raises OSError when the server is away."""
        target = path + (f"?{urlencode(query)}" if query else "")
        content = None if body is None else json.dumps(body)
        headers = self._headers | ({"Content-Type": content_type} if content else {})
        kept, self._connection = self._connection, None
        try:
            answer, text, connection = self._send(kept, method, target, content, headers)
        except (OSError, http.client.HTTPException):
            # The server may have dropped a connection that was kept; a new one tells.
            if kept is None:
                raise
            answer, text, connection = self._send(None, method, target, content, headers)
        self._connection = connection
        warnings = _WARNING.findall(", ".join(answer.headers.get_all("Warning", [])))
        return Answer(answer.status, _decoded(text), tuple(warnings))

    def _send(
        self,
        connection: http.client.HTTPSConnection | None,
        method: str,
        target: str,
        content: str | None,
        headers: Mapping[str, str],
    ) -> tuple[http.client.HTTPResponse, bytes, http.client.HTTPSConnection]:
        connection = connection or http.client.HTTPSConnection(
            str(self._address.hostname),
            self._address.port,
            context=self._tls,
            timeout=self._timeout,
        )
        try:
            connection.request(method, target, content, dict(headers))
            answer = connection.getresponse()
            return answer, answer.read(), connection
        except BaseException:
            connection.close()
            raise

    def path(self, manifest: Manifest, *, named: bool) -> str:
        """Where objects of its kind are, or where it is itself."""
        version, kind = manifest["apiVersion"], manifest["kind"]
        if (version, kind) not in self._resources:
            self._discover(version)
        try:
            plural, namespaced = self._resources[version, kind]
        except KeyError:
            raise LookupError(f"the server has no {kind} of {version}") from None
        namespace = manifest["metadata"].get("namespace", "default")
        inside = f"/namespaces/{namespace}" if namespaced else ""
        tail = f"/{manifest['metadata']['name']}" if named else ""
        return f"{_root(version)}{inside}/{plural}{tail}"

    def create(self, manifest: Manifest, query: Mapping[str, str] | None = None) -> Answer:
        """POST an object."""
        return self.ask("POST", self.path(manifest, named=False), manifest, query)

    def apply(self, manifest: Manifest, query: Mapping[str, str] | None = None) -> Answer:
        """Server-side apply of an object."""
        told = {"fieldManager": "seatrial-tests", "force": "true", **(query or {})}
        path = self.path(manifest, named=True)
        return self.ask("PATCH", path, manifest, told, "application/apply-patch+yaml")

    def ready(self) -> bool:
        """Whether the server says that it is ready."""
        try:
            return self.ask("GET", "/readyz").accepted
        except (OSError, http.client.HTTPException):
            return False

    def _discover(self, version: str) -> None:
        for found in self.ask("GET", _root(version)).body.get("resources", []):
            if "/" not in found["name"]:
                self._resources[version, found["kind"]] = (found["name"], found["namespaced"])


def _root(version: str) -> str:
    return f"/apis/{version}" if "/" in version else f"/api/{version}"


def _decoded(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {"message": text.decode(errors="replace")}
    return found if isinstance(found, dict) else {"message": text.decode()}


def _load_pair(context: ssl.SSLContext, user: Mapping[str, str]) -> None:
    """Python's TLS takes a client's certificate only from files."""
    with _as_file(user["client-certificate-data"]) as pem, _as_file(user["client-key-data"]) as key:
        context.load_cert_chain(pem, key)


@contextmanager
def _as_file(encoded: str) -> Iterator[str]:
    with tempfile.NamedTemporaryFile() as file:
        file.write(b64decode(encoded))
        file.flush()
        yield file.name
