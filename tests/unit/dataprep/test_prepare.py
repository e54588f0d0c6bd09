# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The whole preparation: what it gives, that it goes on, and that nothing is left behind."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from seatrial.codes.data import BadInputError, InputCode
from seatrial.dataprep.blends.blend import BLEND_FILE
from seatrial.dataprep.drivers.driver import Again, Done, Driver, Event, PendingJob, line_of
from seatrial.dataprep.drivers.local import LocalDriver
from seatrial.dataprep.drivers.work import Bench
from seatrial.dataprep.inputs.selection import InputError
from seatrial.dataprep.inspection import Inspection, record_at, verify_at
from seatrial.dataprep.output.completion import OtherDataError
from seatrial.dataprep.prepare import PreparationOutcome, list_tasks, prepare
from seatrial.dataprep.progress import PreparationPhase, Progress
from seatrial.dataprep.tasks.frozen import dead_files, load_records
from seatrial.dataprep.tasks.records import PartRecord, tasks_file
from seatrial.dataprep.tasks.task_list import Task, TaskList, thaw
from seatrial.errors import FindingsError, UsageError
from seatrial.sdk.data import prepare_data
from seatrial.sdk.plan import plan
from seatrial.storage.directory import LocalStore
from seatrial.storage.writer_claims import is_dead, new_attempt
from tests.unit.dataprep.little_corpus import InlineDriver, contents, documents, write_corpus


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    """Three sources of two files, a task each; the first is split into domains."""
    return write_corpus(tmp_path)


def run(spec: Path, driver: Driver | None = None, *overrides: str) -> PreparationOutcome:
    """Prepare, in this process unless a driver is given."""
    return prepare(plan(spec, overrides), driver or InlineDriver())


def test_every_document_is_there_in_order(spec: Path, tmp_path: Path) -> None:
    outcome = run(spec)
    assert outcome.is_new
    assert [file.name for file in outcome.record.files] == [
        "s0-chart-00000",
        "s0-letter-00000",
        "s0-log-00000",
        "s1-00000",
        "s2-00000",
    ]
    written = [str(each["text"]) for file in (0, 1) for each in documents(100 + file, 60)]
    inspection = Inspection.at(str(tmp_path / "out"), "s1-00000")
    read = [inspection.document(number).text for number in range(120)]
    assert read == [f"{text}<|endoftext|>" if text else "" for text in written]
    blend = (tmp_path / "out" / BLEND_FILE).read_text().split()
    paths = [word for word in blend if word.startswith("/")]
    assert paths == [f"{tmp_path}/out/{file.name}" for file in outcome.record.files]


def test_a_path_that_is_absent_is_told_before_the_tokenizer_is_fetched(spec: Path) -> None:
    wrong = ("data.sources=[{from: /absent/corpus}]", "data.tokenizer=/absent/tokenizer.json")
    with pytest.raises(InputError, match="/absent/corpus: No such file or directory"):
        list_tasks(plan(spec, wrong))


def test_nothing_but_the_data_set_is_left(spec: Path, tmp_path: Path) -> None:
    outcome = run(spec)
    files = [f"{file.name}.{end}" for file in outcome.record.files for end in ("bin", "idx")]
    assert sorted(contents(tmp_path / "out")) == sorted(
        [*files, "blend.txt", "dataset.json", "tokenizer", "tokenizer/tokenizer.json"]
    )


def test_a_second_start_does_nothing_and_says_so(spec: Path, tmp_path: Path) -> None:
    run(spec)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()}
    driver = InlineDriver()
    again = run(spec, driver)
    assert not again.is_new
    assert driver.done == []
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()} == before
    assert again.seconds < 1.0


@pytest.mark.parametrize("workers", [1, 2])
def test_processes_give_the_same_bytes(spec: Path, tmp_path: Path, workers: int) -> None:
    run(spec)
    before = contents(tmp_path / "out")
    prepare_data(spec, to=str(tmp_path / "other"), workers=workers)
    assert contents(tmp_path / "other") == before


def test_single_tasks_as_pods_run_them_give_the_same_bytes(spec: Path, tmp_path: Path) -> None:
    run(spec, None)
    expected = contents(tmp_path / "out")
    store = LocalStore(tmp_path / "pods")
    with pytest.raises(KeyboardInterrupt):
        prepare(plan(spec), InlineDriver(stop_after=0), to=store.address)
    frozen, _ = list_tasks(plan(spec))
    tasks = thaw(frozen)
    address = f"{store.address}/{tasks_file(tasks.name)}"
    module = "seatrial.dataprep.drivers.single"
    for number in range(len(tasks.tasks)):
        given = ["--task", str(number)] if number else []
        done = subprocess.run(
            [sys.executable, "-m", module, "--list", address, *given],
            env=os.environ | {"JOB_COMPLETION_INDEX": str(number)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert json.loads(done.stdout)["task"] == number
    driver = InlineDriver()
    prepare(plan(spec), driver, to=store.address)
    assert driver.done == []
    assert contents(tmp_path / "pods") == expected


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--list", "/absent/tasks.jsonl", "--task", "0"), 2, "not the address of a frozen list"),
        (("--list", "/absent/work/0123456789ab/tasks.jsonl"), 2, "does not exist"),
    ],
)
def test_a_single_task_of_no_list_is_refused(
    arguments: tuple[str, ...], code: int, said: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "seatrial.dataprep.drivers.single", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, said in done.stderr) == (code, True), done.stderr


