# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Measure data preparation against what it is held to, side by side in one run.

    python -m benchmarks.dataprep.speed            all of it, about 15 minutes on two cores
    python -m benchmarks.dataprep.speed --short    a slice, once, within a minute

Needs the corpus of `benchmarks/dataprep/corpus.py` (the short form does without) and the engine's
environment for the baseline. CPU-seconds are those of all processes; the best of the rounds counts,
and a round runs everything once, one after the other, so that a busy moment meets all. Megabytes
are millions of bytes of JSON lines, decompressed. The start-up of ours and of the baseline is that
of a run on a corpus of a few documents.

Writes build/bench-data.json. A figure that is below its bar is printed as such; the exit code is 1
only when two outputs that must be the same are not.
"""

import argparse
import json
import os
import platform
import resource
import shutil
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from hashlib import file_digest
from importlib.metadata import version
from pathlib import Path
from typing import Any

import zstandard

from benchmarks.dataprep.corpora import Corpus, cut, link, shards_of, stand_in
from benchmarks.dataprep.figures import ROUNDS, caveat, figures, page_text, table
from benchmarks.measured import Run, measure
from docs.tools.page_parts import ROOT, put
from seatrial.engine_process.process import worker_python
from seatrial.engines.registry import ENGINES

OUTPUT = ROOT / "build/bench-data.json"
TOKENIZER = ROOT / "tests/data/gpt2-tokenizer.json.zst"
OURS = {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
OWN_RAY = {
    "RAY_ADDRESS": "local",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
}
"""A cluster of its own on the loopback, whatever other cluster runs on this machine."""
TINY = 20_000
"""Bytes of the corpus that gives the start-up."""


class DifferentError(Exception):
    """Two outputs that must be the same are not."""


@dataclass
class Bench:
    """The places and the results of one benchmark."""

    work: Path
    tokenizer: Path
    worker_python: str
    runs: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    digests: dict[str, dict[str, str]] = field(default_factory=dict)
    """For each corpus the digests of its output, which are the same whoever made it."""

    def baseline(self, corpus: Corpus, workers: int = 2) -> None:
        """The baseline on the plain form of a corpus."""
        prefix = self.work / "out-baseline"
        words = [self.worker_python, str(ROOT / "benchmarks/dataprep/preprocess_baseline.py")]
        words += [str(corpus.plain), str(self.tokenizer), str(prefix), str(workers)]
        quiet = {"PYTHONWARNINGS": "ignore", "TOKENIZERS_PARALLELISM": "false"}
        self._keep(f"baseline {corpus.name}", measure(words, quiet))
        self._compare(corpus.name, f"{prefix}.bin", f"{prefix}.idx")

    def ours(self, corpus: Corpus, workers: int = 2, driver: str = "local") -> None:
        directory = self.work / "out-ours"
        shutil.rmtree(directory, ignore_errors=True)
        words = [sys.executable, "-m", "benchmarks.dataprep.prepare_ours", str(corpus.spec)]
        words += [str(directory), driver, str(workers)]
        run = measure(words, OURS | (OWN_RAY if driver == "ray" else {}))
        found = json.loads(run.output)
        self._keep(f"{driver} x{workers} {corpus.name}", run, found)
        for file in found["files"]:
            self._compare(corpus.name, f"{directory / file}.bin", f"{directory / file}.idx")
        shutil.rmtree(directory)

    def bare(self, corpus: Corpus) -> None:
        """The bare encode of the texts of a corpus."""
        words = [sys.executable, "-m", "benchmarks.dataprep.bare_encode"]
        words += [str(self.tokenizer / "tokenizer.json"), *map(str, corpus.shards)]
        run = measure(words, {"PYTHONPATH": str(ROOT)})
        self._keep(f"bare {corpus.name}", run, json.loads(run.output))

    def _keep(self, name: str, run: Run, found: dict[str, Any] | None = None) -> None:
        kept = asdict(run) | {"output": None} | {"found": found}
        self.runs.setdefault(name, []).append(kept)
        cpu = found["cpu"] if found and "cpu" in found else run.cpu
        print(
            f"  {name:28} {cpu:8.2f} CPU-s {run.wall:8.2f} s {run.memory >> 20:6} MiB", flush=True
        )

    def _compare(self, corpus: str, *files: str) -> None:
        """Hold the output against what was written of the same corpus before."""
        for name in files:
            with open(name, "rb") as file:
                digest = file_digest(file, "sha256").hexdigest()
            known = self.digests.setdefault(corpus, {})
            if known.setdefault(Path(name).suffix, digest) != digest:
                raise DifferentError(f"{corpus}: {name} is not what was written before")


def unpack_tokenizer(directory: Path) -> Path:
    """A tokenizer directory as the engine's tokenizer class wants it."""
    directory.mkdir()
    data = zstandard.ZstdDecompressor().stream_reader(TOKENIZER.read_bytes()).read()
    (directory / "tokenizer.json").write_bytes(data)
    settings = {"tokenizer_class": "GPT2TokenizerFast", "model_max_length": 1 << 30}
    settings |= dict.fromkeys(("bos_token", "eos_token", "unk_token"), "<|endoftext|>")
    (directory / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return directory


def corpora_of(bench: Bench, part: str, slice_bytes: int) -> dict[str, Corpus]:
    """A part of the corpus: a few documents, a slice for the baseline, and all of it."""
    shards = shards_of(part)
    if not shards:
        raise SystemExit("the corpus is not there. Run: python -m benchmarks.dataprep.corpus")
    file = bench.tokenizer / "tokenizer.json"
    return {
        "tiny": cut(f"{part}-tiny", shards, TINY, file, bench.work),
        "slice": cut(f"{part}-slice", shards, slice_bytes, file, bench.work),
        "full": link(part, shards, file, bench.work),
    }


def run_round(bench: Bench, tiny: Corpus, slice_: Corpus, full: Corpus) -> None:
    bench.baseline(tiny)
    bench.ours(tiny, 1)
    bench.ours(tiny, 2)
    bench.baseline(slice_)
    if slice_ is not full:
        bench.ours(slice_, 2)
    bench.ours(full, 1)
    bench.ours(full, 2)
    bench.bare(full)


def run_short(bench: Bench) -> dict[str, dict[str, Corpus]]:
    """The short form: a slice of the corpus, or of Python's own source files, once."""
    shards = shards_of("english") or stand_in(bench.work)
    file = bench.tokenizer / "tokenizer.json"
    tiny = cut("english-tiny", shards, TINY, file, bench.work)
    full = cut("english", shards, 8 << 20, file, bench.work)
    run_round(bench, tiny, full, full)
    return {"english": {"tiny": tiny, "slice": full, "full": full}}


def run_all(bench: Bench, options: argparse.Namespace) -> dict[str, dict[str, Corpus]]:
    corpora = {
        "english": corpora_of(bench, "english", int(options.slice * 1e6)),
        "multilingual": corpora_of(bench, "multilingual", int(options.slice * 1e6 / 4)),
    }
    file = bench.tokenizer / "tokenizer.json"
    repeated = link("repeated", shards_of("english"), file, bench.work, times=6)
    for number in range(options.rounds):
        print(f"round {number + 1}", flush=True)
        for forms in corpora.values():
            run_round(bench, forms["tiny"], forms["slice"], forms["full"])
        if options.ray:
            bench.ours(repeated, 2)
            bench.ours(repeated, 2, "ray")
    return corpora | {"repeated": {"full": repeated}}


def machine() -> dict[str, Any]:
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    names = [line.split(": ")[1] for line in text.splitlines() if line.startswith("model name")]
    packages = ("gigatoken", "tokenizers", "orjson", "zstandard", "numpy", "ray")
    return {
        "cpu": names[0] if names else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in packages},
    }


