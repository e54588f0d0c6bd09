# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The bare fast encode: texts that are in memory as str already, one process, one thread.

    python -m benchmarks.dataprep.bare_encode TOKENIZER.json FILE.jsonl.zst...

Prints CPU-seconds of the encoding calls alone as JSON; reading, parsing and loading the tokenizer
come before. Batches are of about the size that is fastest for the library.
"""

import json
import sys
import time
from pathlib import Path

import gigatoken
import zstandard

BATCH = 2048


def main() -> None:
    tokenizer = gigatoken.Tokenizer.from_json(Path(sys.argv[1]).read_bytes()).backend
    texts = []
    for path in sys.argv[2:]:
        with zstandard.open(path, "rt", encoding="utf-8", newline="\n") as lines:
            texts += [json.loads(line)["text"] for line in lines]
    batches = [texts[start : start + BATCH] for start in range(0, len(texts), BATCH)]
    tokens = 0
    began = time.process_time()
    for batch in batches:
        layout = tokenizer.encode_batch(batch, parallel=False).layout
        tokens += len(layout.content.data)
    cpu = time.process_time() - began
    size = sum(len(text.encode()) for text in texts)
    print(json.dumps({"cpu": cpu, "tokens": tokens, "text_bytes": size, "documents": len(texts)}))


if __name__ == "__main__":
    main()