def test_it_goes_on_where_it_was_stopped(spec: Path, tmp_path: Path) -> None:
    run(spec)
    expected = contents(tmp_path / "out")
    to = str(tmp_path / "other")
    with pytest.raises(KeyboardInterrupt):
        prepare(plan(spec), InlineDriver(stop_after=2), to=to)
    assert not (tmp_path / "other" / "dataset.json").exists()
    driver = InlineDriver()
    outcome = prepare(plan(spec), driver, to=to)
    assert driver.done == [2]
    assert outcome.tasks == 1
    assert contents(tmp_path / "other") == expected


def test_other_settings_are_refused_with_what_differs(spec: Path) -> None:
    run(spec)
    with pytest.raises(OtherDataError, match=r"empty_documents keep.*delete this one"):
        run(spec, None, "data.preparation.empty_documents=drop")
    with pytest.raises(OtherDataError, match=r"different sources \(s0, s1, s2\)"):
        run(spec, None, "data.sources[1].name=renamed")


def test_changed_inputs_are_refused(spec: Path, tmp_path: Path) -> None:
    run(spec)
    file = tmp_path / "corpus" / "s1" / "0.jsonl.zst"
    file.write_bytes(file.read_bytes() * 2)
    with pytest.raises(OtherDataError, match="different input files, different versions"):
        run(spec)


def test_work_on_another_list_goes_when_this_one_is_done(spec: Path, tmp_path: Path) -> None:
    to = str(tmp_path / "out")
    with pytest.raises(KeyboardInterrupt):
        prepare(plan(spec, ["data.sources[1].name=renamed"]), InlineDriver(stop_after=2), to=to)
    run(spec)
    assert not (tmp_path / "out" / "work").exists()


def test_another_weight_changes_the_blend_alone(spec: Path, tmp_path: Path) -> None:
    run(spec)
    before = contents(tmp_path / "out")
    weights = [f"data.sources[{i}].weight={i + 1}" for i in range(3)]
    driver = InlineDriver()
    run(spec, driver, *weights)
    after = contents(tmp_path / "out")
    assert driver.done == []
    assert {name for name in after if after[name] != before[name]} == {BLEND_FILE}


def test_the_blend_has_the_paths_of_training_wherever_the_data_go(
    spec: Path, tmp_path: Path
) -> None:
    prepare(plan(spec), InlineDriver(), to=str(tmp_path / "elsewhere"))
    words = (tmp_path / "elsewhere" / BLEND_FILE).read_text().split()
    assert all(word.startswith(f"{tmp_path}/out/") for word in words if word.startswith("/"))


def dead_attempt() -> str:
    """The name of an attempt whose process has ended."""
    script = "from seatrial.storage.writer_claims import new_attempt; print(new_attempt())"
    done = subprocess.run([sys.executable, "-c", script], stdout=-1, text=True, check=True)
    return done.stdout.strip()


def test_only_what_the_dead_left_is_removed(tmp_path: Path) -> None:
    dead, alive = dead_attempt(), new_attempt()
    foreign = "00000000-1-1-0"
    assert [is_dead(each) for each in (dead, alive, foreign, "no attempt")] == [
        True,
        False,
        False,
        False,
    ]
    store = LocalStore(tmp_path)
    for attempt in (dead, alive, foreign):
        store.create(f"work/n/parts/000007.{attempt}.0.tokens", b"x")
    store.create(f"work/n/parts/000008.{dead}.0.tokens", b"won")
    found = dead_files(store, "n", {8: dead})
    assert found == [f"work/n/parts/000007.{dead}.0.tokens"]


@pytest.mark.parametrize(
    ("kind", "damage"),
    [
        ("lengths", lambda data: data[:-2]),
        ("tokens", lambda data: data[:-2]),
        # Of the same size, so that only reading it finds it.
        ("tokens", lambda data: bytes([data[0] ^ 1]) + data[1:]),
    ],
)
def test_a_damaged_part_is_done_again(
    spec: Path, tmp_path: Path, kind: str, damage: Callable[[bytes], bytes]
) -> None:
    run(spec)
    expected = contents(tmp_path / "out")

    class Vandal(InlineDriver):
        """Damages a file of the first part after all is done, once."""

        def run(self, job: PendingJob, tasks: TaskList, wanted: Sequence[Task]) -> Iterator[Event]:
            first = not self.done
            yield from super().run(job, tasks, wanted)
            if first:
                parts = tmp_path / "other" / "work" / tasks.name / "parts"
                victim = min(parts.glob(f"*.{kind}"))
                victim.write_bytes(damage(victim.read_bytes()))

    driver = Vandal()
    prepare(plan(spec), driver, to=str(tmp_path / "other"))
    assert driver.done == [0, 1, 2, 0]
    assert contents(tmp_path / "other") == expected


