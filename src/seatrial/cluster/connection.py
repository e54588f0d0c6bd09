# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Connect to an API server with a kubeconfig or service account, through the official client."""

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import urllib3
from kubernetes.client import Configuration
from kubernetes.client.exceptions import ApiException
from kubernetes.client.rest import RESTClientObject
from kubernetes.config import (
    ConfigException,
    list_kube_config_contexts,
    load_incluster_config,
    load_kube_config,
)

from seatrial.cluster.errors import ClusterError
from seatrial.cluster.transport import Answer, Call, DroppedError, RefusedStreamError
from seatrial.codes.cluster import ClusterCode
from seatrial.secrets.redaction import redact_beginning
from seatrial.version import VERSION

CONNECT_SECONDS = 10.0
"""The connection timeout."""
LONGEST_LINE = 16 << 20
"""The maximum line length in bytes: several times the size limit of an object."""
_PIECE = 1 << 16
IN_CLUSTER = "KUBERNETES_SERVICE_HOST"
"""Set in every pod by Kubernetes."""


@dataclass(frozen=True, slots=True)
class Target:
    """The cluster to connect to."""

    kubeconfig: str = ""
    """The file. Default: KUBECONFIG, else ~/.kube/config."""
    context: str = ""
    """The context. Default: the current one."""

    @property
    def files(self) -> str:
        """The kubeconfig. It may be several files, separated by colons."""
        return self.kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config"

    @property
    def shown(self) -> str:
        """The target, for messages."""
        return f"{self.files}, context {self.context}" if self.context else self.files

    @property
    def is_there(self) -> bool:
        """True if any of its files exists."""
        files = self.files.split(os.pathsep)
        return any(file and Path(file).expanduser().exists() for file in files)


class ClientTransport:
    """A transport over the official client. Thread-safe."""

    def __init__(self, target: Target) -> None:
        """Load the credentials. Sends no request."""
        self.target = target
        self._lock = threading.Lock()
        self.configuration = configuration_of(target)
        self._rest = RESTClientObject(self.configuration)

    @property
    def server(self) -> str:
        return str(self.configuration.host)

    def renew(self) -> None:
        """Load all credentials again: tokens, certificates and plugins."""
        with self._lock:
            self.configuration = configuration_of(self.target)
            self._rest = RESTClientObject(self.configuration)

    def request(self, call: Call) -> Answer:
        response = self._send(call)
        try:
            data = response.data
        except urllib3.exceptions.HTTPError as error:
            raise _dropped(error) from error
        finally:
            response.release_conn()
        return _answer(response, data)

    @contextmanager
    def stream(self, call: Call) -> Iterator[Iterator[bytes]]:
        """Yield the lines of an answer as they arrive."""
        response = self._send(call)
        try:
            if response.status != 200:
                raise RefusedStreamError(_answer(response, response.data))
            yield _lines(response)
        except urllib3.exceptions.HTTPError as error:
            raise _dropped(error) from error
        finally:
            # Unread data would precede the next answer.
            response.close()

    def _send(self, call: Call) -> Any:
        headers = {
            "Accept": "application/json",
            "User-Agent": f"seatrial/{VERSION}",
            **authorization(self.configuration),
        }
        if call.body is not None:
            headers["Content-Type"] = call.content
        query = f"?{urlencode(call.query)}" if call.query else ""
        try:
            response = self._rest.request(
                call.method,
                f"{self.server}{call.path}{query}",
                headers=headers,
                body=call.body,
                _request_timeout=(CONNECT_SECONDS, call.read_seconds),
            )
        except urllib3.exceptions.HTTPError as error:
            raise _dropped(error) from error
        except ApiException as error:
            # The client raises this for TLS errors, which a starting server also causes.
            raise DroppedError(str(error.reason).replace("\n", " ")) from error
        return response.response


def configuration_of(target: Target) -> Configuration:
    """Return the client's configuration for a cluster."""
    configuration = Configuration()
    # Retries are handled in `Api`, not in the client.
    configuration.retries = False
    configuration.connection_pool_maxsize = 32
    configuration.keep_alive = True
    try:
        if _is_inside(target):
            load_incluster_config(client_configuration=configuration)
        else:
            load_kube_config(
                config_file=target.kubeconfig or None,
                context=target.context or None,
                client_configuration=configuration,
                persist_config=False,
            )
    except Exception as error:
        # Report any error from the file or from a credential plugin.
        text = str(error).strip().replace("\n", " ") or type(error).__name__
        if not _is_inside(target) and not target.is_there:
            text = "the file does not exist"
        raise ClusterError(
            ClusterCode.CONFIG,
            target.shown,
            f"cannot read the cluster's address and credentials: {text.rstrip('.')}.",
            "Set KUBECONFIG or --kubeconfig to a kubeconfig, and --context to a context that "
            "kubectl config get-contexts lists.",
        ) from None
    return configuration


def authorization(configuration: Configuration) -> dict[str, str]:
    """Return the authorization header. Empty with a client certificate."""
    token = configuration.get_api_key_with_prefix("BearerToken", "authorization")
    if token:
        return {"Authorization": str(token).strip()}
    if configuration.username:
        return {"Authorization": str(configuration.get_basic_auth_token())}
    return {}


def context_namespace(target: Target) -> str:
    """Return the namespace of the context or of this pod. Default: `default`."""
    if _is_inside(target):
        own = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
        return own.read_text(encoding="utf-8").strip() if own.exists() else "default"
    try:
        contexts, active = list_kube_config_contexts(target.kubeconfig or None)
    except (ConfigException, OSError):
        return "default"
    named = [each for each in contexts if each["name"] == target.context]
    chosen = named[0] if named else active
    return str((chosen.get("context") or {}).get("namespace") or "default")


def _is_inside(target: Target) -> bool:
    """True if this process runs in a pod and no kubeconfig is set."""
    given = target.kubeconfig or target.context or os.environ.get("KUBECONFIG")
    return IN_CLUSTER in os.environ and not given


def _lines(response: Any) -> Iterator[bytes]:
    """Yield the lines of a body. A line over LONGEST_LINE is cut and redacted."""
    rest, is_too_long = b"", False
    for piece in response.stream(amt=_PIECE, decode_content=True):
        *lines, rest = (rest + piece).split(b"\n")
        if is_too_long and lines:
            is_too_long, lines = False, lines[1:]
        yield from lines
        if is_too_long:
            rest = b""
        elif len(rest) > LONGEST_LINE:
            yield redact_beginning(rest.decode(errors="replace"), _PIECE).encode()
            rest, is_too_long = b"", True
    if rest:
        yield rest


def _answer(response: Any, data: bytes) -> Answer:
    """Convert a response to an answer."""
    try:
        body = json.loads(data) if data else {}
    except ValueError:
        body = {"message": redact_beginning(data.decode(errors="replace"), 500)}
    asked = response.headers.get("Retry-After", "")
    return Answer(
        response.status,
        body if isinstance(body, dict) else {"items": body},
        float(asked) if asked.isdigit() else None,
        tuple(_warning(text) for text in response.headers.getlist("Warning")),
    )


def _warning(text: str) -> str:
    """Return the quoted text of a warning header such as `299 - "unknown field"`."""
    return text.partition('"')[2].rpartition('"')[0] or text


def _dropped(error: urllib3.exceptions.HTTPError) -> DroppedError:
    """Convert a network error, with its innermost message."""
    text = str(error).rpartition(": ")[2] or type(error).__name__
    is_read_timeout = isinstance(error, urllib3.exceptions.ReadTimeoutError)
    return DroppedError(text.strip(" .()'\"\n"), is_read_timeout=is_read_timeout)
