# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
import os
import sys
from pathlib import Path

import pytest

from seatrial.dataprep.inputs import access
from seatrial.dataprep.inputs.access import list_corpus, list_inputs, open_input
from seatrial.dataprep.inputs.hub import HubPlace
from seatrial.dataprep.inputs.selection import InputError, format_of, matches, spread
from seatrial.dataprep.tasks.task_list import InputFile, InputFormat
from seatrial.errors import MissingExtraError
from seatrial.spec.data import DataSource


def _source(address: object, **options: object) -> DataSource:
    return DataSource.model_validate({"from": str(address), **options})


def _write(root: Path, *paths: str) -> None:
    for path in paths:
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(path)


def _paths(root: Path, **options: object) -> list[str]:
    files = list_inputs(_source(root, **options))
    return [os.path.relpath(file.address, root) for file in files]


@pytest.mark.parametrize(
    ("name", "format_"),
    [
        ("a.jsonl", InputFormat.JSONL),
        ("a.jsonl.zst", InputFormat.JSONL),
        ("a.JSONL.GZ", InputFormat.JSONL),
        ("a.json", InputFormat.JSONL),
        ("a.b.c.json.gz", InputFormat.JSONL),
        ("a.ndjson", InputFormat.JSONL),
        ("a.parquet", InputFormat.PARQUET),
        ("a.txt", InputFormat.TEXT),
        ("a.txt.zst", InputFormat.TEXT),
        ("a.zst", None),
        ("a.parquet.gz", None),
        ("jsonl", None),
        ("a.jsonl.bz2", InputFormat.JSONL),
        ("a.jsonl.xz", InputFormat.JSONL),
        ("a.txt.lz4", InputFormat.TEXT),
        ("a.tar", InputFormat.TAR),
        ("a.tar.zst", InputFormat.TAR),
        ("a.TGZ", InputFormat.TAR),
        ("a.jsonl.7z", None),
        ("a.list", None),
        ("a.jsonl/README", None),
    ],
)
def test_formats_by_name(name: str, format_: InputFormat | None) -> None:
    assert format_of(f"dir.txt/{name}") == format_


@pytest.mark.parametrize(
    ("glob", "path", "fits"),
    [
        ("*.jsonl", "a.jsonl", True),
        ("*.jsonl", "d/a.jsonl", False),
        ("**/*.jsonl", "a.jsonl", True),
        ("**/*.jsonl", "d/e/a.jsonl", True),
        ("d/**", "d/e/a.jsonl", True),
        ("d/**", "e/d/a.jsonl", False),
        ("d/**/a", "d/a", True),
        ("chunk[1-3]/*.zst", "chunk2/x.zst", True),
        ("chunk[!1-3]/*.zst", "chunk2/x.zst", False),
        ("{train,valid}/*", "valid/x", True),
        ("{train,valid}/*", "test/x", False),
        ("a?c", "abc", True),
        ("a?c", "a/c", False),
        ("a[x/y]c", "a/c", False),
        ("*", ".hidden", False),
        ("**", "a/.hidden/b", False),
        (".*", ".hidden", True),
        ("a.b", "axb", False),
        ("a(1)+.txt", "a(1)+.txt", True),
        ("[]x]", "]", True),
    ],
)
def test_globs(glob: str, path: str, fits: bool) -> None:
    assert matches(glob, path) is fits


def test_a_broken_glob() -> None:
    with pytest.raises(InputError, match="is not a glob"):
        matches("[z-a]", "x")


def test_lists_known_formats_in_order(tmp_path: Path) -> None:
    _write(tmp_path, "b/2.jsonl.zst", "a/10.jsonl", "a/2.jsonl.gz", "README.md")
    _write(tmp_path, ".cache/x.jsonl", "a/.y.jsonl", "dataset_infos.json")
    assert _paths(tmp_path) == ["a/10.jsonl", "a/2.jsonl.gz", "b/2.jsonl.zst"]
    (file, *_) = list_inputs(_source(tmp_path))
    status = (tmp_path / "a/10.jsonl").stat()
    assert file == InputFile(
        str(tmp_path / "a/10.jsonl"), status.st_size, str(status.st_mtime_ns), InputFormat.JSONL
    )


def test_globs_choose(tmp_path: Path) -> None:
    _write(tmp_path, "train/1.jsonl", "train/2.txt", "test/1.jsonl", "train/3.data")
    assert _paths(tmp_path, files="train/*.jsonl") == ["train/1.jsonl"]
    assert _paths(tmp_path, files="**/*.data", format="jsonl") == ["train/3.data"]
    with pytest.raises(InputError, match=r"train/3.data matches files .*Set format"):
        list_inputs(_source(tmp_path, files="train/*"))
    with pytest.raises(InputError, match=r"match: set files to '\*\*/\*.jsonl'"):
        list_inputs(_source(tmp_path, files="*.jsonl"))
    with pytest.raises(InputError, match=r"none of its 4 files \(test/1.jsonl, .*, \.\.\.\)"):
        list_inputs(_source(tmp_path, files="*.parquet"))


