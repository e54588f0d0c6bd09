# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Random values of every token format in all that Seatrial reads, and what of them comes out."""

import csv
import os
import random
import sys
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from string import ascii_lowercase
from urllib.parse import quote

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.catalog.entry import Kind
from seatrial.monitoring.logs.reading import whole_lines
from seatrial.secrets.formats import FORMATS, Format
from seatrial.secrets.redaction import LineRedactor, looks_secret, redact, redact_tree
from tests.attack.outputs import OUTPUTS, SHOW_FEW
from tests.secret_values import random_value
from tests.unit.cli.forking import Forker

pytestmark = [pytest.mark.attack, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def forker() -> Iterator[Forker]:
    with Forker({**os.environ, "NO_COLOR": "1"}) as found:
        yield found


def _told(value: str, text: str) -> bool:
    """Whether a text has the value, or the half of it that is no prefix."""
    return value in text or value[len(value) // 2 :] in text


@dataclass(frozen=True)
class Drawn:
    """A text that holds a secret."""

    kind: str
    """A token's issuer, or how the text tells that it holds a secret."""
    text: str
    parts: tuple[str, ...]
    """What must not be shown."""

    def is_told(self, text: str) -> bool:
        return any(_told(part, text) for part in self.parts)


ASSIGNMENTS = (
    *("HF_TOKEN={}", "export DB_PASSWORD='{}'", "client_secret: {}", '"password": "{}"'),
    *("--password {}", "--password={}", "--api-key {}", "login --token {}", "['--token', '{}']"),
    *(
        "curl -u me:{} https://h",
        "['curl', '-u', 'me:{}']",
        '{{"name": "HF_TOKEN", "value": "{}"}}',
    ),
    *("Authorization: Basic {}", "x-api-key: {}", "Cookie: session={}", "https://me:{}@h/x"),
)
KEYS = ("PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY", "OPENSSH PRIVATE KEY")


def _drawn(seed: int) -> list[Drawn]:
    """Tokens of all formats, assignments of passwords without a format, and private keys."""
    chance = random.Random(seed)  # noqa: S311
    tokens = [(form.issuer, random_value(form, seed)) for form in FORMATS]
    found = [Drawn(issuer, value, (value,)) for issuer, value in tokens]
    for form in ASSIGNMENTS:
        secret = "".join(chance.choices(ascii_lowercase, k=11)) + f"{chance.randrange(100):02}"
        found.append(Drawn(form, form.format(secret), (secret,)))
    for kind in KEYS:
        width = 70 if "OPENSSH" in kind else 64
        body = b64encode(chance.randbytes(400)).decode()
        lines = [body[place : place + width] for place in range(0, len(body), width)]
        text = "\n".join([f"-----BEGIN {kind}-----", *lines, f"-----END {kind}-----"])
        found.append(Drawn(kind, text, tuple(lines)))
    return found


def test_no_format_reaches_an_output(
    forker: Forker,
    tmp_path: Path,
    attack_size: Callable[[int, int], int],
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> None:
    """All together, and each of them alone too; in the short form, of the tokens none alone.

    Of all together some outputs show a few; alone, each is shown.
    """
    monkeypatch.setattr(sys, "argv", ["seatrial"])
    every = _drawn(0)
    alone = _drawn(1)[attack_size(0, len(every) - 4) :]
    groups = [every, *([each] for each in alone)]
    leaked = []
    for number, group in enumerate(groups):
        values = [each.text for each in group]
        for output in OUTPUTS if len(group) > 1 else SHOW_FEW:
            home = tmp_path / f"{number}-{output.__name__}"
            home.mkdir()
            monkeypatch.setenv("TMPDIR", str(home))
            monkeypatch.setattr("tempfile.tempdir", None)
            text = output(forker, home, values)
            captured = capfd.readouterr()
            text += captured.out + captured.err
            leaked += [
                (each.kind, output.__name__, each.text) for each in group if each.is_told(text)
            ]
    assert leaked == []
    record_property(
        "figure",
        f"{len(FORMATS)} token formats, {len(ASSIGNMENTS)} assignments and {len(KEYS)} kinds of "
        f"private keys: 0 leaked in {len(OUTPUTS)} outputs",
    )


SURROUNDINGS = (
    *("{}", "x {} y", "({})", "'{}',", '{{"a": "{}"}}', '{{\\"a\\": \\"{}\\"}}', "a\\n{}\\nb"),
    *("\x1b[1;31m{}\x1b[0m", "\\u001b[31m{}\\u001b[0m", "https://h/x?q={}&b=1", "q%3D{}%26b"),
    *("HF_TOKEN={}", "Authorization: Bearer {}", "https://u:{}@h/x", "[rank3]:KeyError: '{}'"),
    *("  File \"x.py\", line 1\n    login(token='{}')\nValueError: {}", "<td>{}</td>"),
    *("No such option: --{}", "-{}", "__{}__", "#{}", "@{}", "={}", "/{}/x", "|{}|", "${{{}}}"),
)


def _variants(value: str) -> Iterator[str]:
    """The value as programs write it; what does not change it stands once."""
    half = len(value) // 2
    coloured = f"{value[:half]}\x1b[0m\x1b[7m{value[half:]}"
    yield from dict.fromkeys([value, quote(value, safe=""), value.replace("/", "\\/"), coloured])


def test_no_format_stays_in_a_text(
    attack_size: Callable[[int, int], int], record_property: Callable[[str, object], None]
) -> None:
    texts = 0
    leaked = []
    for form in FORMATS:
        for seed in range(attack_size(30, 2)):
            value = random_value(form, seed)
            for text in _texts(value):
                texts += 1
                plain = redact(text)
                if _told(value, plain) or redact(plain) != plain:
                    leaked.append((form.issuer, text, plain))
            for text in (value, value.upper(), value.lower()):
                # Another case is no longer the token, but may be turned back.
                if any(char.isdigit() for char in text[4:]) and not looks_secret(text):
                    leaked.append((form.issuer, text, ""))
            leaked += _cut_in_pieces(form, value)
    assert leaked == []
    record_property("figure", f"{len(FORMATS)} token formats: 0 left in {texts:,} texts")


def _texts(value: str) -> Iterator[str]:
    for shape in _variants(value):
        for around in SURROUNDINGS:
            yield around.format(*[shape] * around.count("{}"))


def _cut_in_pieces(form: Format, value: str) -> list[tuple[str, str, str]]:
    """Read a log whose chunks end in the middle of the value."""

    class Pieces(BytesIO):
        def read1(self, size: int | None = -1, /) -> bytes:
            return super().read(7)

    redactor = LineRedactor()
    read = b"".join(whole_lines(Pieces(f"before\nlogin {value} failed\nafter\n".encode())))
    shown = "\n".join(redactor(line) for line in read.decode().split("\n"))
    return [(form.issuer, value, shown)] if _told(value, shown) else []


HOSTILE = (
    *("://a:", "://", "https://a", "-eyJ", "eyJaaaaaaaaaaa.", "token=", "token=a;", "_pat=", "key"),
    *("password='", "-----BEGIN PRIVATE KEY-----", "bearer aaaaaaa ", "curl -u a:", "secret=\\"),
    *("%252F", "\x1b[", "a", "A1", "Cookie: ", "authorization: ", '"auth": "', "authorization:"),
)
RUNS = (
    ("token", "\\"),
    ("token", " "),
    ("password=", "'a"),
    ("cookie: a=", "="),
    ("http://a:", "@"),
)


def _seconds(text: str) -> float:
    began = time.process_time()
    redact(text)
    return time.process_time() - began


def _best_seconds(text: str) -> float:
    """A busy machine can slow down one measurement."""
    return min(_seconds(text) for _ in range(3))


MEASURABLE = 0.2
"""Seconds above which times are compared."""


def test_hostile_text_takes_linear_time(
    attack_size: Callable[[int, int], int], record_property: Callable[[str, object], None]
) -> None:
    size = attack_size(1_000_000, 30_000)
    pieces = (*HOSTILE, *(form.anchor for form in FORMATS[:: attack_size(1, 10)]))
    heads = [("", piece) for piece in pieces] + list(RUNS)
    slowest = 0.0
    for head, piece in heads:
        half, whole = (head + (piece * length)[:length] for length in (size // 2, size))
        seconds = _seconds(whole)
        slowest = max(slowest, seconds)
        # Twice the text takes twice the time; what is short cannot be measured.
        if seconds >= MEASURABLE:
            assert _best_seconds(whole) < 3 * _best_seconds(half), (head, piece)
    rate = size / slowest / 1e6
    record_property(
        "figure", f"{len(heads)} hostile texts of {size:,} characters: {rate:.1f} MB/s at worst"
    )


# What is no secret.


def _spec_texts() -> Iterator[tuple[str, str]]:
    """The texts of specs, of pages and of manifests that tests hold."""
    for recipe in sorted((files("seatrial.recipes") / "data").iterdir(), key=str):
        yield recipe.name, recipe.read_text(encoding="utf-8")
    for pattern in (
        "docs/**/*.md",
        "tests/golden/**/*",
        "README.md",
        "tests/data/logs/*",
        "tests/data/failures/**/*",
    ):
        for path in sorted(ROOT.glob(pattern)):
            # The decision about secrets has examples of what is one.
            if path.is_file() and path.suffix not in (".png", ".gz", ".zst"):
                yield (
                    str(path.relative_to(ROOT)),
                    path.read_text(encoding="utf-8", errors="replace"),
                )


def test_nothing_else_is_taken_for_a_secret(
    record_property: Callable[[str, object], None],
) -> None:
    false: list[tuple[object, ...]] = []
    pages = dict(_spec_texts())
    recipes = sum(name.endswith(".yaml") and "/" not in name for name in pages)
    for name, text in pages.items():
        plain = redact(text)
        for old, new in zip(text.splitlines(), plain.splitlines(), strict=False):
            if old != new:
                false.append((name, old, new))
                break
    catalog = Catalog()
    entries = [catalog.entry(kind, name) for kind in Kind for name in catalog.names(kind)]
    for entry in entries:
        told = entry.model_dump(mode="json")
        false += [(told, "")] if redact_tree(told) != told else []
    runs = 0
    for file in sorted((ROOT / "backtest/data").rglob("*.csv")):
        with file.open(encoding="utf-8", newline="") as stream:
            for row in csv.DictReader(stream):
                runs += file.name == "published_runs.csv"
                false += [
                    (file.name, key, cell)
                    for key, cell in row.items()
                    if cell and (looks_secret(cell, key) or redact(cell) != cell)
                ]
    assert false == []
    record_property(
        "figure",
        f"false alarms: 0 in {recipes} recipes, {len(entries)} catalog entries, "
        f"{runs:,} published runs, {len(pages)} pages, manifests and logs",
    )
