# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Preparations that are in each other's way, or in their own: one wins, and the others are told."""

import os
from pathlib import Path

import pytest

from seatrial.codes.data import InputCode
from seatrial.dataprep import prepare as preparation
from seatrial.dataprep.blends.blend import BLEND_FILE
from seatrial.dataprep.inputs.selection import InputError
from seatrial.dataprep.inspection import verify_at
from seatrial.dataprep.output.completion import CLAIM_FILE, OtherDataError, is_held, take_claim
from seatrial.dataprep.prepare import list_tasks, prepare
from seatrial.dataprep.progress import PreparationPhase, Progress
from seatrial.dataprep.tasks import task_list as task_lists
from seatrial.dataprep.tasks.task_list import thaw
from seatrial.errors import FindingsError
from seatrial.sdk.plan import plan
from seatrial.storage.directory import LocalStore
from seatrial.storage.store import StoreError
from tests.unit.dataprep.little_corpus import InlineDriver, contents, write_corpus
from tests.unit.dataprep.made_parts import task_list

OTHER = ("data.preparation.end_token_in_text=text", "data.preparation.empty_documents=drop")
"""Settings under which the same files get other bytes."""
SHARE = "data.preparation.largest_bad_share"


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    """Three sources of two files, a task each."""
    return write_corpus(tmp_path)


def stop_at_verifying(progress: Progress) -> None:
    """Be stopped when all files are in place, and the record is not."""
    if progress.phase is PreparationPhase.VERIFYING:
        raise KeyboardInterrupt


