# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The tokenizer's files in a data set: written once, verified at every start."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.dataprep.output.tokenizer_copy import (
    copied_path,
    copy_beside,
    verified_copy,
    write_copy,
)
from seatrial.dataprep.prepare import prepare
from seatrial.dataprep.tokenizers.locations import locate
from seatrial.engine_process.process import Training, TrainingOutcome
from seatrial.errors import FindingsError
from seatrial.rehearsal import drills, rehearse
from seatrial.rehearsal.drills import DrillName, Rehearsal
from seatrial.rehearsal.rehearse import RehearsalRequest, make_twins
from seatrial.sdk.plan import plan
from seatrial.spec.loader import load
from seatrial.storage.directory import LocalStore
from seatrial.worker.supervisor.__main__ import main, tokenizer_variables
from tests.unit.dataprep.little_corpus import InlineDriver, forget_copy, write_corpus

SETTINGS = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|endoftext|>"}


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    """A data set whose tokenizer has settings, and code and a pickle next to it."""
    spec = write_corpus(tmp_path, sources=1)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(SETTINGS))
    (tmp_path / "special_tokens_map.json").write_text("{}")
    (tmp_path / "tokenization_own.py").write_text("raise SystemExit")
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    prepare(plan(spec), InlineDriver())
    return tmp_path / "out"


def test_a_data_set_has_the_files_of_its_tokenizer_and_their_checksums(dataset: Path) -> None:
    copied = {path.name: path.read_bytes() for path in (dataset / "tokenizer").iterdir()}
    assert set(copied) == {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"}
    record = json.loads((dataset / "dataset.json").read_text())
    assert record["tokenizer_files"] == {
        name: hashlib.sha256(data).hexdigest() for name, data in copied.items()
    }
    assert record["settings"]["tokenizer"]["sha256"] == record["tokenizer_files"]["tokenizer.json"]


def test_what_a_killed_preparation_left_among_the_files_is_deleted(
    dataset: Path, tmp_path: Path
) -> None:
    left = dataset / "tokenizer" / ".seatrial-00000000-1-1-1~tokenizer.json"
    left.write_bytes(b"half")
    assert not prepare(plan(tmp_path / "run.yaml"), InlineDriver()).is_new
    assert not left.exists()
    assert verified_copy(str(dataset), tmp_path) is not None


def test_a_start_verifies_the_files_and_asks_no_hub(dataset: Path, tmp_path: Path) -> None:
    given = {"SEATRIAL_DATASET": str(dataset)}
    found = tokenizer_variables(given, tmp_path)
    assert found.pop("SEATRIAL_TOKENIZER_DIGEST").startswith("sha256:")
    assert found == {"SEATRIAL_TOKENIZER": f"{dataset}/tokenizer", "HF_HUB_OFFLINE": "1"}
    # The first rank downloads these weights.
    weights = given | {"SEATRIAL_INITIAL_WEIGHTS": "hf://acme/weights"}
    assert "HF_HUB_OFFLINE" not in tokenizer_variables(weights, tmp_path)
    assert "HF_HUB_OFFLINE" not in tokenizer_variables(given | {"HF_HUB_OFFLINE": "0"}, tmp_path)


def test_an_older_data_set_has_no_copy(dataset: Path, tmp_path: Path) -> None:
    forget_copy(dataset)
    assert tokenizer_variables({"SEATRIAL_DATASET": str(dataset)}, tmp_path) == {}
    assert tokenizer_variables({"SEATRIAL_DATASET": str(tmp_path / "absent")}, tmp_path) == {}
    assert tokenizer_variables({}, tmp_path) == {}


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda copy: (copy / "tokenizer.json").write_text("{}"), "ST-DATASET-020"),
        (lambda copy: (copy / "tokenizer_config.json").unlink(), "the tokenizer file is missing"),
        (lambda copy: (copy / "added_tokens.json").write_text("{}"), "is not part of the data set"),
        (lambda copy: (copy.parent / "dataset.json").write_text("[]"), "ST-DATASET-022"),
    ],
)
def test_a_changed_copy_stops_the_start(
    dataset: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    spoil: Callable[[Path], object],
    said: str,
) -> None:
    spoil(dataset / "tokenizer")
    monkeypatch.setenv("SEATRIAL_DATASET", str(dataset))
    words = "--nodes 1 --processes 1 --node-rank 0 --port 1 --restarts 0 --grace-seconds 1"
    paths = f"--address localhost --name little-1 --directory {dataset}/node"
    assert main([*words.split(), *paths.split(), "--", "absent"]) == 1
    printed = capsys.readouterr().err
    assert "the tokenizer cannot be used" in printed
    assert said in printed
    assert not (dataset / "node").exists(), "no process was started"


def test_a_rehearsal_loads_the_copy(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, ...]] = []

    def trouble(*given: str, engine: object) -> str:
        asked.append(given)
        return ""

    monkeypatch.setattr(rehearse, "tokenizer_trouble", trouble)
    run = plan(tmp_path / "run.yaml")
    loaded = load(tmp_path / "run.yaml")
    request = RehearsalRequest(loaded, run, Catalog(), tmp_path / "rehearsal", 0)
    twin = make_twins(request)[0]
    assert asked == [(f"{dataset}/tokenizer", "")]
    trainings: list[Training] = []

    def train(training: Training, *_: object) -> TrainingOutcome:
        trainings.append(training)
        return TrainingOutcome(1, 1.0, tail="not trained")

    monkeypatch.setattr(drills, "train", train)
    Rehearsal(twin, tmp_path / "rehearsal", 0).run(DrillName.TRAIN)
    assert trainings[0].environment["SEATRIAL_TOKENIZER"] == f"{dataset}/tokenizer"
    assert trainings[0].environment["HF_HUB_OFFLINE"] == "1"


def test_another_tokenizers_files_do_not_stay(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    write_copy(store, {"tokenizer.json": b"{}", "added_tokens.json": b"{}"})
    write_copy(store, {"tokenizer.json": b"[]"})
    assert [file.path for file in store.list()] == ["tokenizer/tokenizer.json"]


def test_the_copy_is_found_from_the_data_that_a_checkpoint_names(dataset: Path) -> None:
    assert copy_beside(("1.0", f"{dataset}/web-000")) == verified_copy(str(dataset), dataset)
    assert copy_beside((f"{dataset}/mds-2048-98-2-0/web",)) is not None
    assert copy_beside((f"@{dataset}/blend.txt",)) is not None
    assert copy_beside(("1.0", "/absent/web-000", "relative/web")) is None
    (dataset / "tokenizer" / "tokenizer.json").write_text("{}")
    with pytest.raises(FindingsError):
        copy_beside((f"{dataset}/web-000",))


@pytest.mark.parametrize(
    ("named", "path"),
    [
        ("openai-community/gpt2", "/copy"),
        ("/elsewhere/gpt2", "/copy"),
        ("/elsewhere/tokenizer.json", "/copy"),
        ("/elsewhere/pieces.model", "/copy/pieces.model"),
        ("/elsewhere/cl100k_base.tiktoken", "/copy/cl100k_base.tiktoken"),
    ],
)
def test_an_engine_loads_a_directory_or_a_file(named: str, path: str) -> None:
    assert copied_path("/copy", named) == path


def test_a_file_with_a_name_of_its_own_is_copied_alone(tmp_path: Path) -> None:
    (tmp_path / "pieces.model").write_bytes(b"pieces")
    (tmp_path / "tokenizer_config.json").write_text("{}")
    found = locate(str(tmp_path / "pieces.model"), whole=True)
    assert found.files == {"pieces.model": b"pieces"}
