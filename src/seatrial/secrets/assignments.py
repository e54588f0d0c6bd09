# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Detect secrets by the text before them: variables, options, headers, parameters."""

import re
from base64 import b64decode
from binascii import Error
from collections.abc import Iterator

from seatrial.secrets.lazy_pattern import lazy_pattern
from seatrial.secrets.names import is_certain, may_name_secret

_WORDS = (
    *("token", "secret", "pass", "pwd", "key", "cred", "sig", "auth", "bearer", "cookie"),
    *("connstr", "conn_str", "connectionstring", "connection_string", "_pat", "accessid"),
)
_WORD = lazy_pattern("|".join(_WORDS))
"""A name or header without one of these words is not secret; longer words contain one of them."""
_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_.-")
_LONGEST_NAME = 64
_ASSIGNED = lazy_pattern(
    r"""
    (?P<rest>[\w.-]{0,64}+)
    (?:
        \\*+["'`]?\]?(?:\s{0,4}+|[ \t]{5,64}+)
        (?::=|=>|=|:) (?:[ \t]{5,64}+|\s{0,4}+)               # NAME=VALUE, "NAME": VALUE
        (?:(?:str|bytes|SecretStr|Optional\[str\]|str\ ?\|\ ?None)\ ?=\ ?)?  # NAME: str = VALUE
      | \ \.{2,64}+\                                         # NAME ...... VALUE: listed arguments
      | \\*+["']?\s{0,4}+,?\s{0,20}+\\*+["']?value\\*+["']?\s?[:=]\s?  # name: NAME, value: VALUE
      | (?P<option>[ \t]{1,4}+
        | \\*+["'],\s{0,4}+(?=[bru]{0,2}+\\*+["']))           # --NAME VALUE, ["--NAME", "VALUE"]
    )
    (?:[bBrRuUfF]{1,2}+(?=\\*+["']))?                         # b"VALUE"
    (?P<escaped>\\*+)(?P<quote>["'`]?)
    """,
    re.VERBOSE | re.ASCII,
)
_VALUES = {
    '"': lazy_pattern(r'(?:[^"\\\n]++|\\.)*+'),
    "'": lazy_pattern(r"(?:[^'\\\n]++|\\.)*+"),
    "`": lazy_pattern(r"(?:[^`\\\n]++|\\.)*+"),
    "": lazy_pattern(r"(?:[^\s\"'`<>\\&;,]++|[&;,](?!\s?[\w.-]{1,40}=))*+", re.ASCII),
}
"""A value, quoted or not: it extends to the quote, a space or the next parameter."""
_UNQUOTED = lazy_pattern(
    r"(?:[^\s\"'`<>\\&;,]++|[&;,](?!\s?[\w.-]{1,40}=)|\\(?![\\\"'`\s])"
    r"|(?<![,;&:=\[({\\])[\"'`](?=\w))*+",
    re.ASCII,
)
"""A complete unquoted password, which may contain quotes and backslashes."""
_ESCAPED_VALUE = lazy_pattern(r"[^\"'`\\\n]*+")
_LONGEST_LOOK = 256
"""Characters of a value that are examined to decide if it is a secret."""
_CLOSING = ")]},;.:"
_PARAMETERS = frozenset(
    [
        "x-amz-signature",
        "x-amz-credential",
        "x-amz-security-token",
        "x-goog-signature",
        "x-goog-credential",
        "signature",
        "sig",
        "awsaccesskeyid",
        "googleaccessid",
        "key-pair-id",
        "sharedaccesssignature",
    ]
)
"""Parameters of signed URLs."""
_PLACEHOLDER = lazy_pattern(
    r"(?:none|null|nil|true|false|unset|undefined|required|missing|invalid|expired|string"
    r"|(?:str|bytes|optional|union)(?:[\[(|].*)?|\*+|x{3,}|\.{3}\w{0,4}"
    # <token>, [REDACTED], {{ secrets.X }}, %(name)s: words in brackets, with no text after them.
    r"|%?[<\[({]+[a-z_ .:$%/\"'-]*[>\])}]*s?"
    # ${name}, $(name), $NAME, $name_of_a_secret
    r"|\$[({]+[a-z_]\w*[)}]*\W{0,2}|\$(?-i:[A-Z_][A-Z0-9_]*)\W{0,2}"
    r"|\$(?:[a-z]+_)?(?:token|password|passwd|pass|key|secret)\W{0,2}"
    r"|(?:self|args|os|config|cfg|settings|kwargs)\.\w.*)",
    re.IGNORECASE | re.DOTALL,
)
_RANDOM = lazy_pattern(r"[0-9A-Za-z_+/=~%-]{12,}+")
_DIGIT, _CAPITAL, _SMALL = lazy_pattern(r"[0-9]"), re.compile(r"[A-Z]"), re.compile(r"[a-z]")
_LETTER = lazy_pattern(r"[A-Za-z]")
_RUN = lazy_pattern(r"[0-9a-z]{24,}+|[0-9A-Z]{24,}+")
_PATH = ("/", "./", "../", "~/")
_BASE64 = lazy_pattern(r"[./]{0,3}[0-9A-Za-z+/]{19,}+={0,2}")
_LONGEST_WORD = 20
_HUMP = lazy_pattern(r"[a-z][A-Z]")
_MOST_HUMPS = 2
"""Maximum number of changes from lower to upper case in a path, such as `/x/MyRun1`."""
_LENGTHS = (40, 44, 88)
"""Lengths of AWS keys, and of 32 and 64 bytes in base64."""
_SCHEMES = lazy_pattern(
    r"(?:bearer|basic|token|digest|negotiate|apikey|key|aws4-hmac-sha256|sharedkey)\s{1,4}",
    re.IGNORECASE,
)
_COOKIES = frozenset({"cookie", "set-cookie"})
_COOKIE = lazy_pattern(r"[^\s=;,:\"'`\\]{1,256}+=[^\s=]")
_ESCAPE = lazy_pattern(r"\\(?:[nrtbf]|u[0-9a-f]{4}|x[0-9a-f]{2})")
"""An escape sequence before a name in escaped text. It ends in letters."""
_LOGIN = lazy_pattern(r"\blogin(?:\s--?[\w-]{1,40}+){0,3}+\s([0-9a-f]{40})\b")
_AFTER_BEARER = lazy_pattern(r"\s{1,4}([0-9A-Za-z._~+/=-]{8,})")
_CURL_USER = lazy_pattern(
    r"[\s\"'](?:-u|--user|--proxy-user|-U)(?:[\"'],\s?|[ =])?[\"']?"
    r"([^\s:\"']{1,128}:[^\s\"']{1,512})"
)
_CURL_OPTIONS = frozenset({"-u", "--user", "-U", "--proxy-user"})
_NUMBER = lazy_pattern(r"[+-]?\d{1,12}(?:\.\d{1,12})?(?:e[+-]?\d{1,3})?[kmbt%]?", re.IGNORECASE)
_SPECIAL_TOKEN = lazy_pattern(r"</?\|?\w[\w /-]{0,40}\|?>", re.ASCII)
"""A vocabulary entry, such as `<|user|>`."""
_COUNTED = lazy_pattern(r"(?:token|key|id)$", re.IGNORECASE)
"""Names that can also refer to a vocabulary or table entry, whose value is a number."""
_SECRET_OPTION = lazy_pattern(
    r"(?:token|secret|pass|pwd|passphrase|credentials?|pat)$", re.IGNORECASE
)
_WORDS_OR_METAVAR = lazy_pattern(r"[a-z]+(?:[-_./][a-z]+)*|[A-Z]+(?:_[A-Z]+)*|.{0,5}", re.DOTALL)
"""Text after an option in a sentence or in its usage."""

