# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Weights fetched from a stand-in for the Hub, and what is said when it does not give them."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from seatrial.codes.exchange import ExchangeCode
from seatrial.errors import FindingsError
from seatrial.worker.weights.hub_download import UnreachedHubError, fetch_config, fetch_weights

REPO, COMMIT = "someone/small", "0123456789abcdef0123456789abcdef01234567"
ADDRESS = f"hf://{REPO}@main"


@dataclass
class Hub:
    """What the stand-in holds, and how it answers."""

    files: dict[str, bytes] = field(
        default_factory=lambda: {
            "config.json": b"{}",
            "model.safetensors": b"weights",
            "pytorch_model.bin": b"a pickle",
            "consolidated.safetensors": b"the same weights again",
            "onnx/model.onnx": b"others",
        }
    )
    status: int = 200
    error: str = ""
    asked: list[str] = field(default_factory=list)

    def answer(self, path: str) -> tuple[int, dict[str, str], bytes]:
        """The answer to a question."""
        self.asked.append(path)
        if self.status != 200:
            return self.status, {"X-Error-Code": self.error}, b"{}"
        if path.startswith(f"/api/models/{REPO}/tree/"):
            listed = [
                {"type": "file", "path": name, "size": len(data), "oid": sha256(data).hexdigest()}
                for name, data in self.files.items()
            ]
            return 200, {"Content-Type": "application/json"}, json.dumps(listed).encode()
        if path.startswith(f"/api/models/{REPO}"):
            siblings = [{"rfilename": name} for name in self.files]
            told = {"id": REPO, "sha": COMMIT, "siblings": siblings}
            return 200, {"Content-Type": "application/json"}, json.dumps(told).encode()
        name = path.partition("/resolve/")[2].partition("/")[2]
        if name not in self.files:
            return 404, {"X-Error-Code": "EntryNotFound"}, b""
        data = self.files[name]
        tag = f'"{sha256(data).hexdigest()}"'
        return 200, {"ETag": tag, "X-Repo-Commit": COMMIT}, data


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A Hub on loopback."""
    held = Hub()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, headers, data = held.answer(self.path.partition("?")[0])
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(data))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(data)

        do_HEAD = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", address)
    template = address + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr("huggingface_hub.hf_api.api.endpoint", address)
    yield held
    server.shutdown()
    server.server_close()


def test_only_what_an_import_reads_is_fetched(hub: Hub, tmp_path: Path) -> None:
    fetch_config(ADDRESS, tmp_path)
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["config.json"]
    fetch_weights(ADDRESS, tmp_path)
    there = sorted(path.name for path in tmp_path.iterdir() if path.is_file())
    assert there == ["config.json", "model.safetensors"]
    assert (tmp_path / "model.safetensors").read_bytes() == b"weights"


@pytest.mark.parametrize(
    ("status", "error", "said"),
    [
        (403, "GatedRepo", "you must accept its conditions"),
        (404, "RevisionNotFound", "no such revision"),
        (401, "RepoNotFound", "the repository does not exist"),
    ],
)
def test_what_no_restart_would_mend_is_a_finding(
    hub: Hub, tmp_path: Path, status: int, error: str, said: str
) -> None:
    hub.status, hub.error = status, error
    with pytest.raises(FindingsError) as refused:
        fetch_config(ADDRESS, tmp_path)
    (finding,) = refused.value.findings
    assert finding.code == ExchangeCode.NOT_GIVEN
    assert said in finding.rule
    assert finding.fix


def test_a_repository_without_a_model_is_a_finding(hub: Hub, tmp_path: Path) -> None:
    del hub.files["config.json"]
    with pytest.raises(FindingsError, match=r"has no config\.json"):
        fetch_config(ADDRESS, tmp_path)


def test_a_hub_that_does_not_answer_may_answer_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    template = "http://127.0.0.1:1/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", template)
    with pytest.raises(UnreachedHubError, match="the next start resumes"):
        fetch_config(ADDRESS, tmp_path)