def test_a_given_format_chooses_by_name(tmp_path: Path) -> None:
    _write(tmp_path, "1.jsonl", "notes.txt")
    assert _paths(tmp_path, format="text") == ["notes.txt"]
    with pytest.raises(InputError, match=r"more than one format \(1 jsonl and 1 text\)"):
        list_inputs(_source(tmp_path))
    with pytest.raises(InputError, match="has the suffix of a parquet file"):
        list_inputs(_source(tmp_path, format="parquet"))


def test_nothing_of_a_known_format(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="none of its 0 files"):
        list_inputs(_source(tmp_path))
    _write(tmp_path, "a.csv")
    with pytest.raises(InputError, match=r"1 file \(a.csv\) has the suffix of a supported"):
        list_inputs(_source(tmp_path))


def test_one_file(tmp_path: Path) -> None:
    _write(tmp_path, "a.jsonl", "b.data")
    (file,) = list_inputs(_source(tmp_path / "a.jsonl"))
    assert file.format is InputFormat.JSONL
    (file,) = list_inputs(_source(tmp_path / "b.data", format="text"))
    assert file.format is InputFormat.TEXT
    with pytest.raises(InputError, match="its name does not indicate a supported format"):
        list_inputs(_source(tmp_path / "b.data"))
    with pytest.raises(InputError, match="Remove files, or set from to the directory"):
        list_inputs(_source(tmp_path / "a.jsonl", files="*"))


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=rf"Check the path; only {tmp_path} exists"):
        list_inputs(_source(tmp_path / "nothing/here"))
    with pytest.raises(InputError, match="Move the glob to 'files'"):
        list_inputs(_source(tmp_path / "*.jsonl"))


def test_links_are_followed_and_loops_are_not(tmp_path: Path) -> None:
    _write(tmp_path / "disk", "sub/a.jsonl")
    (tmp_path / "disk/sub/loop").symlink_to(tmp_path / "disk")
    (tmp_path / "corpus").symlink_to(tmp_path / "disk")
    (tmp_path / "disk/b.jsonl").symlink_to("sub/a.jsonl")
    assert _paths(tmp_path / "corpus") == ["b.jsonl", "sub/a.jsonl"]
    (tmp_path / "disk/c.jsonl").symlink_to("nowhere")
    with pytest.raises(InputError, match=r"c.jsonl: broken link"):
        list_inputs(_source(tmp_path / "corpus"))


@pytest.mark.parametrize("target", ["private/key.txt", "private", "corpus-2/a.txt"])
def test_a_link_out_of_the_corpus_is_refused(tmp_path: Path, target: str) -> None:
    _write(tmp_path, "corpus/a.txt", "private/key.txt", "corpus-2/a.txt")
    (tmp_path / "corpus/b.txt").symlink_to(tmp_path / target)
    with pytest.raises(InputError) as caught:
        list_inputs(_source(tmp_path / "corpus"))
    said = str(caught.value)
    assert f"b.txt: links to {tmp_path / target}, outside of the corpus" in said
    assert "separate source" in said
    assert list_inputs(_source(tmp_path / "corpus/b.txt" if target != "private" else tmp_path))


def test_a_link_to_a_link_out_of_the_corpus_is_refused(tmp_path: Path) -> None:
    _write(tmp_path, "corpus/sub/a.txt", "private/key.txt")
    (tmp_path / "corpus/sub/up").symlink_to("..")
    (tmp_path / "corpus/b.txt").symlink_to("sub/up/../private/key.txt")
    with pytest.raises(InputError, match=r"b.txt: links to .*private/key.txt, outside"):
        list_inputs(_source(tmp_path / "corpus"))


