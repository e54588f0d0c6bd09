# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Make the corpus of the data benchmark from Debian's documentation packages.

    python -m benchmarks.dataprep.corpus

At least 300 MB of unrepeated English text and 50 MB in other languages, as `.jsonl.zst` shards in
the schema of SlimPajama, in the cache beside the environments. Packages come through the machine's
own package manager; their pages are cut at headings into documents; a paragraph that was seen
before is left out (short ones, as in headings and lists, may come again). The same versions of the
packages give the same text, whose digest is printed. Takes a few minutes and about 1 GB of memory.
"""

import json
import statistics
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from hashlib import blake2b, sha256
from pathlib import Path
from re import search
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

import zstandard

from benchmarks.dataprep import packages
from benchmarks.dataprep.documents import documents_of, html_sections, reader_of, text_of
from tests.cluster.cache import cache_directory

VERSION = "2"
"""Counts up when the same packages would give another text."""
PARTS = {"english": (packages.ENGLISH, 16, 300e6), "multilingual": (packages.MULTILINGUAL, 4, 50e6)}
"""Packages, shards and the least bytes of text of each part."""
LEVEL = 3
SHORT = 40
"""Paragraphs of fewer characters may occur again: headings, names of parameters, items of lists."""
SHORTEST = 200
"""Documents that have fewer characters left are left out."""


def home() -> Path:
    return cache_directory() / f"corpus-{VERSION}"


def extract(deb: Path, left_out: str) -> Path:
    """Write the documents of a package, a list of paragraphs each, into a file beside it."""
    staged = deb.with_suffix(".zst")
    # Beside pages, plain texts, Markdown and manual pages hold the same text in another form.
    paths = [path for path, _ in packages.files(deb, read=False)]
    has_pages = any(reader_of(path) is html_sections for path in paths)
    with zstandard.open(staged, "wb", cctx=zstandard.ZstdCompressor(LEVEL)) as output:
        for path, data in packages.files(deb):
            reader = reader_of(path)
            if reader is None or search(left_out, path):
                continue
            if has_pages and reader is not html_sections:
                continue
            for blocks in documents_of(reader(text_of(path, data))):
                output.write(json.dumps(blocks, ensure_ascii=False).encode() + b"\n")
    return staged


class Seen:
    """Remembers every paragraph that was written, by 8 bytes of a digest."""

    def __init__(self) -> None:
        self._digests: set[bytes] = set()

    def new(self, blocks: Iterable[str]) -> Iterator[str]:
        """The paragraphs that were not seen before, however their lines were broken."""
        for block in blocks:
            if len(block) >= SHORT:
                digest = blake2b(" ".join(block.split()).encode(), digest_size=8).digest()
                if digest in self._digests:
                    continue
                self._digests.add(digest)
            yield block


class Shards:
    """The files of one part; documents go to them in turn, so that each has of everything."""

    def __init__(self, directory: Path, count: int, stack: ExitStack) -> None:
        directory.mkdir(parents=True)
        self.digests = [sha256() for _ in range(count)]
        self.sizes: list[int] = []
        self.line_bytes = 0
        self._outputs: list[BinaryIO] = []
        for number in range(count):
            file = stack.enter_context((directory / f"{number:05d}.jsonl.zst").open("wb"))
            writer = zstandard.ZstdCompressor(LEVEL).stream_writer(file)
            self._outputs.append(stack.enter_context(writer))

    def write(self, text: str, domain: str) -> None:
        number = len(self.sizes) % len(self._outputs)
        document = {"text": text, "meta": {"redpajama_set_name": domain}}
        line = json.dumps(document, ensure_ascii=False).encode() + b"\n"
        self._outputs[number].write(line)
        self.digests[number].update(line)
        self.sizes.append(len(text.encode()))
        self.line_bytes += len(line)

    def summary(self) -> dict[str, Any]:
        sizes = sorted(self.sizes)
        digest = sha256(b"".join(digest.digest() for digest in self.digests)).hexdigest()
        return {
            "documents": len(sizes),
            "text_bytes": sum(sizes),
            "jsonl_bytes": self.line_bytes,
            "median_bytes": int(statistics.median(sizes)),
            "p95_bytes": sizes[len(sizes) * 95 // 100],
            "sha256": digest,
        }


def merge(versions: dict[str, str], staged: dict[str, Path], output: Path) -> dict[str, Any]:
    """Write the shards of all parts, and what they came to."""
    seen = Seen()
    parts: dict[str, Any] = {}
    for part, (members, count, _) in PARTS.items():
        rows = []
        with ExitStack() as stack:
            shards = Shards(output / part, count, stack)
            for package in (member for member in members if member.name in staged):
                before, documents = sum(shards.sizes), len(shards.sizes)
                with zstandard.open(staged[package.name], "rt", encoding="utf-8") as lines:
                    for line in lines:
                        text = "\n".join(seen.new(json.loads(line)))
                        if len(text) >= SHORTEST:
                            shards.write(text, package.domain)
                size, documents = sum(shards.sizes) - before, len(shards.sizes) - documents
                rows.append([package.name, versions[package.name], documents, size])
        parts[part] = shards.summary() | {"packages": rows}
    return parts


def say(parts: dict[str, Any], directory: Path) -> int:
    """Print what there is; 1 when it is too little."""
    code = 0
    for part, (_, _, least) in PARTS.items():
        found = parts[part]
        for name, version, documents, size in found["packages"]:
            print(f"{name:28} {version:28} {documents:>7,} documents {size / 1e6:8.1f} MB")
        stored = sum(file.stat().st_size for file in (directory / part).iterdir())
        print(
            f"{part}: {found['documents']:,} documents, {found['text_bytes'] / 1e6:.1f} MB of "
            f"text, {found['jsonl_bytes'] / 1e6:.1f} MB of JSON lines, {stored / 1e6:.1f} MB "
            f"as zst; median {found['median_bytes']:,} bytes, p95 {found['p95_bytes']:,}\n"
            f"{part}: sha256 of the text {found['sha256']}"
        )
        if found["text_bytes"] < least:
            print(f"{part}: that is less than {least / 1e6:.0f} MB.", file=sys.stderr)
            code = 1
    return code


def main() -> int:
    directory = home()
    record = directory / "corpus.json"
    if record.exists():
        return say(json.loads(record.read_text(encoding="utf-8")), directory)
    everything = [package for members, _, _ in PARTS.values() for package in members]
    versions = packages.versions(everything)
    missing = [package.name for package in everything if package.name not in versions]
    if missing:
        print(f"not known to the package manager, left out: {', '.join(missing)}")
    directory.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=directory.parent) as name, ProcessPoolExecutor() as pool:
        work = Path(name)
        files = packages.download(versions, work)
        print(f"read {len(files)} packages", flush=True)
        known = [package for package in everything if package.name in files]
        texts = pool.map(extract, (files[p.name] for p in known), (p.left_out for p in known))
        staged = dict(zip((package.name for package in known), texts, strict=True))
        parts = merge(versions, staged, work / "output")
        code = say(parts, work / "output")
        if not code:
            text = json.dumps(parts, indent=1)
            (work / "output/corpus.json").write_text(text, encoding="utf-8")
            # The directory appears whole or not at all.
            (work / "output").rename(directory)
    return code


if __name__ == "__main__":
    sys.exit(main())
