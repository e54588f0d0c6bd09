# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The inputs of the data benchmark: the corpus and smaller and larger ones made from it."""

import json
import os
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import zstandard

from benchmarks.dataprep.corpus import home

SPEC = """\
apiVersion: seatrial.dev/v1alpha1
name: bench
model: {{preset: gpt3-125m}}
data:
  sources:
    - {{name: bench, from: {directory}}}
  tokenizer: {tokenizer}
training: {{tokens: 1B, micro_batch_size: 1, global_batch_size: 1024}}
parallelism: {{tp_size: 1, pp_size: 1, cp_size: 1, sharding: optimizer, recompute: selective}}
checkpoints: {{every_steps: 100}}
cluster: {{profile: local, node_type: local, nodes: 1, processes_per_node: 1}}
"""


@dataclass(frozen=True)
class Corpus:
    """Some shards, and the spec of a run that reads them."""

    name: str
    shards: tuple[Path, ...]
    """Files of `.jsonl.zst`."""
    spec: Path
    """A run.yaml with them as its only source."""
    jsonl_bytes: int
    plain: Path | None = None
    """All lines in one plain file, for the baseline."""

    @property
    def megabytes(self) -> float:
        return self.jsonl_bytes / 1e6


def shards_of(part: str) -> list[Path]:
    """The shards of a part of the corpus; none when it has not been made."""
    return sorted((home() / part).glob("*.jsonl.zst"))


def lines_of(shard: Path) -> Iterator[bytes]:
    with zstandard.open(shard, "rb") as stream:
        rest = b""
        while block := stream.read(1 << 20):
            *lines, rest = (rest + block).split(b"\n")
            yield from (line + b"\n" for line in lines)


def link(name: str, shards: list[Path], tokenizer: Path, work: Path, *, times: int = 1) -> Corpus:
    """A corpus of shards as they are, once or several times over."""
    directory = work / name
    linked = []
    for time in range(times):
        for shard in shards:
            target = directory / f"{time}-{shard.name}"
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(shard.resolve())
            linked.append(target)
    size = times * sum(_plain_size(shard) for shard in shards)
    return Corpus(name, tuple(linked), _spec(name, directory, tokenizer, work), size)


def cut(name: str, shards: list[Path], most: int, tokenizer: Path, work: Path) -> Corpus:
    """The first `most` bytes of JSON lines, in shards of about 8 MB and in one plain file."""
    directory = work / name
    directory.mkdir(parents=True)
    linked: list[Path] = []
    size = written = 0
    output = None
    with (work / f"{name}.jsonl").open("wb") as whole:
        for line in (line for shard in shards for line in lines_of(shard)):
            if size >= most:
                break
            if output is None or written >= 8 << 20:
                if output is not None:
                    output.close()
                linked.append(directory / f"{len(linked):05d}.jsonl.zst")
                output, written = zstandard.open(linked[-1], "wb"), 0
            output.write(line)
            whole.write(line)
            size, written = size + len(line), written + len(line)
    if output is not None:
        output.close()
    spec = _spec(name, directory, tokenizer, work)
    return Corpus(name, tuple(linked), spec, size, work / f"{name}.jsonl")


def stand_in(work: Path) -> list[Path]:
    """A shard of this Python's own source files, where the corpus has not been made."""
    shard = work / "stand-in.jsonl.zst"
    library = Path(sysconfig.get_path("stdlib"))
    with zstandard.open(shard, "wb") as output:
        for folder, folders, names in os.walk(library):
            folders[:] = sorted(set(folders) - {"site-packages", "test", "tests", "__pycache__"})
            for name in sorted(names):
                if name.endswith(".py"):
                    text = (Path(folder) / name).read_text(encoding="utf-8", errors="replace")
                    output.write(json.dumps({"text": text}, ensure_ascii=False).encode() + b"\n")
    return [shard]


def _plain_size(shard: Path) -> int:
    return sum(map(len, lines_of(shard)))


def _spec(name: str, directory: Path, tokenizer: Path, work: Path) -> Path:
    spec = work / f"{name}.yaml"
    spec.write_text(SPEC.format(directory=directory, tokenizer=tokenizer), encoding="utf-8")
    return spec
