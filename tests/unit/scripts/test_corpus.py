# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0

import json
from contextlib import ExitStack
from pathlib import Path

import pytest
import zstandard

from scripts.corpus import packages
from scripts.corpus.documents import (
    documents_of,
    html_sections,
    man_sections,
    plain_sections,
    reader_of,
    text_of,
)
from scripts.corpus.repetition import runs_of
from scripts.make_corpus import Seen, Shards, extract


def test_a_page_is_cut_at_headings_and_loses_what_surrounds_it() -> None:
    page = (
        "<head><title>t</title></head><nav>menu</nav><h1>One</h1><p>A <b>bold</b>\n word &amp; more"
        "<pre>x = 1\n  y</pre><script>no()</script><h2>Two</h2><li>item<li>next"
    )
    assert html_sections(page) == [
        [],
        ["One", "A bold word & more", "x = 1\n  y"],
        ["Two", "item", "next"],
    ]


def test_a_manual_page_keeps_the_words_of_its_macros() -> None:
    page = (
        ".TH LS 1\n.SH NAME\nls \\- list\n.PP\nUse\n.B \\-a\nfor all.\n"
        '.\\" hidden\n.SH "SEE ALSO"\nx'
    )
    assert man_sections(page) == [[], ["NAME ls - list", "Use -a for all."], ["SEE ALSO x"]]


def test_plain_text_is_cut_at_blank_lines() -> None:
    assert plain_sections("a\nb\r\n\r\n\n  c\n") == [["a\nb"], ["  c"]]


def test_sections_are_put_together_until_they_are_long_enough() -> None:
    sections = [["aaaa"], ["bb", "cc"], [], ["d"]]
    assert list(documents_of(sections, 6)) == [["aaaa", "bb", "cc"], ["d"]]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("./usr/share/man/de/man1/ls.1.gz", man_sections),
        ("./usr/share/doc/x/a.html", html_sections),
        ("./usr/share/doc/x/a.txt.gz", plain_sections),
        ("./usr/share/doc/x/genindex.html", None),
        ("./usr/share/doc/x/picture.png", None),
    ],
)
def test_readers_go_by_the_path(path: str, kind: object) -> None:
    assert reader_of(path) is kind


def test_what_is_not_utf8_is_latin1() -> None:
    assert text_of("a.txt", b"\xe9t\xe9") == "été"


def test_a_long_paragraph_comes_once_however_it_is_broken() -> None:
    seen = Seen()
    long = "word " * 20
    assert list(seen.new([long, "short"])) == [long, "short"]
    assert list(seen.new([long.replace(" ", "\n"), "short"])) == ["short"]


def test_documents_go_to_the_shards_in_turn(tmp_path: Path) -> None:
    with ExitStack() as stack:
        shards = Shards(tmp_path / "part", 2, stack)
        for text in ("a", "ü", "c"):
            shards.write(text, "books")
    with zstandard.open(tmp_path / "part/00000.jsonl.zst", "rt", encoding="utf-8") as lines:
        documents = [json.loads(line) for line in lines]
    assert [document["text"] for document in documents] == ["a", "c"]
    assert documents[0]["meta"] == {"redpajama_set_name": "books"}
    assert shards.summary()["text_bytes"] == 4


def test_the_same_run_of_words_is_looked_at_wherever_it_stands() -> None:
    text = " ".join(f"word{number}" for number in range(2000))
    runs = runs_of(text)
    assert runs
    assert set(runs) <= set(runs_of(f"Something else before, {text.upper()} and after."))


def test_beside_pages_other_forms_of_the_text_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = "the same text in another form " * 100
    content = [("./doc/a.html", f"<p>{long}"), ("./doc/a.md.gz", ""), ("./doc/a.txt", long)]
    pages = [(path, text.encode()) for path, text in content]
    monkeypatch.setattr(packages, "names", lambda _: [path for path, _ in pages])
    monkeypatch.setattr(packages, "files", lambda _: iter(pages))
    extract(tmp_path / "x.deb", r"\Z\A", tmp_path / "x.zst")
    with zstandard.open(tmp_path / "x.zst", "rt", encoding="utf-8") as lines:
        assert [json.loads(line) for line in lines] == [[long.strip()]]
