# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Check that a tokenizer can be loaded: `python -m seatrial.worker.tokenizer NAME REVISION`.

Loads the tokenizer as the engine does, and prints one line of JSON with the error, or an empty
string.
"""

import json
import sys

from transformers import AutoTokenizer


def main() -> None:
    """Try to load the tokenizer and print the error."""
    name, revision = sys.argv[1:3]
    try:
        AutoTokenizer.from_pretrained(name, revision=revision or None)
    except Exception as error:
        trouble = str(error).partition("\n")[0] or type(error).__name__
    else:
        trouble = ""
    sys.stdout.write(json.dumps({"trouble": trouble}) + "\n")


if __name__ == "__main__":
    main()