def test_a_backend_that_fails_its_audit_is_not_used_any_more(spec: Path, tmp_path: Path) -> None:
    backends = []

    class Auditor:
        """Finds the fast backend out after it has done two tasks."""

        def run(self, job: PendingJob, tasks: TaskList, wanted: Sequence[Task]) -> Iterator[Event]:
            made = job.chosen()
            backends.append((made.backend, [task.number for task in wanted]))
            bench = Bench(made)
            for task in wanted:
                if made.backend != "tokenizers" and task.number == 2:
                    rule = "other tokens than the reference."
                    raise BadInputError(InputCode.AUDIT, "a.jsonl", rule, "Report it.", line=7)
                answer = bench.attempt(line_of(tasks, task))
                yield Done(PartRecord.from_json(answer["record"].encode()))

    outcome = run(spec, Auditor())
    fast = backends[0][0]
    if fast == "tokenizers":
        pytest.skip("no fast backend is installed")
    assert backends == [(fast, [0, 1, 2]), ("tokenizers", [0, 1, 2])]
    assert [source.backends[0].split()[0] for source in outcome.record.sources] == [
        "tokenizers"
    ] * 3
    assert isinstance(outcome.again[0], Again)
    assert verify_at(str(tmp_path / "out")) == []


def test_bad_lines_are_listed_with_their_places(spec: Path, tmp_path: Path) -> None:
    file = tmp_path / "corpus" / "s2" / "9.jsonl"
    file.write_text('{"text": "good"}\nno json\n{"text": 5}\n')
    with pytest.raises(FindingsError) as error:
        prepare_data(spec, workers=1)
    assert error.value.findings[0].code == InputCode.BAD_SHARE
    outcome = run(spec, None, "data.preparation.largest_bad_share=0.5")
    assert outcome.record.quarantine_file == "quarantine.jsonl"
    listed = (tmp_path / "out/quarantine.jsonl").read_text().splitlines()
    lines = [json.loads(line) for line in listed]
    assert [(Path(line["address"]).name, line["line"]) for line in lines] == [
        ("9.jsonl", 2),
        ("9.jsonl", 3),
    ]


def test_a_rival_that_was_faster_is_as_good(spec: Path, tmp_path: Path) -> None:
    class Overtaken(InlineDriver):
        """Before its last task somebody else finishes everything."""

        def run(self, job: PendingJob, tasks: TaskList, wanted: Sequence[Task]) -> Iterator[Event]:
            yield from super().run(job, tasks, wanted[:-1])
            prepare(plan(spec), InlineDriver())

    outcome = run(spec, Overtaken())
    assert not outcome.is_new
    assert not (tmp_path / "out" / "work").exists()
    assert verify_at(str(tmp_path / "out")) == []


