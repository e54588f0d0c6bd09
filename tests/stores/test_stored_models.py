# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Tokenizers and weights in object stores: found, staged once, and what is said if they are not."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

import pytest

from seatrial.codes.exchange import ExchangeCode
from seatrial.dataprep.tokenizers import locations
from seatrial.dataprep.tokenizers.identity import describe
from seatrial.dataprep.tokenizers.locations import tokenizer_files
from seatrial.errors import FindingsError
from seatrial.storage.access import store_at
from seatrial.storage.object_store import ObjectStore
from seatrial.storage.store import StoreError
from seatrial.worker.supervisor.__main__ import tokenizer_variables
from seatrial.worker.weights.hub_download import fetch_config, fetch_weights, source_record
from tests.stores.conftest import QUICK, Running
from tests.unit.dataprep.little_corpus import tokenizer_json

pytestmark = [
    pytest.mark.stores,
    pytest.mark.filterwarnings("ignore:Sending a large body directly:ResourceWarning"),
]


def put(server: Running, files: Mapping[str, bytes]) -> str:
    """Store files below a new address."""
    address = f"{server.root}/{uuid4().hex}/data"
    store = store_at(address)
    for name, data in files.items():
        with store.open_writer(name) as stream:
            stream.write(data)
    return address


def test_a_tokenizer_in_a_store(server: Running, tmp_path: Path) -> None:
    whole = {"tokenizer.json": tokenizer_json().encode(), "tokenizer_config.json": b"{}"}
    address = put(server, whole | {"tokenization_own.py": b"raise SystemExit"})
    for given in (address, f"{address}/tokenizer.json"):
        tokenizer, data = describe(given)
        assert data == whole["tokenizer.json"]
        assert tokenizer.address == f"{address}/tokenizer.json"
        assert tokenizer_files(tokenizer) == whole
    # Data that somebody else prepared have no copy, so the node fetches it, once for all ranks.
    found = tokenizer_variables({"SEATRIAL_TOKENIZER_SOURCE": address}, tmp_path)
    staged = {path.name: path.read_bytes() for path in (tmp_path / "tokenizer").iterdir()}
    assert staged == whole
    assert found["SEATRIAL_TOKENIZER"] == str(tmp_path / "tokenizer")
    assert found["HF_HUB_OFFLINE"] == "1"


def test_a_tokenizer_that_is_not_there(server: Running) -> None:
    address = put(server, {"README.md": b"nothing"})
    with pytest.raises(FindingsError, match=r"there is no tokenizer.json or tokenizer.model"):
        describe(address)
    with pytest.raises(FindingsError, match=r"there is no tokenizer.json, or it is empty"):
        describe(f"{address}/tokenizer.json")


def test_weights_in_a_store_without_pickles(server: Running, tmp_path: Path) -> None:
    wanted = {"config.json": b"{}", "model.safetensors": b"w" * 3_000_000}
    others = {"pytorch_model.bin": b"a pickle", "sub/model.safetensors": b"other"}
    address = put(server, wanted | others)
    fetch_config(address, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]
    fetch_weights(address, tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == wanted
    written = (tmp_path / "model.safetensors").stat().st_mtime_ns
    fetch_weights(address, tmp_path)
    assert (tmp_path / "model.safetensors").stat().st_mtime_ns == written, "not fetched again"
    assert json.loads(source_record(address, tmp_path)) == {
        "address": address,
        "sha256": {name: hashlib.sha256(data).hexdigest() for name, data in wanted.items()},
    }


def test_weights_that_are_not_there(server: Running, tmp_path: Path) -> None:
    with pytest.raises(FindingsError, match=r"there is no config.json") as caught:
        fetch_config(put(server, {"model.safetensors": b"w"}), tmp_path)
    assert caught.value.findings[0].code == ExchangeCode.NOT_GIVEN


def test_a_store_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "made-up")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "made-up")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setattr(locations, "store_at", lambda address: ObjectStore(address, QUICK))
    with pytest.raises(StoreError, match="s3://"):
        describe("s3://absent/tokenizer")