@pytest.mark.parametrize("was_link", [False, True])
def test_a_file_that_becomes_another_link_is_not_read(tmp_path: Path, was_link: bool) -> None:
    """Size and time can be forged; where a name leads to cannot."""
    _write(tmp_path, "corpus/sub/a.txt", "private/key.txt")
    place = tmp_path / "corpus/a.txt"
    if was_link:
        place.symlink_to("sub/a.txt")
    else:
        _write(tmp_path, "corpus/a.txt")
    (listed,) = [
        file for file in list_inputs(_source(tmp_path / "corpus")) if file.address == str(place)
    ]
    with open_input(listed) as stream:
        assert stream.read()
    status = place.stat()
    place.unlink()
    place.symlink_to(tmp_path / "private/key.txt")
    os.truncate(place, status.st_size)
    os.utime(place, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(InputError):
        open_input(listed)


def test_a_pipe_in_the_place_of_a_file_does_not_block(tmp_path: Path) -> None:
    _write(tmp_path, "corpus/a.txt")
    (listed,) = list_inputs(_source(tmp_path / "corpus"))
    (tmp_path / "corpus/a.txt").unlink()
    os.mkfifo(tmp_path / "corpus/a.txt")
    with pytest.raises(InputError):
        open_input(listed)


def test_a_snapshot_in_the_cache_of_the_hub_is_read(tmp_path: Path) -> None:
    _write(tmp_path, "datasets--o--n/blobs/0a1b", "private/key.txt")
    snapshot = tmp_path / "datasets--o--n/snapshots/main"
    snapshot.mkdir(parents=True)
    (snapshot / "a.jsonl").symlink_to("../../blobs/0a1b")
    assert _paths(snapshot) == ["a.jsonl"]
    (snapshot / "b.jsonl").symlink_to("../../../private/key.txt")
    with pytest.raises(InputError, match=r"b.jsonl: links to"):
        list_inputs(_source(snapshot))


@pytest.mark.parametrize("place", ["home/snapshots/corpus", "datasets--o--n/old/snapshots/main"])
def test_blobs_beside_other_snapshots_are_outside_of_the_corpus(tmp_path: Path, place: str) -> None:
    corpus = tmp_path / place
    blobs = corpus.parents[1] / "blobs"
    corpus.mkdir(parents=True)
    _write(blobs, "0a1b")
    (corpus / "a.jsonl").symlink_to(blobs / "0a1b")
    with pytest.raises(InputError, match=r"a.jsonl: links to"):
        list_inputs(_source(corpus))


def test_samples_are_spread_evenly(tmp_path: Path) -> None:
    files = [InputFile(f"/{n}", n, "", InputFormat.JSONL) for n in range(10)]
    assert [file.size for file in spread(files, 5)] == [1, 3, 5, 7, 9]
    assert [file.size for file in spread(files, 3)] == [1, 5, 8]
    assert [file.size for file in spread(files, 1)] == [5]
    assert spread(files, 10) == spread(files, 99) == spread(files, None) == files
    _write(tmp_path, *[f"{n}.txt" for n in range(9)])
    assert _paths(tmp_path, sample_files=3) == ["1.txt", "4.txt", "7.txt"]


def test_reading(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(bytes(range(256)) * 10_000)
    (file,) = list_inputs(_source(tmp_path))
    with open_input(file) as stream:
        assert stream.read(3) == bytes(range(3))
        assert len(stream.read()) == 2_560_000 - 3
        stream.seek(255)
        assert stream.read(2) == b"\xff\x00"


@pytest.mark.parametrize("data", [b"longer than before", b"other"])
def test_a_changed_file_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"first")
    os.utime(path, ns=(1, 1))
    (file,) = list_inputs(_source(tmp_path))
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"changed since .* prepare the data from scratch"):
        open_input(file)


def test_a_change_while_reading_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(bytes(3_000_000))
    (file,) = list_inputs(_source(tmp_path))
    with open_input(file) as stream:
        stream.read(10)
        with path.open("ab") as more:
            more.write(b"more")
        with pytest.raises(InputError, match="changed since"):
            stream.read()


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    _write(tmp_path, "a.txt")
    (file,) = list_inputs(_source(tmp_path))
    (tmp_path / "a.txt").unlink()
    with pytest.raises(InputError, match="it existed when the inputs were listed"):
        open_input(file)


@pytest.mark.parametrize(
    ("address", "place"),
    [
        ("hf://datasets/a/b@v1", HubPlace("a/b", "v1", "")),
        ("hf://datasets/a/b@v1/c/d.jsonl", HubPlace("a/b", "v1", "c/d.jsonl")),
        ("hf://datasets/a/b/c/d@e", HubPlace("a/b", "main", "c/d@e")),
        ("hf://datasets/squad", HubPlace("squad", "main", "")),
        ("hf://datasets/squad@v1/x", HubPlace("squad", "v1", "x")),
        ("hf://datasets/a/b@refs%2Fpr%2F1/x", HubPlace("a/b", "refs/pr/1", "x")),
        ("hf://datasets/a/b@refs/convert/parquet", HubPlace("a/b", "refs/convert/parquet", "")),
        ("hf://datasets/a/b@main/", HubPlace("a/b", "main", "")),
    ],
)
def test_addresses_of_the_hub(address: str, place: HubPlace) -> None:
    assert HubPlace.parse(address) == place
    assert HubPlace.parse(str(place)) == place


