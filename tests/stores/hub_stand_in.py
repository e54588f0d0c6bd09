# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A stand-in for the Hub: what its client asks when a data set is listed and read, no more.

Data set information at a revision, the tree in pages, information on paths, and content by ranges.
Large files are elsewhere, as with the Hub: the answer sends on to another host.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.stores.faults import serving

REPO = "acme/corpus"
TOKEN = "hf_stand_in"
COMMIT = "1f" * 20
LARGE = 1000
PAGE = 2


@dataclass
class Hub:
    """A data set with one commit, its branch `main`."""

    files: dict[str, bytes]
    private: bool = False
    gated: bool = False
    elsewhere: str = ""
    seen: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    def entry(self, path: str) -> dict[str, Any]:
        """A file as the tree tells of it."""
        data = self.files[path]
        oid = hashlib.sha1(data, usedforsecurity=False).hexdigest()
        entry: dict[str, Any] = {"type": "file", "oid": oid, "size": len(data), "path": path}
        if len(data) >= LARGE:
            digest = hashlib.sha256(data).hexdigest()
            entry["lfs"] = {"oid": digest, "size": len(data), "pointerSize": 130}
        return entry

    def tree(self, below: str) -> list[dict[str, Any]]:
        """Files and directories below a path."""
        prefix = f"{below}/" if below else ""
        paths = sorted(path for path in self.files if path.startswith(prefix))
        directories = {
            path[: match.start()]
            for path in paths
            for match in re.finditer("/", path)
            if match.start() > len(below)
        }
        known = [{"type": "directory", "oid": "0" * 40, "size": 0, "path": d} for d in directories]
        return sorted([*known, *map(self.entry, paths)], key=lambda entry: str(entry["path"]))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub
    is_elsewhere = False

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.hub.seen.append((self.path, headers))
        parts = urlsplit(self.path)
        path = unquote(parts.path)
        if self.is_elsewhere:
            self._content(path.lstrip("/"), {"ETag": '"other"'})
        elif self.hub.private and headers.get("authorization") != f"Bearer {TOKEN}":
            self._error(401, "RepoNotFound")
        elif self.hub.gated:
            self._error(403, "GatedRepo")
        elif match := re.fullmatch(rf"/api/datasets/{REPO}/revision/(.+)", path):
            known = match[1] in ("main", COMMIT)
            self._json({"id": REPO, "sha": COMMIT}) if known else self._error(
                404, "RevisionNotFound"
            )
        elif match := re.fullmatch(rf"/api/datasets/{REPO}/tree/{COMMIT}/?(.*)", path):
            self._tree(match[1], int(parse_qs(parts.query).get("cursor", ["0"])[0]))
        elif match := re.fullmatch(rf"/datasets/{REPO}/resolve/{COMMIT}/(.+)", path):
            self._resolve(match[1])
        else:
            self._error(404, "RepoNotFound")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path != f"/api/datasets/{REPO}/paths-info/{COMMIT}":
            self._error(404, "RepoNotFound")
            return
        if self.headers.get("Content-Type", "").startswith("application/json"):
            wanted = json.loads(body)["paths"]
        else:
            wanted = parse_qs(body.decode())["paths"]
        self._json([self.hub.entry(path) for path in wanted if path in self.hub.files])

    def _tree(self, below: str, start: int) -> None:
        entries = self.hub.tree(below)
        if not entries:
            self._error(404, "EntryNotFound")
            return
        headers = {}
        if start + PAGE < len(entries):
            host = self.headers["Host"]
            where = f"http://{host}/api/datasets/{REPO}/tree/{COMMIT}/{below}".rstrip("/")
            headers["Link"] = f'<{where}?recursive=True&cursor={start + PAGE}>; rel="next"'
        self._json(entries[start : start + PAGE], headers)

    def _resolve(self, path: str) -> None:
        if path not in self.hub.files:
            self._error(404, "EntryNotFound")
            return
        entry = self.hub.entry(path)
        if "lfs" not in entry:
            self._content(path, {"ETag": f'"{entry["oid"]}"', "X-Repo-Commit": COMMIT})
            return
        self.send_response(302)
        self.send_header("Location", f"{self.hub.elsewhere}/{path}")
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("X-Linked-Size", str(entry["size"]))
        self.send_header("X-Linked-ETag", f'"{entry["lfs"]["oid"]}"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _content(self, path: str, headers: dict[str, str]) -> None:
        data = self.hub.files[path]
        match = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        start = int(match[1]) if match else 0
        end = int(match[2]) + 1 if match and match[2] else len(data)
        if match and start >= len(data):
            self._error(416, "")
            return
        if match:
            headers["Content-Range"] = f"bytes {start}-{min(end, len(data)) - 1}/{len(data)}"
        self._answer(206 if match else 200, data[start:end], headers)

    def _json(self, data: Any, headers: dict[str, str] | None = None) -> None:
        body = json.dumps(data).encode()
        self._answer(200, body, {"Content-Type": "application/json", **(headers or {})})

    def _error(self, status: int, code: str) -> None:
        self._answer(status, b"", {"X-Error-Code": code, "X-Error-Message": code})

    def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def serve_hub(hub_: Hub) -> Iterator[str]:
    """The address of the stand-in; large files come from a second server."""

    class Elsewhere(_Handler):
        hub = hub_
        is_elsewhere = True

    class Front(_Handler):
        hub = hub_

    with serving(Elsewhere) as elsewhere:
        hub_.elsewhere = elsewhere
        with serving(Front) as address:
            yield address
