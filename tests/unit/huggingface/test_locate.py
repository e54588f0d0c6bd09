# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A config.json from a file, from a stand-in for the Hub, from the cache, and in a pod."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.errors import FindingsError
from seatrial.huggingface.download import commit_of
from seatrial.huggingface.locate import MAX_BYTES, cache_directory, delivered_name, find_config
from tests.unit.huggingface.published import PUBLISHED

COMMIT = "0123456789abcdef0123456789abcdef01234567"
ADDRESS = f"someone/small@{COMMIT}"
CONFIG = json.dumps(PUBLISHED["qwen3-0.6b"]).encode()


@dataclass
class Hub:
    """What the stand-in holds, how it answers, and what it was asked."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    data: bytes = CONFIG
    asked: list[tuple[str, str | None]] = field(default_factory=list)

    def answer(self, path: str, token: str | None) -> tuple[int, dict[str, str], bytes]:
        """The answer to a request."""
        self.asked.append((path, token))
        if path.startswith("/api/models/someone/small/revision/"):
            return 200, {}, json.dumps({"sha": COMMIT}).encode()
        if path == f"/someone/small/resolve/{COMMIT}/config.json" or path == "/moved":
            return (self.status if path != "/moved" else 200), self.headers, self.data
        return 404, {"X-Error-Code": "RepoNotFound"}, b""


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    """A Hub on loopback, and an empty cache."""
    held = Hub()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, headers, data = held.answer(self.path, self.headers.get("Authorization"))
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(data))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("HF_TOKEN", "HF_TOKEN_PATH", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    yield held
    server.shutdown()
    server.server_close()
    thread.join()


def reason(address: str = ADDRESS) -> str:
    """Why a config.json is not found."""
    with pytest.raises(FindingsError) as error:
        find_config(address)
    (finding,) = error.value.findings
    assert finding.fix
    return finding.rule


def test_a_config_is_asked_for_once_and_then_read_from_the_cache(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_config(ADDRESS).config["model_type"] == "qwen3"
    assert hub.asked == [(f"/someone/small/resolve/{COMMIT}/config.json", None)]
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    again = find_config(ADDRESS)
    assert (again.data, len(hub.asked)) == (CONFIG, 1)
    assert [file.name for file in cache_directory().iterdir()] == [f"someone--small@{COMMIT}.json"]
    assert Catalog().unlisted_model(ADDRESS).tokenizer == f"hf://{ADDRESS}"


def test_the_token_of_the_environment_or_its_file_is_sent(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "hf").mkdir()
    (tmp_path / "hf" / "token").write_text("hf_of_a_file\n")
    assert commit_of("someone/small", "main") == COMMIT
    monkeypatch.setenv("HF_TOKEN", "hf_of_the_environment")
    find_config(ADDRESS)
    assert [token for _, token in hub.asked] == [
        "Bearer hf_of_a_file",
        "Bearer hf_of_the_environment",
    ]


def test_a_redirect_is_followed_on_the_same_host_only(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.status, hub.headers = 307, {"Location": "http://localhost:1/elsewhere"}
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    assert "redirects to another host, localhost" in reason()
    hub.headers = {"Location": "/moved"}
    assert find_config(ADDRESS).data == CONFIG


@pytest.mark.parametrize(
    ("status", "code", "said"),
    [
        (401, "", "does not exist, or your token has no access"),
        (404, "RepoNotFound", "does not exist, or your token has no access"),
        (403, "GatedRepo", "is gated"),
        (404, "EntryNotFound", "has no config.json"),
        (404, "RevisionNotFound", "no such revision"),
        (503, "", "answered 503"),
    ],
)
def test_a_refusal_of_the_hub_is_explained(hub: Hub, status: int, code: str, said: str) -> None:
    hub.status, hub.headers = status, {"X-Error-Code": code}
    assert said in reason()


def test_what_is_no_config_is_refused_and_not_kept(hub: Hub) -> None:
    for data, said in (
        (b"<html>", "not a JSON object"),
        (b"[1]", "not a JSON object"),
        (b" " * (MAX_BYTES + 1), "too large"),
    ):
        hub.data = data
        assert said in reason()
    assert not cache_directory().exists()


def test_without_a_network_the_message_says_what_to_do(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert "cannot be reached" in reason()
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert "HF_HUB_OFFLINE forbids" in reason()
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setenv("HF_ENDPOINT", "file:///etc")
    assert "HF_ENDPOINT is file:///etc" in reason()


@pytest.mark.parametrize("token", ["hf_first\nhf_second", "hf_fürst", "hf_a hf_b"])
def test_a_malformed_token_is_refused_and_not_shown(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    monkeypatch.setenv("HF_TOKEN", token)
    said = reason()
    assert "characters that no token has" in said
    assert "hf_" not in said
    assert hub.asked == []


@pytest.mark.parametrize("address", ["http://[::1", "http://127.0.0.1:port", "http://ü..example"])
def test_a_malformed_endpoint_is_refused(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", address)
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    assert address in reason()


@pytest.mark.parametrize("commit", ["../" * 13 + "x", "G" * 40, COMMIT + "\n", COMMIT.upper(), 7])
def test_what_the_hub_calls_a_commit_is_checked(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, commit: object
) -> None:
    monkeypatch.setattr(hub, "answer", lambda *_: (200, {}, json.dumps({"sha": commit}).encode()))
    with pytest.raises(FindingsError, match="did not answer with a commit"):
        commit_of("someone/small", "main")


def test_a_download_has_a_deadline(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seatrial.huggingface.download.DEADLINE_SECONDS", -1.0)
    assert "took longer than" in reason()
    assert not cache_directory().exists()


def test_a_path_is_a_file_or_its_directory(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_bytes(CONFIG)
    assert find_config(str(file)).sha256 == find_config(str(tmp_path)).sha256
    assert "cannot be read" in reason(str(tmp_path / "other.json"))
    file.write_bytes(b" " * (MAX_BYTES + 1))
    assert "too large" in reason(str(file))


def test_a_pod_reads_what_was_delivered_with_the_run(tmp_path: Path) -> None:
    there, pod = tmp_path / "laptop", tmp_path / "pod"
    there.mkdir()
    pod.mkdir()
    (there / "config.json").write_bytes(CONFIG)
    address = str(there)
    for name, text in Catalog().model_files(address).items():
        (pod / name).write_text(text)
    assert [file.name for file in pod.iterdir()] == [delivered_name(address)]
    before = Catalog().unlisted_model(address)
    (there / "config.json").unlink()
    assert Catalog([pod]).unlisted_model(address) == before
    assert Catalog().model_files(None) == {}
