# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Detect secrets in a value, and redact them from text, with the same search.

Every pattern has an anchor, which is a few literal characters. A text without any anchor costs one
pass of `str.find` per anchor. Patterns are tried only at anchors, so the time is linear.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from seatrial.secrets.assignments import (
    assigned_spans,
    is_login,
    is_secret_argument,
    is_secret_value,
)
from seatrial.secrets.formats import FORMATS, RUN, Format
from seatrial.secrets.lazy_pattern import lazy_pattern
from seatrial.secrets.names import has_hint

REDACTED = "(not shown)"
"""Replaces a secret."""

_RUN = lazy_pattern(f"(?<![0-9A-Za-z_-])[0-9A-Za-z_-]{{{RUN},}}+")
_WITH_RUN = tuple(each for each in FORMATS if each.has_run)
_OTHERS = tuple(each for each in FORMATS if not each.has_run)
_LONGEST_WORD = 18
_SHORTEST = 8
"""Length of the shortest text that can contain a secret together with its context."""
_ESCAPE = "\x1b"
_ANSI = lazy_pattern(r"\x1b\[[0-?]*[ -/]*[@-~]")
_ENCODED = lazy_pattern(r"%(?:25)?(2F|3A|40|3D|2B|3F|26)", re.IGNORECASE)
_UNICODE = lazy_pattern(r"\\u00(22|26|27|2f|3c|3d|3e)", re.IGNORECASE)
"""Go escapes & < > like this in JSON; other programs also escape quotes, slashes and =."""
_ENTITIES = {"&quot;": '"', "&amp;": "&", "&#x27;": "'", "&#39;": "'", "&#34;": '"'}
_ENTITY = lazy_pattern("|".join(_ENTITIES))
_BOUNDARY = lazy_pattern(
    r"(?:\\[nrtbfe0\"'/]|%[0-9a-f]{2}|\\x[0-9a-f]{2}|\\u[0-9a-f]{4}"
    r"|(?:\\x1b|\\u001b|\\033|\\e)\[[0-9;]{0,10}[a-z])$",
    re.IGNORECASE,
)
"""An escape sequence before a token. Its last letter does not belong to the token."""
_LONGEST_ESCAPE = 18
_MOST_HYPHENS = 4
_SLASHES, _SLASH = "://", ":/"
_SCHEME = lazy_pattern(r"[a-z][a-z0-9+.-]*$", re.IGNORECASE)
_PASSWORD = lazy_pattern(
    r"[^\s/@:?#\[\]'\"<>|]*+:(?!\d{1,5}(?:[/?#\s'\"\\]|$))(?!/)"
    # Passwords must not contain a slash or a quote, but some do. Punctuation follows the quote at
    # the end of an address.
    r"(?:(?:(?:[^\s/@'\"<>]++|['\"](?=[\w@!$%^*+-]))*+@(?!sha\d{3}:))++"
    r"|(?:[^\s'\"<>]|['\"](?=[\w@!$%^*+-])){1,256}@(?!sha\d{3}:))"
)
_USER = lazy_pattern(r"[^\s/@:?#\[\]'\"<>|]++@")
_TOKEN_SCHEMES = frozenset(
    [
        "http",
        "https",
        "git+http",
        "git+https",
        "ws",
        "wss",
        "redis",
        "rediss",
        "amqp",
        "amqps",
        "mongodb",
        "mongodb+srv",
    ]
)
"""Schemes in which a single word before @ may be a token; elsewhere it is a container or a user."""
_STORE_SCHEMES = frozenset({"s3", "gs", "http", "https"})
"""Schemes of addresses that may be normalized like a path, which removes one of the two slashes."""
_PLAIN_USERS = frozenset({"git@", "hg@", "anonymous@"})
_BEGINS_KEY = lazy_pattern(r"-----begin [a-z0-9 ]{0,40}private key(?: block)?-----")
_ENDS_KEY = "-----end"
_KEY_TEXT = lazy_pattern(r"(?:[0-9A-Za-z+/=\s:,.-]|\\(?:[nr]|x0[ad]|u000[ad]))*+")
_KEY_LINE = lazy_pattern(
    r"(?:.{0,80}[\]\s:|])?(?:[0-9A-Za-z+/]{24,}={0,2}|[0-9A-Za-z+/]{2,}={1,2})"
)
_WHOLE_KEY_LINE = lazy_pattern(
    r"(?:.{0,60}[\]:|])?\s{0,20}(?=.{0,75}[0-9])(?=.{0,75}[A-Z])(?=.{0,75}[a-z])"
    r"(?:[0-9A-Za-z+/]{64}|[0-9A-Za-z+/]{70}|[0-9A-Za-z+/]{76})"
)
"""A PEM (64), OpenSSH (70) or MIME (76) line, even if reading starts in the middle of a key."""
_MOST_KEY_LINES = 120
_LONGEST_KEY_LINE = 200
_MORE_KEY_LINES = 16
"""Number of lines after a full line that may contain the end of a key, also from other ranks."""
HELD = 1 << 14
"""Number of characters after a cut that are searched together with the text before the cut."""
_CUTS = 8
"""Number of positions to try for a cut."""
_HEX_KEY = lazy_pattern(r"[0-9a-f]{40}")
_DIGEST = lazy_pattern(r"sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128}")
"""One in 65,536 digests starts like an AWS key, because matching ignores case."""
# An old Weights & Biases key looks like a commit, so the name decides.
_COMMIT_NAME = lazy_pattern(r"COMMIT|REVISION|SHA|HASH|DIGEST|(^|[_-])REV(ISION)?$", re.IGNORECASE)
_ADDRESS_NAME = "tracking_uri"
"""The spec key whose address may contain a token in place of the user name."""

