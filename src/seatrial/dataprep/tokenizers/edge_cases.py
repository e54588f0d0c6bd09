# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Texts on which tokenizers differ, and which a sample of a corpus may not contain.

Characters that readers cannot distinguish are written as code points.
"""

# This file contains look-alike characters on purpose.
# ruff: noqa: RUF001

from itertools import product

_ZWJ, _SELECTOR, _ACUTE, _NBSP, _BOM = map(chr, (0x200D, 0xFE0F, 0x0301, 0xA0, 0xFEFF))


def _spaces() -> list[str]:
    """Runs of every kind of white space, at the start, at the end and between words."""
    kinds = [" ", "\t", "\n", "\r\n", "\r", "\f\v", _NBSP]
    kinds += map(chr, (0x2003, 0x3000, 0x2028, 0x85))
    counts = (1, 2, 3, 8, 33)
    runs = [kind * count for kind, count in product(kinds, counts)]
    around = [text for run in runs for text in (run, f"a{run}b", f"{run}word", f"word{run}")]
    mixed = ["\n \n", " \n\n  x", "\t  \t x \t", "a \r\n\r\n b", "x  \n", "  \n  y"]
    return [*around, *mixed, f" {chr(0x200B)} {_BOM} z"]


def _scripts() -> list[str]:
    """Languages, alone and mixed, with combining marks and bidirectional text."""
    texts = [
        "Straße, naïve, Ærøskøbing, Ťažký, İstanbul, ẞ",
        "Съешь же ещё этих мягких французских булок",
        "العربية: السَّلَامُ عَلَيْكُمْ ١٢٣",
        "עִבְרִית שָׁלוֹם 42",
        "हिन्दी क्षत्रिय ज्ञान १२३",
        "ไทย ภาษาไทยไม่มีช่องว่าง ๑๒๓",
        "漢字かな交じり文。テスト１２３、「引用」",
        "中文没有空格，标点也不同。",
        "한국어 조합형 " + "".join(map(chr, (0x1112, 0x1161, 0x11AB))),
        "Ελληνικά ἄνθρωπος",
        "ქართული Հայերեն አማርኛ",
        "mixed漢字andКириллицаword العربيةabc한국어123ไทย",
        "e" + _ACUTE + " é " + "o" + _ACUTE * 40 + " Z" + "".join(map(chr, range(0x300, 0x340))),
        chr(0x202E) + "abc" + chr(0x202C) + " " + chr(0x2066) + "x" + chr(0x2069),
        "ﬁ ﬀ Ⅷ ½ ² ｆｕｌｌ ㎏ ℵ",
    ]
    return texts + [text * 20 for text in texts[:8]]


def _symbols() -> list[str]:
    """Emoji with joiners, flags and skin tones; punctuation; currency."""
    woman, computer, tone = chr(0x1F469), chr(0x1F4BB), chr(0x1F3FD)
    family = _ZWJ.join((chr(0x1F468), woman, chr(0x1F467), chr(0x1F466)))
    flag = chr(0x1F1E9) + chr(0x1F1EA)
    return [
        chr(0x1F600),
        chr(0x1F600) * 50,
        woman + tone + _ZWJ + computer + " codes",
        family + family,
        flag * 3 + " flags " + flag[0],
        "❤" + _SELECTOR + " vs ❤",
        "#" + _SELECTOR + chr(0x20E3),
        "!?!?...!!! --- === *** ### ~~~ ||| \\\\\\ ///",
        "€100 £5 ¥3 ₿0.1 50% 3°C 10‰",
        "“quotes” ‘single’ «guillemets» — dash – dash … ellipsis",
        "it's we've I'LL they'd you're O'Neil 'tis rock'n'roll ' ' '' 's",
        "it’s we’ve",
    ]


def _odd_characters() -> list[str]:
    """Control characters, unassigned and private code points, non-characters, ends of planes."""
    odd = (0x00, 0x01, 0x07, 0x08, 0x1B, 0x7F, 0x80, 0x9F, 0xAD, 0x378, 0xE000, 0xFDD0)
    planes = (0xFFFD, 0xFFFE, 0xFFFF, 0x1FFFE, 0x2FA1D, 0x323B0, 0xE0001, 0xF0000, 0x10FFFF)
    each = [f"a{chr(code)}b{chr(code) * 3} {chr(code)}" for code in odd + planes]
    return [*each, "".join(map(chr, range(32))), "\0" * 100, _BOM + "text", "text" + _BOM]


def _words() -> list[str]:
    """Very long words, digits, code, addresses."""
    return [
        "",
        "a",
        "a" * 3000,
        "abcdefghij" * 400,
        "Donaudampfschifffahrtsgesellschaftskapitän" * 30,
        "字" * 1500,
        "=" * 2000 + "\n" + "-" * 2000,
        "0 1 12 123 1234 12345 123456789012345678901234567890",
        "3.14159 1,000,000.00 1e-9 0xDEADbeef 192.168.0.1 2024-02-29T23:59:60Z",
        "9" * 1000,
        'def f(x: int) -> str:\n    return f"{x!r:>10}"  # comment\n\n\nclass A:\n\tpass\n',
        "#include <stdio.h>\r\nint main(void) {\r\n\treturn a[i]->b << 2 && !c ? d : e;\r\n}\r\n",
        "<html><body class='x'>&amp;&#x27;</body></html>",
        "https://user@example.org:8080/a/b%20c?q=1&r=%C3%A9#frag mailto:x@y.z",
        "camelCaseAndPascalCase snake_case kebab-case SCREAMING_CASE iPhone15ProMax v1.2.3-rc.4",
        '{"key": [1, 2.5, null, true], "nested": {"a\\nb": "\\u00e9"}}',
        "\\documentclass{article} $\\frac{a}{b} \\leq \\sum_{i=0}^{n} x_i^2$",
        "| a | b |\n|---|---|\n| 1 | 2 |\n\n> quote\n\n* item\n    * sub\n",
        "TGhlIHF1aWNrIGJyb3duIGZveCBqdW1wcyBvdmVyIHRoZSBsYXp5IGRvZw==" * 5,
    ]


def _ends(end: str) -> list[str]:
    """The end token as text: complete, partial, doubled, and next to other characters."""
    parts = [end[:1], end[:2], end[:-1], end[1:], end[: len(end) // 2]]
    sides = ["", " ", "\n", "a", "é", "'", "<", "|", ">", "1", "  ", "字"]
    around = [left + end + right for left, right in product(sides, sides)]
    return [*parts, *around, end * 3, f"{end} {end}", f"a {end[:-1]} b", end.upper(), end.lower()]


_SPECIALS = ["<|", "|>", "<|>", "<|im_start|>user<|im_end|>", "<s>", "</s>", "<unk>", "<pad>"]


def edge_cases(end: str) -> list[str]:
    """Return all edge cases for a tokenizer with that end-of-document token, without duplicates."""
    groups = (_spaces(), _scripts(), _symbols(), _odd_characters(), _words(), _ends(end), _SPECIALS)
    texts = [text for group in groups for text in group]
    # Many libraries split a word depending on what precedes and follows it.
    texts += ["The cat" + text + "sat. " + text for text in texts if len(text) < 200]
    return list(dict.fromkeys(texts))
