# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Samples that preparation cuts are those of LLM Foundry's own converter, byte for byte."""

import json
import subprocess
from pathlib import Path

import pytest

from seatrial.engines.llm_foundry.data_settings import mds_directory
from seatrial.sdk.data import prepare_data
from seatrial.sdk.plan import plan
from tests.foundry.conftest import Figure
from tests.unit.dataprep.gpt2 import gpt2_file
from tests.unit.dataprep.little_corpus import InlineDriver

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

CONVERT = """
import json, sys
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
# The one file of LLM Foundry that joins documents, without the package, which loads everything.
file = Path(find_spec("llmfoundry").origin).parent / "data" / "data.py"
spec = spec_from_file_location("foundry_data", file)
data = module_from_spec(spec)
spec.loader.exec_module(data)
from streaming import MDSWriter
from transformers import PreTrainedTokenizerFast
tokenizer_file, lines, out, length = sys.argv[1:]
end = "<|endoftext|>"
tokenizer = PreTrainedTokenizerFast(tokenizer_file=tokenizer_file, eos_token=end)
documents = [json.loads(line) for line in open(lines, encoding="utf-8")]
samples = data.ConcatTokensDataset(documents, tokenizer, int(length), "", end, False)
with MDSWriter(columns={"tokens": "ndarray:int32"}, out=out) as writer:
    for sample in samples:
        writer.write(sample)
"""
"""LLM Foundry's own parts, put together as its convert_dataset_hf.py does."""

READ = """
import json, sys
from streaming import StreamingDataset
data = StreamingDataset(local=sys.argv[1], split="train", shuffle=False, batch_size=1)
print(json.dumps([int(data[n]["tokens"].sum()) for n in range(len(data))]))
"""

SPEC = """\
apiVersion: seatrial.dev/v1alpha1
name: little-mpt
model: {{preset: mpt-125m}}
data:
  sources: [{{name: corpus, from: {corpus}}}]
  tokenizer: {tokenizer}
  location: {out}
  split: [1, 0, 0]
  preparation: {{empty_documents: drop}}
training:
  steps: 2
  sequence_length: {length}
  micro_batch_size: 1
  global_batch_size: 1
  evaluation: {{batches: 0}}
parallelism: {{tp_size: 1, pp_size: 1, cp_size: 1, sharding: none, recompute: none}}
cluster: {{profile: local, processes_per_node: 1}}
checkpoints: {{every_steps: 1}}
engine: {{name: llm-foundry}}
"""


def documents(path: Path, number: int = 400) -> None:
    """Texts of many lengths, in several scripts; none is empty."""
    words = ["sea", "trial", "été", "água", "船", "🚢", "1,024", "\n", "the", " of"]
    lines = []
    for each in range(number):
        text = " ".join(words[(each * 7 + k * k) % len(words)] for k in range(1 + each % 90))
        lines.append(json.dumps({"text": text + f" {each}"}, ensure_ascii=False))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.mark.parametrize("length", [64, 300])
def test_the_same_bytes_as_the_converter(
    length: int, tmp_path: Path, foundry_python: str, figure: Figure
) -> None:
    corpus = tmp_path / "corpus.jsonl"
    documents(corpus)
    tokenizer = gpt2_file(tmp_path)
    spec = tmp_path / "run.yaml"
    spec.write_text(
        SPEC.format(corpus=corpus, tokenizer=tokenizer, out=tmp_path / "out", length=length)
    )
    prepare_data(spec, driver=InlineDriver())
    ours = tmp_path / "out" / mds_directory(plan(spec), "corpus") / "train"
    theirs = tmp_path / "theirs" / "train"
    words = [foundry_python, "-c", CONVERT, tokenizer, corpus, theirs, length]
    subprocess.run([str(word) for word in words], check=True, capture_output=True)
    names = sorted(path.name for path in theirs.iterdir())
    assert sorted(path.name for path in ours.iterdir()) == names
    for name in names:
        assert (ours / name).read_bytes() == (theirs / name).read_bytes(), name
    index = json.loads((ours / "index.json").read_bytes())
    samples = sum(shard["samples"] for shard in index["shards"])
    figure("mds", f"{length} tokens a sample", f"{samples:,} of {samples:,} samples, every byte")
    # And the library itself reads them.
    read = subprocess.run(
        [foundry_python, "-c", READ, str(ours.parent)], check=True, capture_output=True, text=True
    )
    assert len(json.loads(read.stdout.strip().rpartition("\n")[2])) == samples
