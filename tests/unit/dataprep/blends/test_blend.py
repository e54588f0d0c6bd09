# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.codes.datasets import DatasetCode as Code
from seatrial.dataprep.blends.blend import MOST_DATA_SETS, Blend, Needs, blend, run_blend
from seatrial.dataprep.blends.splits import Shares, Split, SplitFile, cuts, split_counts
from seatrial.dataprep.output.assemble import assemble
from seatrial.dataprep.output.dataset import DatasetRecord, summarize
from seatrial.dataprep.output.index_file import map_index
from seatrial.findings import Severity
from seatrial.planning.plan import Plan
from seatrial.spec.loader import loads
from seatrial.storage.directory import LocalStore
from tests.conftest import plan_spec
from tests.unit.dataprep.made_parts import task_list, write_part

NEEDS = Needs(sequence_length=10, samples=(80, 10, 0), shares=(90.0, 10.0, 0.0))


def file(path: str, source: str = "web", train: int = 901, valid: int = 101) -> SplitFile:
    return SplitFile(path, source, (train, valid, 0), (train, valid, 0))


def found(made: Blend, severity: Severity = Severity.ERROR) -> list[str]:
    return [finding.code for finding in made.findings if finding.severity is severity]


@pytest.mark.parametrize(
    ("shares", "sequences", "expected"),
    [
        ((98.0, 2.0, 0.0), 100, ((0, 98), (98, 100), None)),
        ((98.0, 2.0, 0.0), 10, ((0, 10), (10, 10), None)),
        ((1.0, 1.0, 1.0), 10, ((0, 3), (3, 7), (7, 10))),
        ((1.0, 0.0, 0.0), 5, ((0, 5), None, None)),
        ((0.5, 0.0, 0.5), 4, ((0, 2), None, (2, 4))),
    ],
)
def test_files_are_cut_as_the_engine_cuts_them(
    shares: Shares, sequences: int, expected: tuple[object, ...]
) -> None:
    assert cuts(shares, sequences) == expected


