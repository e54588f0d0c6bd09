# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What is no text is refused with what to do, and no log is."""

import bz2
import gzip
import io
import lzma
import random
from pathlib import Path

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.errors import UsageError
from seatrial.runs.history.locate import Places, find_history
from seatrial.runs.history.text_guard import refuse_no_text

DATA = Path(__file__).parents[2] / "data"
ENGINE_LOG = DATA / "logs" / "megatron-0.19.log"
LOG = ENGINE_LOG.read_bytes()
NO_TEXT = [
    (gzip.compress(LOG), "Decompress it with gunzip"),
    (bz2.compress(LOG), "Decompress it with bunzip2"),
    (lzma.compress(LOG), "Decompress it with unxz"),
    (LOG.decode().encode("utf-16"), "iconv -f UTF-16"),
    (LOG.decode().encode("utf-16-le"), "iconv -f UTF-16"),
    (LOG.decode().encode("utf-16-be"), "iconv -f UTF-16"),
    (b"\x7f" + random.Random(8).randbytes(100_000), "not UTF-8 text"),  # noqa: S311
]


@pytest.mark.parametrize(("given", "said"), NO_TEXT)
@pytest.mark.parametrize("live", [True, False])
def test_what_is_no_text_is_refused(tmp_path: Path, given: bytes, said: str, live: bool) -> None:
    file = tmp_path / "run.log"
    file.write_bytes(given)
    for run in (str(file), "-"):
        places = Places(Catalog(), io.BytesIO(given), live=live)
        with pytest.raises(UsageError, match=said):
            list(find_history(run, places).story(follow=live))


@pytest.mark.parametrize(
    "given",
    [
        b"",
        b"\0" * 70_000,
        b"\0" * 5_000 + LOG,
        b"\x1b[31mred\x1b[0m\n",
        "perte élevée à l'étape 3\n".encode("latin-1"),
        "损失\n".encode(),
    ],
)
def test_odd_text_is_text(given: bytes) -> None:
    refuse_no_text("x.log", given[: 2**16])


def test_every_log_of_the_tests_is_text() -> None:
    logs = [path for path in DATA.rglob("*.log") if path.is_file()]
    assert len(logs) > 20
    for path in logs:
        refuse_no_text(str(path), path.read_bytes()[: 2**16])
