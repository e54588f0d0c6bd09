# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Highlighting of console blocks: commands as shell, output as plain text.

Pygments' own lexer for shell sessions takes every line that starts with `#`, `$` or `%`, after
blanks too, for a prompt. Here only `$ ` in the first column is one.
"""

from collections.abc import Iterator
from typing import Any

from pygments.lexer import Lexer  # type: ignore[import-untyped]
from pygments.lexers.shell import BashLexer  # type: ignore[import-untyped]
from pygments.token import Generic  # type: ignore[import-untyped]

PROMPT = "$ "


class ConsoleLexer(Lexer):  # type: ignore[misc]
    name = "Seatrial console session"
    aliases = ("console",)

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._shell = BashLexer(**options)

    def get_tokens_unprocessed(self, text: str) -> Iterator[tuple[int, Any, str]]:
        position, is_command = 0, False
        for line in text.splitlines(keepends=True):
            begin, typed = position, line
            position += len(line)
            if line.startswith(PROMPT):
                yield begin, Generic.Prompt, PROMPT
                begin, typed, is_command = begin + len(PROMPT), line[len(PROMPT) :], True
            if not is_command:
                yield begin, Generic.Output, line
                continue
            for index, token, value in self._shell.get_tokens_unprocessed(typed):
                yield begin + index, token, value
            is_command = line.rstrip("\n").endswith("\\")
