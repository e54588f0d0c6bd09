# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Data sets of the Hub as inputs, against a stand-in for its endpoint."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from seatrial.dataprep.inputs.access import list_inputs, open_input
from seatrial.dataprep.inputs.selection import InputError
from seatrial.dataprep.tasks.task_list import InputFile
from seatrial.spec.data import DataSource
from seatrial.storage.retries import RetryPolicy
from seatrial.storage.store import StoreError
from tests.stores.conftest import QUICK, noise
from tests.stores.faults import Fault, Faults, spoilt
from tests.stores.hub_stand_in import COMMIT, REPO, TOKEN, Hub, serve_hub

pytestmark = pytest.mark.stores

PINNED = f"hf://datasets/{REPO}@{COMMIT}"
LARGE = noise(5, 3_000_001)


@pytest.fixture
def hub() -> Hub:
    return Hub(
        {
            "README.md": b"about",
            "data/train/0.jsonl.zst": LARGE,
            "data/train/1.jsonl.zst": b"small",
            "data/train/2 é.jsonl.zst": noise(6, 1000),
            "data/valid/0.jsonl.zst": b"",
        }
    )


@pytest.fixture
def faults(hub: Hub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Faults]:
    """The faults of a proxy in front of both servers of the stand-in."""
    faults = Faults()
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "none"))
    with (
        serve_hub(hub) as front,
        spoilt(front, faults) as address,
        spoilt(hub.elsewhere, faults) as elsewhere,
    ):
        hub.elsewhere = elsewhere.replace("127.0.0.1", "localhost")
        monkeypatch.setenv("HF_ENDPOINT", address)
        yield faults


def _source(address: str, **options: object) -> DataSource:
    return DataSource.model_validate({"from": address, **options})


def _list(address: str, patience: RetryPolicy = QUICK, **options: object) -> list[InputFile]:
    return list_inputs(_source(address, **options), patience)


def test_lists_all_pages_and_pins_the_commit(hub: Hub, faults: Faults) -> None:
    inputs = _list(f"hf://datasets/{REPO}@main")
    assert [file.address for file in inputs] == [
        f"{PINNED}/data/train/0.jsonl.zst",
        f"{PINNED}/data/train/1.jsonl.zst",
        f"{PINNED}/data/train/2 é.jsonl.zst",
        f"{PINNED}/data/valid/0.jsonl.zst",
    ]
    assert [file.size for file in inputs] == [3_000_001, 5, 1000, 0]
    assert inputs[0].version == hub.entry("data/train/0.jsonl.zst")["lfs"]["oid"]
    assert _list(PINNED) == inputs


def test_a_path_a_file_and_a_glob(faults: Faults) -> None:
    assert len(_list(f"hf://datasets/{REPO}@main/data/train")) == 3
    (alone,) = _list(f"hf://datasets/{REPO}/data/train/1.jsonl.zst")
    assert alone.address == f"{PINNED}/data/train/1.jsonl.zst"
    (valid,) = _list(f"hf://datasets/{REPO}@main", files="*/valid/*")
    assert valid.size == 0


def test_bytes_are_exact(hub: Hub, faults: Faults) -> None:
    for file in _list(f"hf://datasets/{REPO}"):
        with open_input(file, QUICK) as stream:
            assert stream.read() == hub.files[file.address.removeprefix(f"{PINNED}/")]


def test_seeking(faults: Faults) -> None:
    file = _list(f"hf://datasets/{REPO}")[0]
    with open_input(file, QUICK) as stream:
        assert stream.seek(-10, 2) == file.size - 10
        assert stream.read() == LARGE[-10:]
        stream.seek(1_000_000)
        assert stream.read(7) == LARGE[1_000_000:1_000_007]
        assert stream.read(7) == LARGE[1_000_007:1_000_014]


