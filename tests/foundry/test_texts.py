# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""LLM Foundry's own reader of settings gives texts back as they were."""

import json
import subprocess

import pytest

from seatrial.engines.llm_foundry.settings import settings_words
from tests.attack.hostile_specs import UNUSABLE, make_texts

pytestmark = pytest.mark.engine

READER = """
import json, sys
from omegaconf import OmegaConf
for words in json.load(sys.stdin):
    print(json.dumps(OmegaConf.to_container(OmegaConf.from_cli(words), resolve=True)))
"""


def test_texts_survive_omegaconf(foundry_python: str) -> None:
    # The others are refused before: tests/unit/engines/test_texts_of_arguments.py and the spec's.
    texts = [
        text
        for text in make_texts(2000, seed=7)
        if "${" not in text and not any(map(text.__contains__, UNUSABLE))
    ]
    words = [settings_words({"loggers.wandb.project": text, "a.b": (text, 1)}) for text in texts]
    done = subprocess.run(
        [foundry_python, "-c", READER],
        input=json.dumps(words),
        capture_output=True,
        text=True,
        check=True,
    )
    read = [json.loads(line) for line in done.stdout.splitlines()]
    assert read == [{"loggers": {"wandb": {"project": t}}, "a": {"b": [t, 1]}} for t in texts]