_NAMES = ("name", "key")
"""Keys that contain the name of the value next to them, as in a pod's environment."""

Span = tuple[int, int]


def looks_secret(value: object, name: str = "") -> bool:
    """Return True if a value looks like a secret. `name` is the name of its key."""
    if not isinstance(value, str) or _DIGEST.fullmatch(value):
        return False
    if _HEX_KEY.fullmatch(value):
        return _COMMIT_NAME.search(name) is None
    if name == _ADDRESS_NAME and any(
        _USER.match(value, place + len(_SLASHES)) for place in _places(value, _SLASHES)
    ):
        return True
    return len(value) >= _SHORTEST and (_has_secret(_canonical(value)) or _has_secret(value))


def redact(text: str) -> str:
    """Return the text with every secret replaced; unchanged if it contains none."""
    if len(text) < _SHORTEST:
        return text
    plain = _canonical(text)
    if plain is not text:
        spans = _spans(plain)
        if spans:
            return _without(plain, spans)
    spans = _spans(text)
    return _without(text, spans) if spans else text


def redact_tree(value: Any, name: str = "") -> Any:
    """Return plain data (JSON, YAML) with every secret replaced. Detects formats and names."""
    if isinstance(value, (int, float)):
        is_named = has_hint(name) and not isinstance(value, bool)
        return REDACTED if is_named and is_secret_value(name, str(value)) else value
    if isinstance(value, str):
        return REDACTED if name and is_secret_value(name, value) else redact(value)
    if isinstance(value, Mapping):
        made = {
            redact(key) if isinstance(key, str) else key: redact_tree(below, name_in(value, key))
            for key, below in value.items()
        }
        return value if _is_same(made.values(), value.values()) and made == value else made
    if isinstance(value, (list, tuple)):
        below = [redact_entry(value, place, name) for place in range(len(value))]
        return value if _is_same(below, value) else below
    return value


def name_in(around: Mapping[Any, Any], key: object) -> str:
    """Return the name of a value in a mapping: its key, or `name` if the key is `value`."""
    if str(key).lower() == "value":
        for other in (*_NAMES, *map(str.capitalize, _NAMES)):
            if isinstance(around.get(other), str):
                return str(around[other])
    return str(key)


