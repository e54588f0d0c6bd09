# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""LLM Foundry loads the tokenizer and a Hub model's configuration from the data set's copy."""

import ast
import os
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.engine

ROOT = Path(__file__).parents[2]
SCRIPT = """
import sys
from seatrial.worker.llm_foundry import settings
words = ["tokenizer.name=acme/llama", "tokenizer.kwargs.revision=abc", "max_seq_len=8", "seed=1",
         "tokenizer.kwargs.model_max_length=8", "model.pretrained_model_name_or_path=acme/llama"]
configured, _ = settings.read(words)
settings.use_copy(configured, sys.argv[1])
print([configured.tokenizer.name, dict(configured.tokenizer.kwargs),
       configured.model.pretrained_model_name_or_path])
"""


@pytest.mark.parametrize("has_config", [True, False])
def test_the_copy_replaces_the_name(foundry_python: str, tmp_path: Path, has_config: bool) -> None:
    copy = str(tmp_path)
    if has_config:
        (tmp_path / "config.json").write_text("{}")
    done = subprocess.run(
        [foundry_python, "-c", SCRIPT, copy],
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ast.literal_eval(done.stdout) == [
        copy,
        {"model_max_length": 8},
        copy if has_config else "acme/llama",
    ]