Span = tuple[int, int]


def is_secret_value(name: str, value: str) -> bool:
    """Return True if the name shows that a value is a secret."""
    if not value or value.isspace() or _PLACEHOLDER.fullmatch(value[:_LONGEST_LOOK]):
        return False
    if is_vocabulary_value(name, value):
        return False
    if is_certain(name):
        # A path to a secret is not the secret, but a password may start like a path.
        return "pass" in name.lower() or not _is_path(value)
    return may_name_secret(name) and _is_random(value)


def is_vocabulary_value(name: str, value: object) -> bool:
    """Return True for `user_token: 32001`: a number or a vocabulary entry, not a secret."""
    if _COUNTED.search(name) is None or isinstance(value, bool):
        return False
    text = str(value)
    return bool(_NUMBER.fullmatch(text) or _SPECIAL_TOKEN.fullmatch(text))


def is_secret_argument(option: str, value: str) -> bool:
    """Return True if the option before a command-line argument shows that it is a secret."""
    if not option.startswith("-") or not value or value.startswith("--"):
        return False
    name = option.lstrip("-")
    if not (_SECRET_OPTION.search(name) and may_name_secret(name)):
        return is_secret_value(name, value)
    is_plain = _PLACEHOLDER.fullmatch(value[:_LONGEST_LOOK]) or is_vocabulary_value(name, value)
    return not is_plain and not _is_path(value)