def redact_entry(around: Sequence[Any], place: int, name: str = "") -> Any:
    """Return a list entry without secrets. In a command, the option before the entry matters."""
    value, option = around[place], around[place - 1] if place else None
    if isinstance(value, str) and isinstance(option, str) and option.startswith("-"):
        commands = (each for each in around[:place] if isinstance(each, str))
        if is_secret_argument(option, value) or any(is_login(c, option, value) for c in commands):
            return REDACTED
    return redact_tree(value, name)


def redact_beginning(text: str, length: int) -> str:
    """Return at most the first `length` characters of a text, redacted before truncation.

    Reads only a little more than these characters, regardless of the length of the text.
    """
    if len(text) <= length + HELD:
        return redact(text)[:length]
    cut = safe_cut(text[: length + HELD])
    return redact(text[:cut])[:length] if cut else REDACTED[:length]


def safe_cut(text: str) -> int:
    """Find a position to cut an incomplete text, so that redacting both parts has the same result.

    Cuts between words if possible, at least HELD characters before the end. Returns 0 if there is
    no such position, for example inside a secret of this length.
    """
    whole = _canonical(redact(text))
    for place in _cuts(text):
        parts = (redact(text[:place]), redact(text[place:]))
        if "".join(map(_canonical, parts)) == whole:
            return place
    return 0


