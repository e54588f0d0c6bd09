# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Prepared data as the engine itself reads them, and its cache built ahead of training."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer as Reference

from seatrial.dataprep.blends.blend import Blend, Needs, blend
from seatrial.dataprep.blends.splits import Shares, Split, SplitFile, split_counts
from seatrial.dataprep.output.assemble import assemble
from seatrial.dataprep.output.dataset import DataFile
from seatrial.engine_process.process import worker_python
from seatrial.engines.megatron.command_line import Arguments, command_line
from tests.conftest import MEGATRON
from tests.engine.toy import DENSE, start
from tests.unit.dataprep.gpt2 import gpt2_file
from tests.unit.dataprep.prepared_corpus import DATA, prepared, split_corpus

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
END = 50256
LENGTH = 64


class Prepared:
    """The corpus split by domains into three files, or in one."""

    def __init__(self, root: Path, domain_field: str | None) -> None:
        self.root = root
        self.tokenizer = root / "tokenizer"
        self.tokenizer.mkdir(parents=True)
        file = gpt2_file(self.tokenizer)
        text = '{"tokenizer_class": "GPT2TokenizerFast", "eos_token": "<|endoftext|>"}'
        (self.tokenizer / "tokenizer_config.json").write_text(text)
        raw = root / "raw"
        raw.mkdir()
        self.data = root / "data"
        self.store, tasks, records = prepared(
            self.data, file, split_corpus(raw, 4), "tokenizers", domain_field
        )
        self.files = assemble(tasks, records, self.store)
        self.domain_field = domain_field

    def reference(self, file: DataFile) -> list[list[int]]:
        """What the reference tokenizer makes of the documents of a file."""
        tokenizer = Reference.from_file(str(self.tokenizer / "tokenizer.json"))
        found = []
        for line in (DATA / "corpus.jsonl").read_text().splitlines():
            document = json.loads(line)
            if self.domain_field is None or document["meta"]["set"] == file.domain:
                ids = tokenizer.encode(document["text"], add_special_tokens=False).ids
                found.append([*ids, END] if ids else [])
        return found

    def split_files(self, shares: Shares) -> list[SplitFile]:
        found = []
        for file in self.files:
            counts = split_counts(self.store, file.name, file.header, file.tokens, shares)
            found.append(SplitFile(str(self.data / file.name), file.source, *counts))
        return found