def test_the_token_goes_to_the_hub_alone(
    hub: Hub, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.private = True
    with pytest.raises(InputError, match="set HF_TOKEN"):
        _list(f"hf://datasets/{REPO}")
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    file = _list(f"hf://datasets/{REPO}")[0]
    hub.seen.clear()
    with open_input(file, QUICK) as stream:
        assert stream.read() == LARGE
    (front, asked), (elsewhere, sent_on) = hub.seen
    assert "/resolve/" in front
    assert asked["authorization"] == f"Bearer {TOKEN}"
    assert "/resolve/" not in elsewhere
    assert "authorization" not in sent_on


def test_a_token_in_its_file(
    hub: Hub, faults: Faults, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hub.private = True
    token = tmp_path / "token"
    token.write_text(f"{TOKEN}\n")
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(token))
    assert len(_list(f"hf://datasets/{REPO}")) == 4


@pytest.mark.parametrize(
    ("address", "message"),
    [
        (f"hf://datasets/{REPO}@v9", "has no revision 'v9'"),
        ("hf://datasets/acme/nothing", "does not exist, or this account cannot access it"),
        (f"hf://datasets/{REPO}/nowhere", "has no such path"),
        ("hf://gpt2", "not a data set on the Hub"),
    ],
)
def test_refusals_are_explained(faults: Faults, address: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        _list(address)


def test_a_gated_data_set(hub: Hub, faults: Faults) -> None:
    hub.gated = True
    with pytest.raises(InputError, match="Accept the conditions on the data set's page"):
        _list(f"hf://datasets/{REPO}")


@pytest.mark.parametrize(
    "fault", [Fault(429, retry_after=1), Fault(500), Fault(503), Fault(lose_answer=True)]
)
def test_listing_survives_passing_faults(faults: Faults, fault: Fault) -> None:
    faults.plan(fault, when=lambda method, path: "/revision/" in path)
    assert len(_list(f"hf://datasets/{REPO}")) == 4
    faults.plan(fault, when=lambda method, path: "cursor" in path)
    assert len(_list(f"hf://datasets/{REPO}")) == 4
    assert len(faults.seen) >= 2


def _is_data(method: str, path: str) -> bool:
    return path.endswith("0.jsonl.zst")


def test_reading_goes_on_where_it_broke(hub: Hub, faults: Faults) -> None:
    file = _list(f"hf://datasets/{REPO}")[0]
    cut = [Fault(), Fault(cut_after=1_200_000)]
    faults.plan(Fault(429, retry_after=1), *cut, Fault(500), Fault(), Fault(503), when=_is_data)
    hub.seen.clear()
    with open_input(file, replace(QUICK, tries=4)) as stream:
        assert stream.read() == LARGE
    starts = [int(h["range"].removeprefix("bytes=").rstrip("-")) for _, h in hub.seen]
    assert starts[:2] == [0, 0]
    assert 0 < starts[-1] <= 1_200_000


@pytest.mark.parametrize("fault", [Fault(429, retry_after=0), Fault(500), Fault(lose_answer=True)])
def test_retries_are_bounded(faults: Faults, fault: Fault) -> None:
    file = _list(f"hf://datasets/{REPO}")[0]
    faults.plan(fault, when=_is_data, forever=True)
    with (
        pytest.raises(StoreError, match=r"all 3 attempts .* failed.*Rerun the same command later"),
        open_input(file, QUICK) as stream,
    ):
        stream.read()
    assert len(faults.seen) == QUICK.tries


def test_a_server_that_always_cuts_is_given_up(faults: Faults) -> None:
    file = _list(f"hf://datasets/{REPO}")[0]
    faults.plan(
        Fault(cut_after=10),
        when=lambda method, path: _is_data(method, path) and "resolve" not in path,
        forever=True,
    )
    with pytest.raises(StoreError, match="attempts in"), open_input(file, QUICK) as stream:
        stream.read()
    assert len(faults.seen) == QUICK.tries


def test_a_changed_file_is_refused(hub: Hub, faults: Faults) -> None:
    file = _list(f"hf://datasets/{REPO}")[0]
    with (
        pytest.raises(InputError, match="changed since the inputs were listed"),
        open_input(replace(file, version="0" * 64), QUICK) as stream,
    ):
        stream.read()
    hub.files["data/train/0.jsonl.zst"] = LARGE[:-1]
    with (
        pytest.raises(InputError, match=r"3,000,001 bytes.*3,000,000 bytes"),
        open_input(file, QUICK) as stream,
    ):
        stream.read()
