# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Ranks load the data set's copy of the tokenizer, and none of them asks the Hub."""

import ast
import json
import os
import subprocess
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from seatrial.dataprep.output.tokenizer_copy import verified_copy
from seatrial.dataprep.prepare import prepare
from seatrial.engine_process.process import worker_python
from seatrial.sdk.plan import plan
from tests.conftest import MEGATRON
from tests.unit.dataprep.little_corpus import InlineDriver, write_corpus

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
RANKS = 4
NAMED = "acme/tokenizer"
LOAD = f"""
from argparse import Namespace
from transformers import AutoTokenizer
from seatrial.worker.megatron.cpu.runtime import install
install()
from seatrial.engines.megatron.checkpoints import _tokenizer
from seatrial.worker.megatron.gpt import known_by_commit, pin_tokenizer
from seatrial.worker.settings import settings
chosen = settings()
told = Namespace(tokenizer_type="HuggingFaceTokenizer", tokenizer_model="{NAMED}")
told = pin_tokenizer(told, chosen.tokenizer_revision, chosen.tokenizer)
loaded = AutoTokenizer.from_pretrained(told.tokenizer_model)
named = known_by_commit(Namespace(path=told.tokenizer_model)).path
print([len(loaded("the ship leaves port").input_ids), named, _tokenizer(vars(told))])
"""


@pytest.fixture
def hub() -> Iterator[tuple[str, list[str]]]:
    """A stand-in for the Hub that has nothing, and notes what it is asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        def do_HEAD(self) -> None:
            self.do_GET()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    server.server_close()


def _start(variables: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [worker_python(MEGATRON), "-c", LOAD],
        env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONWARNINGS": "ignore"} | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_no_rank_asks_the_hub(tmp_path: Path, hub: tuple[str, list[str]]) -> None:
    spec = write_corpus(tmp_path, sources=1)
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|endoftext|>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    prepare(plan(spec), InlineDriver())
    copy = verified_copy(str(tmp_path / "out"), tmp_path)
    assert copy is not None
    address, asked = hub
    own = {"HF_ENDPOINT": address, "HF_HOME": str(tmp_path / "hub")}
    variables = own | {"SEATRIAL_TOKENIZER_REVISION": "main"} | copy.variables()
    ranks = [_start(variables) for _ in range(RANKS)]
    for rank in ranks:
        out, error = rank.communicate()
        assert rank.returncode == 0, error[-2000:]
        tokens, cache_name, recorded = ast.literal_eval(out.strip().splitlines()[-1])
        assert tokens > 0
        assert cache_name == copy.digest
        assert recorded == f"HuggingFaceTokenizer {NAMED}"
    assert asked == []
    # Without the copy, a rank asks, so the stand-in does notice.
    without = _start(own)
    without.communicate()
    assert without.returncode != 0
    assert asked