@pytest.fixture(scope="module")
def divided(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return Prepared(tmp_path_factory.mktemp("divided"), "meta.set")


@pytest.fixture(scope="module", params=["domains", pytest.param("whole", marks=pytest.mark.slow)])
def corpus(
    request: pytest.FixtureRequest, divided: Prepared, tmp_path_factory: pytest.TempPathFactory
) -> Prepared:
    if request.param == "domains":
        return divided
    return Prepared(tmp_path_factory.mktemp("whole"), None)


def read_back(directory: Path, wanted: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    path = directory / "wanted.json"
    path.write_text(json.dumps(wanted))
    return subprocess.run(
        [worker_python(MEGATRON), str(ROOT / "tests" / "engine" / "read_back.py"), str(path)],
        env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        check=False,
    )


def words_of(made: Blend) -> tuple[list[str], list[float] | None]:
    """Paths and weights, as the engine takes them from the words."""
    if len(made.words) == 1 or not made.words[0][0].isdigit():
        return list(made.words), None
    return list(made.words[1::2]), [float(word) for word in made.words[::2]]


@pytest.mark.parametrize(
    "samples",
    [
        pytest.param([100, 20, 0], id="once", marks=pytest.mark.slow),
        pytest.param([2500, 300, 0], id="again"),
    ],
)
def test_the_engines_readers_give_the_references_tokens(
    tmp_path: Path, corpus: Prepared, samples: list[int]
) -> None:
    shares = (90.0, 10.0, 0.0)
    split_files = corpus.split_files(shares)
    needs = Needs(LENGTH, (samples[0], samples[1], samples[2]), shares)
    made = blend(split_files, None, needs)
    prefixes, weights = words_of(made)
    # By size the engine stops after one epoch, so the second case must have weights.
    assert (weights is None) == (samples[0] == 100 or len(corpus.files) == 1)
    references = [corpus.reference(file) for file in corpus.files]
    texts = [[ids for ids in documents if ids] for documents in references]
    wanted = {
        "prefixes": prefixes,
        "weights": weights,
        "split": "90,10,0",
        "length": LENGTH,
        "samples": samples,
        "cache": str(tmp_path / "cache"),
        "reference": texts,
        "seconds": 120,
    }
    done = read_back(tmp_path, wanted)
    assert done.returncode == 0, done.stderr[-3000:]
    answer = json.loads(done.stdout.strip().splitlines()[-1])
    for both, documents in zip(answer["documents"], references, strict=True):
        assert both == [documents, documents]
    assert answer["splits"][2] is None
    for split in (Split.TRAINING, Split.VALIDATION):
        said = answer["splits"][split]
        assert said["samples"] >= samples[split]
        for file, ours in zip(said["files"], split_files, strict=True):
            assert file["sequences"] == ours.sequences[split]
            assert file["tokens"] == ours.tokens[split]
            if samples[0] == 100 and len(split_files) > 1:
                assert file["samples"] == ours.samples(split, LENGTH)


def test_a_split_without_documents_makes_the_engine_search_for_ever(
    tmp_path: Path, divided: Prepared
) -> None:
    shares = (999.0, 1.0, 0.0)
    made = blend(divided.split_files(shares), None, Needs(LENGTH, (10, 10, 0), shares))
    assert [finding.where.field for finding in made.findings] == ["data.split"]
    path = str(divided.data / divided.files[0].name)
    texts = [ids for ids in divided.reference(divided.files[0]) if ids]
    wanted = {
        "prefixes": [path],
        "weights": None,
        "split": "999,1,0",
        "length": LENGTH,
        "samples": [10, 10, 0],
        "cache": str(tmp_path / "cache"),
        "reference": [texts],
        "seconds": 5,
    }
    assert read_back(tmp_path, wanted).returncode == -signal.SIGALRM


def cache_arguments(corpus: Prepared, data: Path) -> Arguments:
    arguments = dict(DENSE)
    for name in ("mock-data", "vocab-size", "eval-iters", "eval-interval", "train-iters"):
        del arguments[name]
    return {
        **arguments,
        "train-iters": 3,
        "eval-iters": 1,
        "eval-interval": 2,
        "tokenizer-type": "HuggingFaceTokenizer",
        "tokenizer-model": str(corpus.tokenizer),
        "data-args-path": str(data / "blend.txt"),
        "data-cache-path": str(data / "cache"),
        "split": "90,10,0",
    }


def state(cache: Path) -> dict[str, tuple[int, int]]:
    """Every file of the cache with its number on disk and its last change."""
    return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in cache.rglob("*")}


def build_cache(arguments: Arguments, *own: str) -> Any:
    done = subprocess.run(
        [
            worker_python(MEGATRON),
            "-m",
            "seatrial.worker.megatron.index_cache",
            *own,
            *command_line(arguments),
        ],
        env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        check=False,
    )
    answer = json.loads(done.stdout.strip().splitlines()[-1])
    assert done.returncode == ("error" in answer), done.stderr[-3000:]
    return answer


@pytest.mark.slow
def test_training_finds_the_cache_that_was_built_elsewhere(
    tmp_path: Path, corpus: Prepared
) -> None:
    # Built where the data lie now, under the names that training will see after they are moved.
    seen = tmp_path / "mounted"
    arguments = cache_arguments(corpus, seen)
    shares = (90.0, 10.0, 0.0)
    moved = [
        SplitFile(str(seen / Path(file.path).name), file.source, file.sequences, file.tokens)
        for file in corpus.split_files(shares)
    ]
    made = blend(moved, {"corpus": 1.0}, Needs(LENGTH, (12, 8, 4), shares))
    found = tmp_path / "found"
    found.mkdir()
    (found / "blend.txt").write_bytes(made.to_bytes())
    for file in corpus.data.glob("*-0*"):
        (found / file.name).write_bytes(file.read_bytes())
    paths = ("--seen-at", str(seen), "--found-at", str(found))
    answer = build_cache(arguments, *paths)
    blended = len(corpus.files) > 1
    assert answer == {"built": 8 * len(corpus.files) + 6 * blended, "there": 0}
    before = state(found / "cache")
    assert len(before) == answer["built"]
    assert build_cache(arguments, *paths) == {"built": 0, "there": len(before)}
    assert state(found / "cache") == before

    found.rename(seen)
    before = state(seen / "cache")
    start(tmp_path, "trained", arguments)
    assert state(seen / "cache") == before


def test_a_cache_without_a_place_is_refused(tmp_path: Path, divided: Prepared) -> None:
    arguments = cache_arguments(divided, tmp_path)
    del arguments["data-cache-path"]
    assert "--data-cache-path is not set" in build_cache(arguments)["error"]


@pytest.mark.slow
def test_what_a_killed_build_left_is_removed(tmp_path: Path, divided: Prepared) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    (tmp_path / "blend.txt").write_text(str(divided.data / divided.files[0].name))
    # As the engine leaves it when it is killed: half a file under its name.
    arguments = cache_arguments(divided, tmp_path)
    assert build_cache(arguments)["built"] == 8
    description = next(cache.glob("*train-description.txt"))
    description.unlink()
    half = cache / description.name.replace("description.txt", "sample_index.npy")
    half.write_bytes(half.read_bytes()[:50])
    answer = build_cache(arguments)
    assert answer == {"built": 4, "there": 4}
    assert half.stat().st_size > 50
    assert not list(cache.glob(".*"))