def _cuts(text: str) -> Iterator[int]:
    """Yield cut positions, from the last one: first a few between words, then others."""
    last = place = max(0, len(text) - HELD)
    for _ in range(_CUTS):
        place = text.rfind(" ", 0, place)
        if place < last // 2:
            break
        yield place + 1
    yield from range(last, last // 2, -(last // _CUTS or 1))


class LineRedactor:
    """Redacts the lines of one stream. It recognizes private keys, which span several lines."""

    def __init__(self) -> None:
        """Start outside any key."""
        self._key_lines = 0

    def __call__(self, line: str, length: int | None = None) -> str:
        """Return the next line without secrets, or at most its first `length` characters."""
        # A tail may start inside a key, and ranks that share a stream print keys at the same time:
        # neither the start nor the end shows which lines belong to a key.
        if len(line) < _LONGEST_KEY_LINE and _WHOLE_KEY_LINE.fullmatch(line.rstrip()):
            self._key_lines = max(self._key_lines - 1, _MORE_KEY_LINES)
            return REDACTED
        if self._key_lines:
            self._key_lines -= 1
            if _ENDS_KEY in line.lower():
                # Other ranks may not have printed all lines of their keys.
                self._key_lines = min(self._key_lines, _MORE_KEY_LINES)
                return REDACTED
            if _KEY_LINE.fullmatch(line.rstrip()):
                return REDACTED
        if "-----" in line:
            low = line.lower()
            begin = _BEGINS_KEY.search(low)
            if begin and _ENDS_KEY not in low[begin.end() :]:
                self._key_lines = _MOST_KEY_LINES
        return redact(line) if length is None else redact_beginning(line, length)


def _is_same(made: Any, given: Any) -> bool:
    return all(new is old for new, old in zip(made, given, strict=True))


def _canonical(text: str) -> str:
    """Return the text without colours and without JSON and URL escapes."""
    if _ESCAPE in text:
        text = _ANSI.sub("", text)
    if "\\u00" in text:
        # Keep quotes escaped, so that JSON stays valid.
        text = _UNICODE.sub(lambda code: chr(int(code[1], 16)).replace('"', '\\"'), text)
    if "&quot;" in text or "&amp;" in text or "&#" in text:
        text = _ENTITY.sub(lambda entity: _ENTITIES[entity[0]], text)
    if "\\/" in text:
        text = text.replace("\\/", "/")
    if "%" in text:
        text = _ENCODED.sub(lambda code: chr(int(code[1], 16)), text)
    return text


def _has_secret(text: str) -> bool:
    return bool(_spans(text))


def _without(text: str, spans: list[Span]) -> str:
    """Replace the spans; some may overlap."""
    parts, place = [], 0
    for start, end in sorted(spans):
        if start >= place:
            parts += [text[place:start], REDACTED]
        place = max(place, end)
    return "".join([*parts, text[place:]])


def _spans(text: str) -> list[Span]:
    """Find every secret."""
    low = text.lower()
    if len(low) != len(text):
        # Some characters are longer in lower case. Anchors are ASCII.
        low = "".join(char.lower() if char.isascii() else char for char in text)
    found = [span for each in _present(text, low) for span in _token_spans(each, text, low)]
    if _SLASH in low:
        found += _user_spans(text)
    if "-----begin" in low:
        found += _key_spans(text, low)
    return [*found, *assigned_spans(text, low, REDACTED)]


def _present(text: str, low: str) -> list[Format]:
    """Select the formats whose anchors occur in a text."""
    present = [each for each in _OTHERS if each.anchor in low]
    words = "\n".join(filter(_is_no_identifier, _RUN.findall(text))).lower()
    if words:
        present += [each for each in _WITH_RUN if each.anchor in (words if each.in_run else low)]
    return present


def _is_no_identifier(word: str) -> bool:
    """Return False for identifiers and file names: lower-case words without digits."""
    words = word.replace("-", "_")
    if not (words.islower() and words.replace("_", "").isalpha()):
        return True
    return len(max(words.split("_"), key=len)) >= _LONGEST_WORD


def _places(text: str, anchor: str) -> Iterator[int]:
    """Find the occurrences of an anchor. Each search starts after the previous occurrence."""
    place = text.find(anchor)
    while place >= 0:
        yield place
        place = text.find(anchor, place + len(anchor))


def _token_spans(each: Format, text: str, low: str) -> Iterator[Span]:
    """Find the tokens in one format."""
    done = 0
    for place in _places(low, each.anchor):
        if place < done:
            continue
        for before in each.starts:
            start = place - before
            if start < 0 or (each.needs_boundary and not _is_boundary(text, start)):
                continue
            match = each.pattern.match(text, start)
            if match and not (each.is_word and not _is_random(match[0])):
                done = match.end()
                yield match.span()
                break


def _is_boundary(text: str, start: int) -> bool:
    """Return True if there is no letter or digit before the token.

    A run of characters that could each start a token is therefore tried only once.
    """
    before = start
    # The hyphens of an option do not belong to a token; the hyphen in `task-sk-...` does.
    while before > 0 and start - before < _MOST_HYPHENS and text[before - 1] in "-_":
        before -= 1
    if before == 0 or not (text[before - 1].isalnum() and text[before - 1].isascii()):
        return True
    return _BOUNDARY.search(text[max(0, start - _LONGEST_ESCAPE) : start]) is not None


def _is_random(token: str) -> bool:
    """Return False for lower-case words after a short prefix, such as `sk-learn`."""
    rest = token[3:]
    return any(char.isdigit() for char in rest) or rest not in (rest.lower(), rest.upper())


def _user_spans(text: str) -> Iterator[Span]:
    """Find user names and passwords in addresses."""
    for place in _places(text, _SLASH):
        begin = place + len(_SLASH)
        is_path = not text.startswith("/", begin)
        begin += not is_path
        match = _PASSWORD.match(text, begin)
        if match is None or is_path:
            match = match or _USER.match(text, begin)
            scheme = _SCHEME.search(text[max(0, place - 16) : place])
            known = _STORE_SCHEMES if is_path else _TOKEN_SCHEMES
            if match is None or scheme is None or scheme[0].lower() not in known:
                continue
        if match[0] not in _PLAIN_USERS and not match[0].startswith(REDACTED):
            yield begin, match.end() - 1


def _key_spans(text: str, low: str) -> Iterator[Span]:
    """Find private keys in PEM. If a key is truncated, find the text that looks like part of it."""
    done, is_closed = 0, True
    for begin in _BEGINS_KEY.finditer(low):
        if begin.start() < done:
            continue
        end = low.find(_ENDS_KEY, begin.end()) if is_closed else -1
        if end < 0:
            is_closed = False
            body = _KEY_TEXT.match(text, begin.end())
            done = body.end() if body else begin.end()
        else:
            closing = low.find("-----", end + len(_ENDS_KEY))
            done = closing + 5 if closing >= 0 else len(text)
        yield begin.start(), done
