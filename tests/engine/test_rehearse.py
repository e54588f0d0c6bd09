# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The command `seatrial rehearse`, as a user starts it: times, the user's own data, refusals."""

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from seatrial.engine_process.process import worker_python
from tests.conftest import MEGATRON
from tests.engine.conftest import Figure

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Answer:
    code: int
    seconds: float
    text: str

    @property
    def data(self) -> Any:
        return json.loads(self.text)


def rehearse(directory: Path, *words: str) -> Answer:
    """The command in a directory of its own."""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "seatrial", "rehearse", *words],
        cwd=directory,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    return Answer(done.returncode, time.monotonic() - began, done.stdout or done.stderr)


def recipe(directory: Path, name: str) -> str:
    """A shipped recipe, as a file of the user's."""
    text = (ROOT / "src/seatrial/recipes/data" / f"{name}.yaml").read_text()
    (directory / "run.yaml").write_text(text)
    return "run.yaml"


def minutes(seconds: float) -> str:
    return f"{int(seconds // 60)} min {int(seconds % 60)} s" if seconds > 60 else f"{seconds:.0f} s"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("aks-gpt3-175b", "tp 8, pp 16, 512 ranks; 8 processes"),
        ("eks-llama2-7b-p4d", "tp 2, 16 ranks; 4 processes"),
    ],
)
def test_a_rehearsal_takes_less_than_six_minutes(
    tmp_path: Path, name: str, said: str, figure: Figure
) -> None:
    answer = rehearse(tmp_path, recipe(tmp_path, name), "--seed", "7")
    print(answer.text)
    figure("times", f"`seatrial rehearse` of {name} ({said})", minutes(answer.seconds), "6 min")
    assert answer.code == 0
    assert answer.text.count(" ok ") == 6
    assert answer.seconds < 360


@pytest.mark.parametrize(
    ("overrides", "said", "bar"),
    [
        ([], "`--arguments-only` of aks-gpt3-175b", 30),
        pytest.param(
            ["cluster.nodes=12800", "training.global_batch_size=8000"],
            "the same at 102,400 ranks",
            90,
            marks=pytest.mark.slow,
        ),
    ],
)
def test_the_engine_answers_soon(
    tmp_path: Path, overrides: list[str], said: str, bar: int, figure: Figure
) -> None:
    file = recipe(tmp_path, "aks-gpt3-175b")
    answer = rehearse(tmp_path, file, *overrides, "--arguments-only", "--json")
    assert answer.code == 0, answer.text
    figure("times", said, minutes(answer.seconds), f"{bar} s")
    assert answer.data["ok"]
    assert answer.seconds < bar


WRITE = """
import sys, numpy, torch
from megatron.core.datasets.indexed_dataset import IndexedDatasetBuilder
draw = numpy.random.default_rng(int(sys.argv[2]))
builder = IndexedDatasetBuilder(sys.argv[1] + ".bin", dtype=numpy.uint16)
for length in draw.integers(20, 400, 300):
    builder.add_document(torch.from_numpy(draw.integers(0, 50256, length)), [int(length)])
builder.finalize(sys.argv[1] + ".idx")
"""

SPEC = """
apiVersion: seatrial.dev/v1alpha1
name: own-data
model: {{preset: gpt3-125m}}
data:
  sources:
    - {{prepared: {first}, weight: 0.7}}
    - {{prepared: {second}, weight: 0.3}}
  tokenizer: {tokenizer}
  split: [90, 10, 0]
training: {{steps: 100, micro_batch_size: 2, global_batch_size: 16, precision: bf16}}
parallelism: {{tp_size: 2, pp_size: 1, vp_size: 1, cp_size: 1, sequence_parallel: true,
  sharding: optimizer, recompute: none}}
cluster: {{profile: aks, node_type: Standard_ND96isr_H100_v5, nodes: 1}}
checkpoints: {{every_steps: 50}}
"""


@pytest.mark.slow
def test_the_users_own_data_are_read_also_without_their_tokenizer(tmp_path: Path) -> None:
    prefixes = [tmp_path / "web", tmp_path / "books"]
    for number, prefix in enumerate(prefixes):
        words = [worker_python(MEGATRON), "-c", WRITE, str(prefix), str(number)]
        subprocess.run(words, check=True, capture_output=True)
    missing = tmp_path / "no-such-tokenizer"
    spec = SPEC.format(first=prefixes[0], second=prefixes[1], tokenizer=missing)
    (tmp_path / "run.yaml").write_text(spec)
    answer = rehearse(tmp_path, "run.yaml", "--drill", "train", "--json")
    assert answer.code == 0, answer.text
    (twin,) = answer.data["twins"]
    assert twin["data"] == [str(prefix) for prefix in prefixes]
    (replaced,) = twin["replaced"]
    assert f"a NullTokenizer replaces tokenizer {missing} because" in replaced
    # Random tokens of the real vocabulary: the loss begins near ln 50,257.
    assert "20 steps, loss 10.8" in answer.data["results"][0]["said"]


PLANS = {
    "a mixture of experts": ["model.preset=mixtral-8x7b", "parallelism.ep_size=2"],
    "two twins": ["parallelism.pp_size=2", "parallelism.cp_size=2"],
    "asynchronous saving": ["checkpoints.asynchronous=true"],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANS)
def test_plans_of_other_kinds_pass_every_drill(tmp_path: Path, name: str, figure: Figure) -> None:
    spec = SPEC.format(first="/none/a", second="/none/b", tokenizer="hf://gpt2")
    (tmp_path / "run.yaml").write_text(spec)
    answer = rehearse(tmp_path, "run.yaml", *PLANS[name], "cluster.nodes=2", "--seed", "7")
    print(answer.text)
    assert answer.code == 0
    assert "FAILED" not in answer.text
    figure("times", f"`seatrial rehearse` of {name}", minutes(answer.seconds), "")
