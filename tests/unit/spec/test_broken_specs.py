# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Every broken spec in `broken/` gives the findings in the .txt beside it, and no traceback.

A line of a .txt is `LINE:COLUMN CODE FIELD: RULE FIX`. Whoever changes a message reads the
new one as the person who has to act on it, and then edits the .txt by hand.
"""

import os
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial.errors import FindingsError, SeatrialError, UnreadableError
from seatrial.findings import Finding
from seatrial.spec.fields import all_fields
from seatrial.spec.loader import MAX_BYTES, load, loads

HERE = Path(__file__).parent
GOOD = (HERE / "good.yaml").read_text(encoding="utf-8")
BROKEN = sorted((HERE / "broken").glob("*.yaml"))

# Everything in the broken specs that must never appear in a message.
PLANTED = (
    "hf_notARealTokenOnlyATestOfOurs",
    "AKIAIOSFODNN7EXAMPLE",
    "correct-horse",
    "bm90LWEtcmVhbC1zaWduYXR1cmU",
    "0123456789abcdef0123456789abcdef01234567",
    "bm90LWEta2V5LW9ubHktYS10ZXN0LW9mLW91cnM",
    "48151623",
)

BOUNDED = settings(max_examples=300, deadline=None, derandomize=True, database=None)


def findings_of(path: Path) -> tuple[Finding, ...]:
    with pytest.raises((FindingsError, UnreadableError)) as caught:
        load(path)
    if isinstance(caught.value, UnreadableError):
        return (caught.value.finding,)
    assert isinstance(caught.value, FindingsError)
    return caught.value.findings


def rendered(finding: Finding) -> str:
    place = finding.where
    return f"{place.line}:{place.column} {finding.code} {place.field}: {finding.rule} {finding.fix}"


broken_spec = pytest.mark.parametrize("path", BROKEN, ids=[path.stem for path in BROKEN])


@broken_spec
def test_the_findings_are_the_expected_ones(path: Path) -> None:
    expected = path.with_suffix(".txt").read_text(encoding="utf-8").splitlines()
    assert [rendered(finding) for finding in findings_of(path)] == expected


@broken_spec
def test_every_finding_is_complete_and_can_be_printed(path: Path) -> None:
    for finding in findings_of(path):
        assert finding.code.startswith("ST-")
        assert finding.where.file == str(path)
        assert finding.where.line > 0
        assert finding.where.column > 0
        for text in (finding.rule, finding.fix):
            assert text.strip() == text
            assert text.endswith((".", "?"))
        assert finding.one_line().isprintable()
        assert len(finding.one_line()) < 700


@broken_spec
def test_no_finding_repeats_a_secret(path: Path) -> None:
    for finding in findings_of(path):
        shown = f"{finding.to_dict()} {finding.one_line()}"
        assert not [secret for secret in PLANTED if secret in shown]


@broken_spec
def test_it_is_refused_within_two_seconds(path: Path) -> None:
    # Processor time: a busy machine is not a fault of the loader.
    start = time.process_time()
    findings_of(path)
    assert time.process_time() - start < 2


def test_every_planted_secret_is_in_a_broken_spec() -> None:
    everything = b"".join(path.read_bytes() for path in BROKEN if path.stat().st_size < 10_000)
    assert [secret for secret in PLANTED if secret.encode() not in everything] == []


def test_there_are_at_least_sixty_each_with_its_messages() -> None:
    assert len(BROKEN) >= 60
    messages = {path.stem for path in (HERE / "broken").glob("*.txt")}
    assert messages == {path.stem for path in BROKEN}


def test_findings_come_in_the_order_of_the_file() -> None:
    for path in BROKEN:
        places = [(finding.where.line, finding.where.column) for finding in findings_of(path)]
        assert places == sorted(places), path.name


def test_a_yaml_that_asks_for_code_does_not_run_it(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    monkeypatch.setattr(os, "system", ran.append)
    tagged = [path for path in BROKEN if "tag-" in path.name]
    assert tagged
    for path in tagged:
        findings_of(path)
    assert ran == []


@pytest.mark.parametrize("name", ["nested-brackets-1mb", "nested-sections-1mb"])
def test_a_megabyte_of_nesting_is_a_megabyte_and_fits(name: str) -> None:
    (path,) = (path for path in BROKEN if path.stem.endswith(name))
    # Not above the limit, so that it is the depth that is refused.
    assert 0.99 * MAX_BYTES < path.stat().st_size <= MAX_BYTES


def test_a_file_above_a_mebibyte_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(GOOD + "#" * MAX_BYTES, encoding="utf-8")
    (finding,) = findings_of(path)
    assert rendered(finding) == (
        "0:0 ST-YAML-008 : the file is larger than 1 MiB, too large for a spec. Check the path."
    )


def test_an_absent_file_and_a_directory_are_said_to_be_so(tmp_path: Path) -> None:
    (absent,) = findings_of(tmp_path / "run.yaml")
    assert absent.rule == "the file does not exist."
    (directory,) = findings_of(tmp_path)
    assert directory.rule == "the path is a directory."


# ------------------------------------------------------------------ what nobody thought of

PIECES = st.sampled_from(
    [
        *("apiVersion: seatrial.dev/v1alpha1\n", "name: ", "model:", "data:", "sources:", "from: "),
        *(
            "training:",
            "tokens: ",
            "cluster:",
            "env:",
            "secrets:",
            "engine:",
            "options:",
            "split: ",
        ),
        *("dimensions:", "family: llama", "heads: ", "kv_heads: ", "mock: ", "learning_rate:"),
        *(
            "\n",
            "\n",
            "\n  ",
            "\n    ",
            "\n  - ",
            " ",
            "\t",
            "\r\n",
            "\r",
            "\u2028",
            "\x85",
            "\ufeff",
        ),
        *(
            "- ",
            "? ",
            ": ",
            "[",
            "]",
            "{",
            "}",
            ",",
            "'",
            '"',
            "#",
            "|\n",
            ">-\n",
            "---\n",
            "...\n",
        ),
        *(
            "&a ",
            "*a",
            "<<: *a",
            "!x ",
            "!!python/name:os.system ",
            "!<",
            "%YAML 1.1\n",
            "%TAG ! x\n",
        ),
        *("~", "null", "true", "yes", "0", "-1", "1e999", ".nan", ".inf", "0o7", "0x" + "f" * 400),
        *("9" * 400, "150B", "2024-01-01", "1:30", "=", "\\", '"\\ud800"', '"\\0"', "\0", "[key]"),
        *("hf_notARealTokenOnlyATestOfOurs", "https://a:b@c", "🚀", "ключ", "x" * 300),
    ]
)
VALUES = st.sampled_from(
    [
        *(
            "",
            "~",
            "true",
            "no",
            "0",
            "-1",
            "1.5",
            "1e400",
            ".nan",
            "-.inf",
            "9" * 400,
            "0x" + "f" * 999,
        ),
        *("text", '""', '" "', '"8"', "[]", "{}", "[[]]", "[~]", "{a: 1}", "{? [a] : b}", "[{}]"),
        *(
            "auto",
            "latest",
            "150B",
            "2024-01-01",
            "&a 1",
            "*a",
            "!x 1",
            "'",
            "[",
            '"\\ud800"',
            "🚀",
        ),
        *("https://a:b@c", "hf_notARealTokenOnlyATestOfOurs", "'[key]'", '"\\n"', "x" * 300),
    ]
)
PATHS = st.sampled_from([field.name.replace("[]", "[0]") for field in all_fields().values()])


def loads_or_is_refused(text: str, overriding: tuple[str, ...] = ()) -> None:
    """Anything raised that is not a SeatrialError fails the test."""
    try:
        loads(text, "run.yaml", overriding)
    except SeatrialError as error:
        assert_speakable(str(error))


def assert_speakable(message: str) -> None:
    assert message
    assert all(line.isprintable() for line in message.split("\n"))
    assert not [secret for secret in PLANTED if secret in message]


@BOUNDED
@given(st.lists(PIECES, max_size=40).map("".join))
def test_no_text_gives_a_traceback(text: str) -> None:
    loads_or_is_refused(text)


@BOUNDED
@given(st.lists(PIECES, max_size=40).map("".join))
def test_no_text_below_a_good_version_gives_a_traceback(text: str) -> None:
    loads_or_is_refused("apiVersion: seatrial.dev/v1alpha1\n" + text)


@BOUNDED
@given(st.integers(0, len(GOOD)), st.integers(0, 20), PIECES)
def test_no_edit_of_a_good_spec_gives_a_traceback(start: int, length: int, new: str) -> None:
    loads_or_is_refused(GOOD[:start] + new + GOOD[start + length :])


@BOUNDED
@given(st.lists(st.tuples(PATHS, VALUES), min_size=1, max_size=3))
def test_no_value_of_any_field_gives_a_traceback(pairs: list[tuple[str, str]]) -> None:
    loads_or_is_refused(GOOD, tuple(f"{path}={value}" for path, value in pairs))


@BOUNDED
@given(data=st.data())
def test_no_damage_to_the_bytes_gives_a_traceback(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    raw = bytearray(GOOD.encode())
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(raw)))
        removed = data.draw(st.integers(0, 8))
        raw[position : position + removed] = data.draw(st.binary(max_size=8))
    path = tmp_path_factory.getbasetemp() / "damaged.yaml"
    path.write_bytes(raw)
    try:
        load(path)
    except SeatrialError as error:
        assert_speakable(str(error))