def test_a_rival_with_other_settings_cannot_replace_verified_files(
    spec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[OtherDataError] = []
    blend = preparation._Preparation._blend

    def rival_first(self: preparation._Preparation, record: object) -> object:
        if not refused:
            with pytest.raises(OtherDataError, match="is in use by a preparation") as error:
                prepare(plan(spec, OTHER), InlineDriver(), tell=stop_at_verifying)
            refused.append(error.value)
        return blend(self, record)  # type: ignore[arg-type]

    monkeypatch.setattr(preparation._Preparation, "_blend", rival_first)
    prepare(plan(spec), InlineDriver())
    assert len(refused) == 1
    assert verify_at(str(tmp_path / "out")) == []
    assert not (tmp_path / "out/work").exists()


def test_the_claim_of_a_stopped_start_is_taken_over_by_the_same_list(
    spec: Path, tmp_path: Path
) -> None:
    with pytest.raises(KeyboardInterrupt):
        prepare(plan(spec), InlineDriver(), tell=stop_at_verifying)
    assert (tmp_path / "out" / CLAIM_FILE).exists()
    driver = InlineDriver()
    assert prepare(plan(spec), driver).is_new
    assert driver.done == []
    assert not (tmp_path / "out/work").exists()


def test_who_removes_a_claim_of_another_list_loses_no_task_and_leaves_nothing(
    spec: Path, tmp_path: Path
) -> None:
    prepare(plan(spec, OTHER), InlineDriver(), to=str(tmp_path / "undisturbed"))
    with pytest.raises(KeyboardInterrupt):
        prepare(
            plan(spec, ["data.sources[1].name=renamed"]), InlineDriver(), tell=stop_at_verifying
        )
    with pytest.raises(OtherDataError, match=r"delete .*/work/claim\.json and rerun"):
        prepare(plan(spec, OTHER), InlineDriver())
    (tmp_path / "out" / CLAIM_FILE).unlink()
    driver = InlineDriver()
    prepare(plan(spec, OTHER), driver)
    assert driver.done == []
    expected = contents(tmp_path / "undisturbed")
    assert contents(tmp_path / "out") == expected
    assert "renamed-00000.bin" not in expected


def test_files_of_another_list_are_not_taken_for_our_own(spec: Path, tmp_path: Path) -> None:
    # The same sizes: only who had the claim in between tells that these are other bytes.
    with pytest.raises(KeyboardInterrupt):
        prepare(plan(spec), InlineDriver(), tell=stop_at_verifying)
    (tmp_path / "out" / CLAIM_FILE).unlink()
    file = tmp_path / "out/s1-00000.bin"
    data = file.read_bytes()
    file.write_bytes(data[::-1])
    prepare(plan(spec), InlineDriver())
    assert file.read_bytes() == data
    assert verify_at(str(tmp_path / "out")) == []


def test_a_claim_that_was_taken_away_is_noticed_before_the_record(
    spec: Path, tmp_path: Path
) -> None:
    def take_away(progress: Progress) -> None:
        if progress.phase is PreparationPhase.VERIFYING:
            (tmp_path / "out" / CLAIM_FILE).unlink(missing_ok=True)

    with pytest.raises(OtherDataError, match="was deleted or replaced in the meantime"):
        prepare(plan(spec), InlineDriver(), tell=take_away)
    assert not (tmp_path / "out/dataset.json").exists()


def test_a_claim_is_the_lists_and_is_known_again(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    tasks = task_list(["a"])
    first = take_claim(store, tasks)
    joined = take_claim(store, tasks)
    assert (first.is_new, joined.is_new, joined.attempt) == (True, False, first.attempt)
    store.delete([CLAIM_FILE])
    again = take_claim(store, tasks)
    assert is_held(store, again)
    assert not is_held(store, first)
    (tmp_path / CLAIM_FILE).write_bytes(b"")
    with pytest.raises(OtherDataError, match=r"claim\.json"):
        take_claim(store, tasks)


def test_a_rival_that_finished_other_data_leaves_no_work_of_ours(
    spec: Path, tmp_path: Path
) -> None:
    class Overtaken(InlineDriver):
        """Does its tasks, and then somebody else finishes another data set."""

        def run(self, *args: object) -> object:  # type: ignore[override]
            yield from super().run(*args)  # type: ignore[arg-type]
            prepare(plan(spec, OTHER), InlineDriver())

    with pytest.raises(OtherDataError, match="end_token_in_text text"):
        prepare(plan(spec), Overtaken())  # type: ignore[arg-type]
    assert not (tmp_path / "out/work").exists()
    assert verify_at(str(tmp_path / "out")) == []


def with_bad_lines(tmp_path: Path) -> None:
    (tmp_path / "corpus/s2/9.jsonl").write_text('{"text": "good"}\nno json\n{"text": 5}\n')


def test_a_larger_bad_share_keeps_finished_tasks(spec: Path, tmp_path: Path) -> None:
    with_bad_lines(tmp_path)
    with pytest.raises(AssertionError, match=InputCode.BAD_SHARE):
        # The driver of the tests asserts that tasks come to a record.
        prepare(plan(spec), InlineDriver())
    driver = InlineDriver()
    prepare(plan(spec, [f"{SHARE}=0.5"]), driver)
    assert driver.done == [2]


def test_the_record_does_not_depend_on_the_limit_or_the_tokenizers_place(
    spec: Path, tmp_path: Path
) -> None:
    for number, to in ((0.1, "a"), (0.2, "b")):
        prepare(plan(spec, [f"{SHARE}={number}"]), InlineDriver(), to=str(tmp_path / to))
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    moved = tmp_path / "moved.json"
    moved.write_bytes((tmp_path / "tokenizer.json").read_bytes())
    again = prepare(plan(spec, [f"data.tokenizer={moved}"]), InlineDriver(), to=str(tmp_path / "a"))
    assert not again.is_new


def test_a_smaller_bad_share_is_held_against_what_is_there(spec: Path, tmp_path: Path) -> None:
    with_bad_lines(tmp_path)
    generous = plan(spec, [f"{SHARE}=0.5"])
    with pytest.raises(KeyboardInterrupt):
        prepare(generous, InlineDriver(), tell=stop_at_verifying)
    for _ in ("work", "record"):
        with pytest.raises(FindingsError, match="with a different limit") as error:
            prepare(plan(spec), InlineDriver())
        assert [finding.code for finding in error.value.findings] == [InputCode.BAD_SHARE]
        prepare(generous, InlineDriver())


def test_the_frozen_list_has_the_limit_of_the_newest_start(spec: Path, tmp_path: Path) -> None:
    for share in (0.1, 0.2):
        with pytest.raises(KeyboardInterrupt):
            prepare(plan(spec, [f"{SHARE}={share}"]), InlineDriver(stop_after=0))
        (frozen,) = (tmp_path / "out/work").glob("*/tasks.jsonl")
        tasks = thaw(frozen.read_bytes())
        assert tasks.settings.largest_bad_share == share
        assert tasks.name == frozen.parent.name


def test_an_output_below_a_source_is_none_of_its_files(
    spec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_lists, "SMALLEST", 2000)
    (tmp_path / "link").symlink_to(tmp_path / "corpus/prepared")
    fields = [f"data.sources=[{{from: {tmp_path}/corpus}}]", f"data.location={tmp_path}/link"]
    nested = plan(spec, fields)
    (tmp_path / "corpus/prepared").mkdir()
    with pytest.raises(KeyboardInterrupt):
        prepare(nested, InlineDriver(stop_after=1))
    before = list_tasks(nested)
    driver = InlineDriver()
    prepare(nested, driver)
    assert driver.done
    assert 0 not in driver.done
    assert list_tasks(nested) == before
    assert not prepare(nested, InlineDriver()).is_new


@pytest.mark.parametrize("below", ["", "/work/deeper"])
def test_an_output_that_is_the_source_is_refused(spec: Path, tmp_path: Path, below: str) -> None:
    source = tmp_path / "corpus"
    Path(f"{source}{below}").mkdir(parents=True, exist_ok=True)
    before = sorted(path.name for path in source.iterdir())
    wanted = plan(spec, [f"data.sources=[{{from: {source}{below}}}]"])
    with pytest.raises(InputError, match=r"the same as the input.*Set data\.location"):
        prepare(wanted, InlineDriver(), to=f"{tmp_path}/corpus/../corpus")
    assert sorted(path.name for path in source.iterdir()) == before


@pytest.mark.parametrize("text", ["", '{"text": ""}\n'])
def test_a_corpus_without_text_is_refused_before_the_record(
    spec: Path, tmp_path: Path, text: str
) -> None:
    file = tmp_path / "empty.jsonl"
    file.write_text(text)
    with pytest.raises(FindingsError, match="produced no tokens") as error:
        prepare(plan(spec, [f"data.sources=[{{from: {file}}}]"]), InlineDriver())
    assert error.value.findings[0].code == InputCode.NOTHING
    assert not (tmp_path / "out/dataset.json").exists()
    assert not (tmp_path / "out" / BLEND_FILE).exists()
    # Whatever is mended then, no claim of this list is in the way.
    prepare(plan(spec), InlineDriver())


def test_a_file_where_the_data_should_go(spec: Path, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    for to in (file, file / "deeper"):
        with pytest.raises(StoreError, match=r"is a file\. Set data\.location \(or --to\)"):
            prepare(plan(spec), InlineDriver(), to=str(to))


def test_a_record_that_is_none_says_how_to_go_on(spec: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/dataset.json").write_text("{}")
    with pytest.raises(FindingsError, match="Or delete it and prepare the data again, or prepare"):
        prepare(plan(spec), InlineDriver())


def test_directories_of_others_in_the_root_are_not_looked_into(
    spec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = tmp_path / "out/lost+found"
    closed.mkdir(parents=True)
    scandir = os.scandir

    def refusing(path: str) -> object:
        if str(path).endswith("lost+found"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr("os.scandir", refusing)
    prepare(plan(spec), InlineDriver())
    assert (tmp_path / "out/dataset.json").exists()
    assert closed.exists()