def is_login(command: str, option: str, value: str) -> bool:
    """Return True for USER:PASSWORD after a curl option."""
    return command.endswith("curl") and option in _CURL_OPTIONS and ":" in value


def assigned_spans(text: str, low: str, redacted: str) -> Iterator[Span]:
    """Find values after the name of a secret; `low` is the text in lower case."""
    if "curl" in low:
        yield from (found.span(1) for found in _CURL_USER.finditer(text))
    if "wandb login" in low:
        yield from (found.span(1) for found in _LOGIN.finditer(low))
    if not any(word in low for word in _WORDS):
        return
    done = 0
    for word in _WORD.finditer(low):
        if word.start() < done:
            continue
        if word[0] == "bearer":
            after = _AFTER_BEARER.match(text, word.end())
            if after and _is_credential(after[1]):
                done = after.end()
                yield after.span(1)
            continue
        match = _ASSIGNED.match(text, word.end())
        if match is None or text.startswith(redacted, match.end()):
            continue
        done = word.end() + len(match["rest"])
        span = _value_span(text, _name_start(low, word), done, match)
        if span is not None:
            # The value may end with another name, as in `sig=--password VALUE`.
            done = max(span[0], span[1] - _LONGEST_NAME)
            yield span


def _name_start(low: str, word: re.Match[str]) -> int:
    """Find the start of the name that contains a word."""
    start, end = word.span()
    while start > 0 and end - start < _LONGEST_NAME and low[start - 1] in _NAME_CHARACTERS:
        start -= 1
    escape = _ESCAPE.match(low, start - 1, word.start()) if start else None
    return escape.end() if escape else start


def _value_span(text: str, start: int, end: int, match: re.Match[str]) -> Span | None:
    """Find the value after a name, if it is a secret."""
    written = text[start:end]
    name = written.lstrip("-.")
    begin = match.end()
    plain = name.lower()
    if plain in _COOKIES:
        return _cookie_span(text, match)
    if match["option"] is not None and not written.startswith("-"):
        return None
    if plain.endswith("authorization"):
        return _header_span(text, begin)
    pattern = _value_pattern(match)
    if not (plain in _PARAMETERS or plain == "auth" or is_certain(name) or may_name_secret(name)):
        return None
    is_option = written.startswith("--") and plain not in _PARAMETERS and plain != "auth"
    if not is_option and plain not in _PARAMETERS and plain != "auth" and not is_certain(name):
        # Most names that end in "token" or "key" are not secrets: examine only a few characters.
        looked = _RANDOM.match(text, begin, begin + _LONGEST_LOOK)
    else:
        looked = pattern.match(text, begin, begin + _LONGEST_LOOK)
    value = looked[0].rstrip(_CLOSING) if looked else ""
    if plain in _PARAMETERS:
        is_secret = len(value) >= 8 and "=" in text[end:begin] and plain != value.lower()
    elif plain == "auth":
        is_secret = _is_user_and_password(value)
    elif is_option:
        is_secret = is_secret_argument(written, value)
        is_secret = is_secret and (is_certain(name) or not _WORDS_OR_METAVAR.fullmatch(value))
    else:
        is_secret = is_secret_value(name, value)
    if not is_secret or (not match["quote"] and _is_prose(text, end, begin, value)):
        return None
    is_unquoted = pattern is _VALUES[""] and is_certain(name)
    return _whole_span(text, begin, _UNQUOTED if is_unquoted else pattern)


