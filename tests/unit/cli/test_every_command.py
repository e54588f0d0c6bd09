# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Every command as its users meet it: narrow, piped, interrupted, without room, rights or network.

Whatever happens, a user reads a sentence: no traceback, and no talk of a defect.
"""

import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import pytest

from seatrial.cli.main import COMMANDS
from seatrial.errors import ExitCode
from tests.unit.cli.every_command import (
    CALLS,
    DOCUMENTS,
    NEEDS_MORE,
    TAKES_SPEC,
    furnish,
    leaves,
    refurnish,
)
from tests.unit.cli.forking import ROOT, Answer, Call, Forker

NARROW = 80
WHOLE = ("seatrial: ", "error ", "warning ", "note ")
EXPECTED = {int(code) for code in ExitCode} - {ExitCode.INTERNAL}
LOCALES = {
    "C": {"LC_ALL": "C"},
    # What Python makes of a locale without UTF-8, such as de_DE@euro, wherever such is installed.
    "no utf-8": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
}
COLOUR = re.compile(r"\x1b\[")


def make_directory(file: Path) -> None:
    file.unlink()
    file.mkdir()


BROKEN_SPECS: dict[str, Callable[[Path], object]] = {
    "absent": lambda file: file.unlink(),
    "a directory": lambda file: make_directory(file),
    "without rights": lambda file: file.chmod(0),
    "empty": lambda file: file.write_bytes(b""),
    "binary": lambda file: file.write_bytes(bytes(range(256)) * 64),
    "huge": lambda file: file.write_bytes(b"name: a\n" * (1 << 20)),
    "a list": lambda file: file.write_text("- name: a\n"),
    "nested": lambda file: file.write_text("a: " + "[" * 5000 + "]" * 5000),
    "cut off": lambda file: file.write_bytes(file.read_bytes()[:117]),
}

Ask = Callable[..., Answer]


@pytest.fixture(scope="module")
def forker() -> Iterator[Forker]:
    with Forker(base()) as found:
        yield found


@pytest.fixture(scope="module", params=LOCALES.values(), ids=list(LOCALES))
def foreign(request: pytest.FixtureRequest) -> Iterator[Forker]:
    with Forker(base() | request.param) as found:
        yield found


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("template")
    furnish(directory)
    return directory


@pytest.fixture
def place(template: Path, tmp_path: Path) -> Iterator[Path]:
    refurnish(template, tmp_path)
    yield tmp_path
    for path in (tmp_path, *tmp_path.rglob("*")):
        if path.is_dir():
            path.chmod(0o755)


def base(home: Path | str = "/nonexistent") -> dict[str, str]:
    """The variables of a user who has set none."""
    return {"PATH": os.environ["PATH"], "HOME": str(home), "TERM": "xterm-256color"}


def call(name: str, place: Path, **surroundings: object) -> Call:
    """The usual call of a command."""
    variables = base(place) | {
        "COLUMNS": str(NARROW),
        "PYTHONPATH": str(ROOT / "src"),
    }
    words = (*name.split(), *CALLS[name])
    return Call(words, str(place), variables, **surroundings)  # type: ignore[arg-type]


def agreeable(answer: Answer) -> Answer:
    """An answer that no user would take for a crash."""
    assert "Traceback" not in answer.said, answer.said
    assert "defect of Seatrial" not in answer.said, answer.said
    assert answer.code in EXPECTED, (answer.code, answer.said)
    # Between two calls of typer, Ctrl-C ends a command without a word.
    if answer.code not in (ExitCode.OK, ExitCode.INTERRUPTED):
        assert answer.err.strip() or answer.out.strip()
    return answer


def too_wide(text: str) -> list[str]:
    """The lines that are broken by a narrow terminal, though there was a place to break them.

    What ends a command, and where a finding is, stays in one line: a command or a path in it can
    then be copied.
    """
    return [
        line
        for line in text.splitlines()
        if not line.startswith(WHOLE)
        and len(line) > NARROW
        and len(line.rpartition(" ")[0].strip()) > NARROW
    ]


def test_every_command_has_a_call() -> None:
    assert {name for name, _ in leaves()} == set(CALLS)


@pytest.mark.parametrize("name", [*COMMANDS, *CALLS])
def test_help_begins_with_a_sentence_and_fits(forker: Forker, name: str, tmp_path: Path) -> None:
    words = (*name.split(), "--help")
    variables = base(tmp_path) | {"COLUMNS": str(NARROW)}
    answer = agreeable(forker(Call(words, str(tmp_path), variables)))
    assert answer.code == 0
    usage, _, rest = answer.out.partition("\n\n")
    assert usage.startswith(f"Usage: seatrial {name}")
    first = " ".join(rest.partition("\n\n")[0].split())
    assert re.match(r"[A-Z].*\.$", first), first
    assert [line for line in answer.out.splitlines() if len(line) > NARROW] == []
    assert not COLOUR.search(answer.said)


@pytest.mark.parametrize("name", CALLS)
def test_an_answer_fits_is_plain_and_names_the_next_step(
    forker: Forker, name: str, place: Path
) -> None:
    answer = agreeable(forker(call(name, place, has_network=False)))
    assert (answer.code == 0) == (name not in NEEDS_MORE), answer.said
    assert not COLOUR.search(answer.said)
    if name in DOCUMENTS:
        return
    assert too_wide(answer.said) == []
    if answer.code == 0:
        ending = " ".join(answer.out.splitlines()[-4:])
        named = re.findall(r"seatrial ([a-z]+)", ending)
        assert "next" in ending or set(named) & set(COMMANDS), answer.out


@pytest.mark.parametrize("name", CALLS)
def test_a_full_disk_is_said(forker: Forker, name: str, place: Path) -> None:
    answer = agreeable(forker(call(name, place, largest_file=0, has_network=False)))
    if name in ("init", "recipes copy", "report", "data prepare"):
        assert answer.code != 0
        assert "File too large" in answer.err


@pytest.mark.parametrize("name", CALLS)
def test_directories_that_cannot_be_written_are_said(
    forker: Forker, name: str, place: Path
) -> None:
    for path in (*place.rglob("*"), place):
        if path.is_dir():
            path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    answer = agreeable(forker(call(name, place, obeys_modes=True, has_network=False)))
    if name in ("init", "recipes copy", "report", "data prepare"):
        assert answer.code != 0
        assert "Permission denied" in answer.err


@pytest.mark.parametrize("name", CALLS)
def test_a_locale_without_utf_8_is_enough(foreign: Forker, name: str, place: Path) -> None:
    agreeable(foreign(call(name, place, has_network=False)))


@pytest.mark.parametrize("after", [0.01, 0.2])
@pytest.mark.parametrize("name", CALLS)
def test_an_interrupt_ends_in_a_word(forker: Forker, name: str, place: Path, after: float) -> None:
    answer = agreeable(forker(call(name, place, interrupted_after=after, has_network=False)))
    if answer.code == ExitCode.INTERRUPTED and answer.err:
        assert "Stopped" in answer.err


@pytest.mark.parametrize(
    ("name", "how"),
    # `spec upgrade` looks at the format only, and half a spec has one.
    [pair for pair in product(TAKES_SPEC, BROKEN_SPECS) if pair != ("spec upgrade", "cut off")],
)
def test_a_spec_that_is_none_is_refused_with_its_name(
    forker: Forker, name: str, place: Path, how: str
) -> None:
    file = CALLS[name][0]
    BROKEN_SPECS[how](place / file)
    answer = agreeable(forker(call(name, place, obeys_modes=True, has_network=False)))
    assert answer.code != 0
    assert file in answer.said


def test_an_interrupt_while_commands_are_loaded_shows_no_traceback(tmp_path: Path) -> None:
    script = (
        "import sys, runpy\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'typer':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "sys.argv = ['seatrial', '--version']\n"
        "runpy.run_module('seatrial', run_name='__main__')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=base() | {"PYTHONPATH": str(ROOT / "src")},
    )
    assert (done.returncode, done.stderr) == (130, "")