def test_records_that_are_none_are_done_again(spec: Path, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(spec, InlineDriver(stop_after=2))
    record = next((tmp_path / "out" / "work").glob("*/records/000000.json"))
    record.write_text("{}")
    driver = InlineDriver()
    run(spec, driver)
    assert driver.done == [0, 2]


def test_what_has_nothing_to_prepare_is_refused(spec: Path) -> None:
    with pytest.raises(UsageError, match=r"data\.mock is true"):
        run(spec, None, "data.sources=null", "data.mock=true")
    with pytest.raises(UsageError, match="already prepared"):
        run(spec, None, "data.sources=[{prepared: /data/x}]")


def test_prepared_sources_are_only_blended(spec: Path, tmp_path: Path) -> None:
    run(spec)
    ready = tmp_path / "ready"
    (tmp_path / "out").rename(ready)
    mixed = f"data.sources=[{{from: {tmp_path}/corpus/s1}}, {{prepared: {ready}/s2-00000}}]"
    outcome = run(spec, None, mixed)
    assert [file.name for file in outcome.record.files] == ["s1-00000"]
    words = (tmp_path / "out" / BLEND_FILE).read_text().split()
    paths = [word for word in words if word.startswith("/")]
    assert paths == [f"{tmp_path}/out/s1-00000", f"{ready}/s2-00000"]


def test_progress_counts_every_byte_of_every_source(spec: Path) -> None:
    seen: dict[str, Progress] = {}
    prepare(
        plan(spec), InlineDriver(), tell=lambda progress: seen.update({progress.phase: progress})
    )
    assert list(seen) == [*PreparationPhase]
    for source in seen[PreparationPhase.PREPARING].sources.values():
        assert source.read == source.total > 0
        assert source.documents == 120
    assert seen[PreparationPhase.ASSEMBLING].share == pytest.approx(1.0)
    assert seen[PreparationPhase.VERIFYING].share == pytest.approx(1.0)


def test_a_killed_worker_costs_its_task_only(spec: Path, tmp_path: Path) -> None:
    run(spec)
    expected = contents(tmp_path / "out")
    script = tmp_path / "worker.py"
    script.write_text(
        "import os, sys\n"
        "from pathlib import Path\n"
        "from seatrial.dataprep.drivers import work, worker\n"
        f"flag = Path({str(tmp_path / 'killed')!r})\n"
        "def run_task(*args, inner=work.run_task):\n"
        "    record = inner(*args)\n"
        "    if not flag.exists():\n"
        "        flag.touch()\n"
        "        os.kill(os.getpid(), 9)\n"
        "    return record\n"
        "work.run_task = run_task\n"
        "worker.main()\n"
    )
    driver = LocalDriver(1, (sys.executable, str(script)))
    outcome = prepare(plan(spec), driver, to=str(tmp_path / "other"))
    assert [again.task for again in outcome.again] == [0]
    assert contents(tmp_path / "other") == expected


def test_records_name_the_list(spec: Path, tmp_path: Path) -> None:
    run(spec)
    frozen, _ = list_tasks(plan(spec))
    assert record_at(str(tmp_path / "out")).list_digest == thaw(frozen).digest
    assert load_records(LocalStore(tmp_path / "out"), thaw(frozen)) == {}


FOUNDRY = (
    *("engine.name=llm-foundry", "model={preset: mpt-125m}", "training.sequence_length=64"),
    *("data.split=[90, 10, 0]", "training.evaluation.batches=1", "parallelism.sharding=none"),
    *(f"data.sources[{number}].name=s{number}" for number in range(3)),
)


def test_an_engine_of_mds_gets_its_samples_too(spec: Path, tmp_path: Path) -> None:
    outcome = run(spec, None, *FOUNDRY)
    place = tmp_path / "out" / "mds-64-90-10-0"
    assert sorted(path.name for path in place.iterdir()) == ["s0", "s1", "s2"]
    for source in ("s0", "s1", "s2"):
        tokens = sum(file.tokens for file in outcome.record.files if file.source == source)
        found = 0
        for split in ("train", "val"):
            index = json.loads((place / source / split / "index.json").read_bytes())
            found += sum(shard["samples"] for shard in index["shards"])
        assert found == tokens // 64
    before = contents(tmp_path / "out")
    again = run(spec, None, *FOUNDRY)
    assert (again.is_new, again.cut) == (False, ())
    assert contents(tmp_path / "out") == before


@pytest.mark.parametrize(
    ("other", "name"),
    [
        ("training.sequence_length=32", "mds-32-90-10-0"),
        ("data.split=[0.5, 0.5, 0]", "mds-64-0.5-0.5-0"),
    ],
)
def test_another_cut_of_the_same_data_is_written_beside(
    spec: Path, tmp_path: Path, other: str, name: str
) -> None:
    run(spec, None, *FOUNDRY)
    mds = tmp_path / "out" / "mds-64-90-10-0"
    before = {path: path.stat().st_mtime_ns for path in mds.rglob("*")}
    outcome = run(spec, None, *FOUNDRY, other)
    assert (outcome.is_new, outcome.cut) == (False, tuple(f"{name}/s{n}" for n in range(3)))
    assert {path: path.stat().st_mtime_ns for path in mds.rglob("*")} == before
    assert {path.name for path in mds.parent.glob("mds-*")} == {mds.name, name}


def test_verifying_reads_samples_too(spec: Path, tmp_path: Path) -> None:
    run(spec, None, *FOUNDRY)
    assert verify_at(str(tmp_path / "out")) == []
    shard = tmp_path / "out" / "mds-64-90-10-0" / "s1" / "train" / "shard.00000.mds"
    data = bytearray(shard.read_bytes())
    data[-1] ^= 1
    shard.write_bytes(data)
    (found,) = verify_at(str(tmp_path / "out"))
    assert found.where.file == "mds-64-90-10-0/s1/train/shard.00000.mds"


def test_samples_that_were_removed_are_made_again(spec: Path, tmp_path: Path) -> None:
    run(spec, None, *FOUNDRY)
    before = contents(tmp_path / "out")
    (tmp_path / "out" / "mds-64-90-10-0" / "s1" / "train" / "shard.00000.mds").unlink()
    run(spec, None, *FOUNDRY)
    assert contents(tmp_path / "out") == before