def test_splits_are_counted_without_reading_the_largest(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    tasks = task_list(["web"])
    documents = [[7] * (n % 5) for n in range(50)]
    part = write_part(store, tasks, 0, {"": documents})
    (made,) = assemble(tasks, [part], store)
    lengths = map_index(tmp_path / "web-00000.idx").lengths.tolist()
    counts = split_counts(store, made.name, made.header, made.tokens, (90.0, 7.0, 3.0))
    assert counts[0] == (36, 3, 1)
    assert counts[1] == (sum(lengths[:36]), sum(lengths[36:39]), sum(lengths[39:]))


def test_a_single_file_needs_no_weight() -> None:
    made = blend([file("/data/a")], {"web": 2.0}, NEEDS)
    assert made == Blend(("/data/a",), ())
    assert made.to_bytes() == b"/data/a\n"


def test_weights_are_shared_out_by_tokens() -> None:
    files = [file("/data/a", "web", 3000, 600), file("/data/b", "web"), file("/data/c", "code")]
    made = blend(files, {"web": 3.0, "code": 1.0}, NEEDS)
    assert made.words[1::2] == ("/data/a", "/data/b", "/data/c")
    first, second, third = map(float, made.words[::2])
    assert first + second == pytest.approx(3)
    assert first / second == pytest.approx(3600 / 1002)
    assert third == 1
    lines = made.to_bytes().decode().splitlines()
    assert [line.split()[1] for line in lines] == ["/data/a", "/data/b", "/data/c"]


def test_by_size_is_paths_alone_while_one_epoch_suffices() -> None:
    files = [file("/data/a"), file("/data/b")]
    assert blend(files, None, NEEDS).words == ("/data/a", "/data/b")
    assert blend(files, None, NEEDS).to_bytes() == b"/data/a\n/data/b\n"


@pytest.mark.parametrize(
    "needs",
    [
        replace(NEEDS, samples=(181, 10, 0)),
        replace(NEEDS, samples=(80, 25, 0)),
        replace(NEEDS, sequence_length=200),
    ],
)
def test_by_size_becomes_weights_when_the_engine_would_run_out(needs: Needs) -> None:
    made = blend([file("/data/a"), file("/data/b", "code", 500, 150)], None, needs)
    assert made.words == ("1002", "/data/a", "650", "/data/b")
    assert not found(made)


def test_epochs_are_said() -> None:
    twice = blend([file("/data/a")], None, replace(NEEDS, samples=(170, 5, 0)))
    (finding,) = twice.findings
    assert (finding.code, finding.severity) == (Code.EPOCHS, Severity.NOTE)
    assert "training data of web 1.9 times" in finding.rule
    often = blend([file("/data/a")], None, replace(NEEDS, samples=(400, 50, 0)))
    assert [(f.severity, f.value) for f in often.findings] == [
        (Severity.WARNING, "4.4"),
        (Severity.NOTE, "5.0"),
    ]
    shares = blend(
        [file("/data/a"), file("/data/b", "code")],
        {"web": 9.0, "code": 1.0},
        replace(NEEDS, samples=(170, 5, 0)),
    )
    assert ["web 1.7 times" in f.rule for f in shares.findings] == [True]


@pytest.mark.parametrize("samples", [(80, 10, 0), (80, 0, 0)])
@pytest.mark.parametrize("number", [1, 2])
def test_a_split_without_documents_is_an_error(samples: tuple[int, int, int], number: int) -> None:
    files = [SplitFile("/data/a", "web", (10, 0, 0), (901, 0, 0)), file("/data/b")][:number]
    made = blend(files, None, replace(NEEDS, samples=samples))
    assert found(made) == [Code.SPLIT_EMPTY]
    (finding,) = made.findings
    assert "validation" in finding.rule
    assert f"1 of {number} files" in finding.rule
    assert finding.where.field == "data.split"


def test_a_split_without_a_share_may_be_empty() -> None:
    made = blend(
        [SplitFile("/data/a", "web", (10, 0, 0), (901, 0, 0))],
        None,
        replace(NEEDS, shares=(1.0, 0.0, 0.0)),
    )
    assert made.findings == ()


def test_a_file_of_empty_documents_is_left_out() -> None:
    empty = SplitFile("/data/a", "web", (0, 0, 0), (0, 0, 0))
    made = blend([empty, file("/data/b")], None, NEEDS)
    assert made.words == ("/data/b",)
    assert found(made, Severity.WARNING) == [Code.SPLIT_EMPTY]
    assert found(blend([empty], None, NEEDS)) == [Code.BLEND_SIZE]


def test_what_cannot_be_read_is_said() -> None:
    unknown = SplitFile("/elsewhere/x", "old", (0, 0, 0), (0, 0, 0), is_known=False)
    made = blend([unknown, file("/data/b")], {"old": 1.0, "web": 3.0}, NEEDS)
    assert made.words == ("1", "/elsewhere/x", "3", "/data/b")
    assert found(made, Severity.WARNING) == [Code.SPLIT_UNKNOWN]
    assert blend([unknown, file("/data/b")], None, NEEDS).words == ("/elsewhere/x", "/data/b")


def test_more_data_sets_than_the_engine_counts_are_an_error() -> None:
    files = [file(f"/data/{n}") for n in range(MOST_DATA_SETS + 1)]
    assert found(blend(files[:-1], None, NEEDS)) == []
    assert found(blend(files, None, NEEDS)) == [Code.BLEND_SIZE]


@pytest.mark.parametrize("path", ["/my data/a", "12.5", "/data/a\tb", "nan"])
def test_a_path_that_the_engine_reads_otherwise_is_an_error(path: str) -> None:
    made = blend([file(path), file("/data/b")], None, NEEDS)
    assert found(made) == [Code.BLEND_PATH]


RUN = """
apiVersion: seatrial.dev/v1alpha1
name: toy
model: {{preset: gpt3-125m}}
data:
  sources: [{sources}]
  tokenizer: hf://openai-community/gpt2
  split: [90, 10, 0]
  location: /mnt/data
training:
  sequence_length: 8
  steps: 2
  global_batch_size: 8
  micro_batch_size: 1
  evaluation: {{batches: 1}}
parallelism: {{tp_size: 1, pp_size: 1, vp_size: 1, cp_size: 1, ep_size: 1,
  sequence_parallel: false, sharding: optimizer, recompute: none}}
cluster: {{profile: aks, node_type: Standard_ND96isr_H100_v5, nodes: 1}}
checkpoints: {{every_steps: 2}}
"""


def plan_of(sources: Sequence[str]) -> Plan:
    return plan_spec(loads(RUN.format(sources=", ".join(sources)), "run.yaml"), Catalog())


def test_a_runs_blend_has_its_sources_in_order(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "out")
    tasks = task_list(["web", "code"])
    parts = [write_part(store, tasks, n, {"": [[1] * 9] * 100}) for n in range(2)]
    files = assemble(tasks, parts, store)
    record = DatasetRecord(tasks.digest, tasks.settings, files, summarize(tasks, parts))
    known = tmp_path / "out" / "code-00000"
    plan = plan_of(
        [
            "{from: /raw/code, name: code}",
            f"{{prepared: {known}, name: old}}",
            "{prepared: /nowhere/older, name: older}",
            "{from: /raw/web, name: web}",
        ]
    )
    made = run_blend(store, record, plan)
    assert made.words == (
        "/mnt/data/code-00000",
        str(known),
        "/nowhere/older",
        "/mnt/data/web-00000",
    )
    assert [f.where.file for f in made.findings if f.code == Code.SPLIT_UNKNOWN] == [
        "/nowhere/older"
    ]


def test_splits_are_named_in_the_engines_order() -> None:
    assert [split.value for split in Split] == [0, 1, 2]