@pytest.mark.parametrize(
    "address", ["hf://gpt2", "hf://a/b@c", "hf://datasets/", "hf://spaces/a/b"]
)
def test_other_addresses_of_the_hub(address: str) -> None:
    with pytest.raises(InputError, match="hf://datasets/OWNER/NAME@REVISION"):
        HubPlace.parse(address)


@pytest.mark.parametrize("address", ["hf://datasets/a/b", "s3://b/x", "abfs://b/x", "gs://b/x"])
def test_a_missing_extra_is_named(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("huggingface_hub", "s3fs", "adlfs", "gcsfs", "gcsfs.core"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError, match=r"pip install '\.\[data\]'"):
        list_inputs(_source(address))


def test_a_corpus_list_names_files_and_directories(tmp_path: Path) -> None:
    _write(tmp_path, "lists/near.jsonl", "up.jsonl.xz", "dir/b.tar", "dir/a.tar", "dir/README")
    away = tmp_path / "away.txt"
    away.write_text("x")
    listing = tmp_path / "lists" / "corpus.list"
    listing.write_text(f"\ufeff# the corpus\nnear.jsonl\r\n\n  ../up.jsonl.xz \n../dir\n{away}\n")
    files = list_inputs(_source(listing))
    assert [os.path.relpath(file.address, tmp_path) for file in files] == [
        "away.txt", "dir/a.tar", "dir/b.tar", "lists/near.jsonl", "up.jsonl.xz"
    ]  # fmt: skip
    kinds = [InputFormat.TEXT, *[InputFormat.TAR] * 2, *[InputFormat.JSONL] * 2]
    assert [file.format for file in files] == kinds
    assert len(list_inputs(_source(listing, sample_files=2))) == 2
    assert list_corpus(str(listing)).files[0].path == str(tmp_path / "lists/near.jsonl")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the corpus list has no entries"),
        ("# only a comment\n", "the corpus list has no entries"),
        ("a.jsonl\nmissing.jsonl\n", r"corpus.list:2: .*missing.jsonl: No such file"),
        ("a.jsonl\n./a.jsonl\n", "corpus.list:2: .*a.jsonl is already listed on line 1"),
        ("a.jsonl\n.\n", "corpus.list:2: .*a.jsonl is already listed on line 1"),
        ("other.list\n", "corpus.list:1: other.list is a corpus list, and a list cannot contain"),
        ("\nb.data\n", "corpus.list:2: .*b.data: its name does not indicate a supported format"),
        ("https://x.example/a.jsonl\n", "corpus.list:1: .*copy the files to a path"),
        ("~/a.jsonl\n", "corpus.list:1: .*home directory"),
        ("hf_" + "a1B2c3D4e5" * 4 + "\n", "corpus.list:1: looks like a secret"),
    ],
)
def test_a_bad_entry_of_a_corpus_list_is_named_with_its_line(
    tmp_path: Path, text: str, said: str
) -> None:
    _write(tmp_path, "a.jsonl", "b.data", "other.list")
    (tmp_path / "corpus.list").write_text(text)
    with pytest.raises(InputError, match=said):
        list_inputs(_source(tmp_path / "corpus.list"))


def test_what_a_corpus_list_cannot_be(tmp_path: Path) -> None:
    _write(tmp_path, "a.jsonl")
    listing = tmp_path / "corpus.list"
    listing.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="is not UTF-8 text"):
        list_inputs(_source(listing))
    listing.write_text("a.jsonl\n")
    with pytest.raises(InputError, match=r"names its files\. Remove files"):
        list_inputs(_source(listing, files="*.jsonl"))
    with pytest.raises(InputError, match="the output location is the same as the input"):
        list_inputs(_source(listing), output=str(tmp_path / "a.jsonl"))
    # A list is not followed unless the spec names it.
    assert _paths(tmp_path) == ["a.jsonl"]


def test_names_of_a_list_in_an_object_store_are_relative_to_it() -> None:
    (entry,) = [access._entry("s3://bucket/dir/corpus.list", 1, "../x/a.jsonl")]
    assert entry.address == "s3://bucket/x/a.jsonl"
    hub = access._entry("hf://datasets/o/n@main/corpus.list", 1, "en/a.jsonl")
    assert hub.address == "hf://datasets/o/n@main/en/a.jsonl"


def test_text_can_be_read_by_lines_or_paragraphs(tmp_path: Path) -> None:
    _write(tmp_path, "a.txt", "b.jsonl")
    for format_ in ("text-lines", "text-paragraphs"):
        (file,) = list_inputs(_source(tmp_path, format=format_))
        assert (Path(file.address).name, str(file.format)) == ("a.txt", format_)