def busy_seconds() -> float:
    """CPU-seconds that all programs of this machine have used since it started."""
    words = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()[1:]
    user, nice, system, _, _, irq, softirq = map(int, words[:7])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def own_seconds() -> float:
    """CPU-seconds of this program and of all that it has run."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure data preparation.")
    parser.add_argument("--short", action="store_true", help="a slice, once, within a minute")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--slice", type=float, default=80, help="MB for the baseline (80)")
    parser.add_argument("--write", action="store_true", help="into docs/data-performance.md")
    parser.add_argument("--no-ray", dest="ray", action="store_false")
    options = parser.parse_args()
    began, others = time.monotonic(), busy_seconds() - own_seconds()
    with tempfile.TemporaryDirectory(prefix="seatrial-bench-") as name:
        work = Path(name)
        bench = Bench(
            work, unpack_tokenizer(work / "tokenizer"), worker_python(ENGINES["megatron"])
        )
        try:
            corpora = run_short(bench) if options.short else run_all(bench, options)
        except DifferentError as error:
            print(f"DIFFERENT OUTPUT: {error}", file=sys.stderr)
            return 1
        found = figures(bench.runs, corpora, judged=not options.short)
        seconds = time.monotonic() - began
        others = (busy_seconds() - own_seconds() - others) / seconds
    result = {
        "short": options.short,
        "machine": machine() | {"cores_of_others": others},
        "figures": [asdict(figure) | {"met": figure.met} for figure in found],
        "runs": bench.runs,
        "digests": bench.digests,
    }
    OUTPUT.parent.mkdir(exist_ok=True)
    OUTPUT.write_text(json.dumps(result, indent=1), encoding="utf-8")
    print(
        f"\n{table(found)}\n\noutputs are the same byte for byte: "
        f"baseline, 1 worker, 2 workers{', Ray' if options.ray and not options.short else ''}\n"
        f"{OUTPUT.relative_to(ROOT)} after {seconds:.0f} s\n{caveat(result)}"
    )
    if options.write and not options.short:
        put(ROOT / "docs/data-performance.md", {"figures": page_text(result, found)})
    return 0


if __name__ == "__main__":
    sys.exit(main())