def _is_prose(text: str, end: int, begin: int, value: str) -> bool:
    """Return True for `HF_TOKEN: nobody gives it`: a colon, a word, and the rest of a sentence."""
    follows = text[begin + len(value) : begin + len(value) + 2]
    return text[end:begin] == ": " and value.isalpha() and follows[:1] == " " and follows.isascii()


def _header_span(text: str, begin: int) -> Span | None:
    """Find the credential in an Authorization header."""
    scheme = _SCHEMES.match(text, begin)
    start = scheme.end() if scheme else begin
    looked = _VALUES[""].match(text, start, start + _LONGEST_LOOK)
    value = looked[0].rstrip(_CLOSING) if looked else ""
    if not value or _PLACEHOLDER.fullmatch(value) or not (scheme or _is_credential(value)):
        return None
    return _whole_span(text, start, _VALUES[""])


def _whole_span(text: str, begin: int, pattern: re.Pattern[str]) -> Span:
    """Find the end of a secret value. The search continues after it."""
    whole = pattern.match(text, begin)
    last = whole.end() if whole else begin
    return begin, begin + len(text[begin:last].rstrip(_CLOSING))


def _cookie_span(text: str, match: re.Match[str]) -> Span | None:
    """Find the cookies in a header: up to its closing quote, or up to the end of the line."""
    begin = match.end()
    if not _COOKIE.match(text, begin):
        return None
    if match["escaped"] or match["quote"]:
        return _whole_span(text, begin, _value_pattern(match))
    end = text.find("\n", begin)
    return begin, len(text) if end < 0 else end


def _value_pattern(match: re.Match[str]) -> re.Pattern[str]:
    return _ESCAPED_VALUE if match["escaped"] else _VALUES[match["quote"]]


def _is_credential(value: str) -> bool:
    return len(value) >= 8 and _DIGIT.search(value) is not None


def _is_random(value: str) -> bool:
    """Return True if a value is not a word, a number, a path or a parameter name."""
    head = value[:_LONGEST_LOOK]
    if not _RANDOM.fullmatch(head) or _is_path(head) or not _DIGIT.search(head):
        return False
    return _is_mixed(head) or bool(_LETTER.search(head) and _RUN.fullmatch(head))


def _is_mixed(value: str) -> bool:
    return all(kind.search(value) for kind in (_DIGIT, _CAPITAL, _SMALL))


def _is_path(value: str) -> bool:
    """Return True for a path. Base64 contains slashes, so 1 in 64 keys also starts with a slash."""
    head = value[:_LONGEST_LOOK]
    if not head.startswith(_PATH):
        return False
    if not (_BASE64.fullmatch(head) and _is_mixed(head)):
        return True
    is_key = head.endswith("=") or "+" in head or len(head) in _LENGTHS
    is_key = is_key or len(_HUMP.findall(head)) > _MOST_HUMPS
    return not is_key and not any(
        len(part) >= _LONGEST_WORD and _is_mixed(part) for part in head.split("/")
    )


def _is_user_and_password(value: str) -> bool:
    """Return True for the format of a registry configuration: USER:PASSWORD in base64."""
    try:
        return len(value) >= 8 and b":" in b64decode(value, validate=True)
    except (Error, ValueError):
        return False
