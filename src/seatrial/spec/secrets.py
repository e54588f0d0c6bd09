# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Secrets: how one is recognised in a text, so that it is refused and never printed."""

import re

_SECRETS = re.compile(
    r"""
      hf_[A-Za-z0-9]{20,}                 # Hugging Face
    | (AKIA|ASIA)[0-9A-Z]{16}             # AWS access key
    | gh[pousr]_[A-Za-z0-9]{30,}          # GitHub
    | sk-[A-Za-z0-9_-]{20,}               # several API providers
    # JSON web token; the lookbehind keeps the search linear in a long text without one
    | (?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.
    | [?&](sig|X-Amz-Signature)=[^&\s]+    # signed addresses
    | ://[^/\s:@]+:[^/\s@]+@               # user:password@ in an address
    | (?i:AccountKey|SharedAccessKey)=[A-Za-z0-9+/=]{20,}  # Azure connection strings
    | wandb_v1_[A-Za-z0-9_]{20,}           # Weights & Biases
    | -----BEGIN\ [A-Z\ ]*PRIVATE\ KEY-----
    """,
    re.VERBOSE,
)
# Elsewhere a name before @ is common and harmless, as in ssh://git@host.
_USERS = re.compile(r"://[^/?#\s'\"]*@")
_ADDRESS_NAME = "tracking_uri"
"""The key of the spec whose address may hold a token where a user's name stands."""
# An older key of Weights & Biases looks like the commit of a repository: the name decides.
_HEX_KEY = re.compile(r"[0-9a-f]{40}")
_COMMIT_NAME = re.compile(r"COMMIT|REVISION|SHA|HASH|DIGEST|(^|[_-])REV(ISION)?$", re.IGNORECASE)

_SECRET_NAME = re.compile(
    r"""
      (^|[_-])(TOKEN|PASSWORD|PASSWD|PASSPHRASE|PASS|PWD|PAT|CREDENTIALS?)$
    | (^|[_-])ACCESS[_-]KEY[_-]ID$
    | (?-i:[a-z0-9](Token|Password|Passwd|Passphrase|Pass|Credentials?|Key)$)  # camel case
    | [_-]KEY$ | APIKEY$
    | SECRET(?![A-Z])
    | CONN(ECTION)?[_-]?STR(ING)?$
    """,
    re.IGNORECASE | re.VERBOSE,
)
_HARMLESS_NAME = re.compile(
    r"""
      ^(NCCL|TORCH_NCCL|FI|OMP|UCX|GLOO)_
    | [_-](PATH|FILE|DIR|NAME|ARN)$                      # where a secret lies, not the secret
    | (^|[_-])(PUBLIC|PRIMARY|FOREIGN|SORT|PARTITION|CACHE|TEXT|JSON)[_-]?KEY$
    """,
    re.IGNORECASE | re.VERBOSE,
)
_REFERENCES = frozenset({"secret", "image_pull_secret"})
"""Keys of the spec that hold a secret's name."""

REDACTED = "(not shown)"
"""What stands in a message instead of a value that may be a secret."""

_LONGEST = 60


def looks_secret(text: object, name: str = "") -> bool:
    """Whether a value has the form of a known kind of secret; `name` is what it is called."""
    if not isinstance(text, str):
        return False
    if _HEX_KEY.fullmatch(text):
        return _COMMIT_NAME.search(name) is None
    if name == _ADDRESS_NAME and _USERS.search(text):
        return True
    return _SECRETS.search(text) is not None


def without_users(text: str) -> str:
    """The text with what stands before the @ of addresses taken out: users, passwords, tokens."""
    return _USERS.sub("://", text)


def names_secret(name: str) -> bool:
    """Whether a variable or key of this name holds a secret, such as `HF_TOKEN`."""
    if name in _REFERENCES or _HARMLESS_NAME.search(name):
        return False
    return _SECRET_NAME.search(name) is not None


def gives_variable(references: object, name: str) -> bool:
    """Whether one of the items of cluster.secrets, as written, gives pods this variable."""
    listed = references if isinstance(references, list) else []
    return any(isinstance(item, dict) and item.get("env") == name for item in listed)


def shown(value: object, path: tuple[str | int, ...] = ()) -> str:
    """The value for a message, shortened; not shown when it, or its place, smells of a secret."""
    name = str(path[-1]) if path else ""
    if looks_secret(value, name) or names_secret(name):
        return REDACTED
    if isinstance(value, dict):
        return "a section"
    if isinstance(value, list | tuple):
        return "a list"
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _shortened(value)
    text = str(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def shown_key(key: str) -> str:
    """The key for a message: in quotes, with escapes, when it could not be read otherwise."""
    if looks_secret(key):
        return REDACTED
    plain = key.isprintable() and key == key.strip() and 0 < len(key) <= _LONGEST
    return key if plain else _shortened(key)


def _shortened(text: str) -> str:
    """The text in quotes, with escapes for what cannot be printed."""
    return repr(text) if len(text) <= _LONGEST else repr(text[: _LONGEST - 3] + "...")
