# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Names of variables, keys and options that contain a secret."""

import re

from seatrial.secrets.lazy_pattern import lazy_pattern

_HINT = lazy_pattern("TOKEN|PASS|PWD|PAT|CRED|KEY|SECRET|CONN|SIGNATURE", re.IGNORECASE)
"""Every name that matches a pattern below contains one of these words; most names contain none."""
_SECRET_NAME = lazy_pattern(
    r"""
      (^|[_.-])(TOKEN|PASSWORD|PASSWD|PASSPHRASE|PASS|PWD|PAT|CREDENTIALS?)$
    | (^|[_-])ACCESS[_-]KEY[_-]ID$
    | (?-i:[a-z0-9](Token|Password|Passwd|Passphrase|Pass|Credentials?|Key)$)  # camel case
    | [_-]KEY$ | APIKEY$
    | SECRET(?![A-Z])
    | CONN(ECTION)?[_-]?STR(ING)?$
    """,
    re.IGNORECASE | re.VERBOSE,
)
_HARMLESS_NAME = lazy_pattern(
    r"""
      ^(NCCL|TORCH_NCCL|FI|OMP|UCX|GLOO)_(?!.*(SECRET|PASSWORD)$)
    | (^|[_-])(BOS|EOS|EOD|PAD|UNK|CLS|SEP|MASK|PREFIX|MIDDLE|SUFFIX)[_-]TOKEN$  # of a vocabulary
    | [_-]PER[_-]TOKEN$                                 # a number, such as of groups
    | [_-](PATH|FILE|DIR|NAME|ARN)$                      # the location of a secret, not the secret
    | (^|[_-])(PUBLIC|PRIMARY|FOREIGN|SORT|PARTITION|CACHE|TEXT|JSON)[_-]?KEY$
    """,
    re.IGNORECASE | re.VERBOSE,
)
_REFERENCES = frozenset({"secret", "image_pull_secret"})
"""Spec keys that contain the name of a secret."""

# In training output, a token is usually part of a text, and a key belongs to a mapping.
_CERTAIN_NAME = lazy_pattern(
    r"""
      PASSWORD$ | PASSWD$ | PASSPHRASE$ | (^|[_-])PWD$ | (DB|ROOT|SSH|MYSQL)[_-]?PASS$
    | (ACCESS|AUTH|API|REFRESH|SESSION|SECURITY|BEARER|ID|SAS|HF|HUB|GITHUB|GITLAB|GH|VAULT
       |PRIVATE|DEPLOY|BOT|APP|SERVICE|ACCOUNT|LOGIN|USER|ADMIN|WANDB|SLACK|JOB)[_-]?TOKEN$
    | (API|ACCESS|SECRET|PRIVATE|ACCOUNT|SIGNING|ENCRYPTION|MASTER|LICENSE|AUTH|WANDB|SERVICE)
      [_-]?KEY$
    | (SHARED|STORAGE)[_-]?(ACCESS|ACCOUNT)?[_-]?(KEY|SIGNATURE)$
    | ACCESS[_-]?KEY[_-]?ID$ | CLIENT[_-]KEY[_-]DATA$
    | [_-]SECRET$ | ^SECRET[_-] | CLIENTSECRET$ | (?-i:[a-z0-9]Secret$)
    | CONN(ECTION)?[_-]?STR(ING)?$
    """,
    re.IGNORECASE | re.VERBOSE,
)
_TEXT_TOKEN = lazy_pattern(
    r"(^|[_.-])(PAD|EOS|BOS|UNK|MASK|SEP|CLS|EOD|EOT|IMAGE|SPECIAL|NEXT|LAST|FIRST|PREV|INPUT"
    r"|OUTPUT|TARGET|END|START|STOP|BEGIN|OF|PER|EACH|DOCUMENT|TEXT|MAX|MIN|NUM|VOCAB|ADDED"
    r"|PREFIX|SUFFIX|MIDDLE|CONTROL|IGNORE|LABEL|PADDING|ACTIVE)[_-]?TOKEN$",
    re.IGNORECASE,
)


def has_hint(name: str) -> bool:
    """Return False if the name cannot show that its value is a secret. This is a quick check."""
    return _HINT.search(name) is not None


def _is_reference(name: str) -> bool:
    """True for a spec key that names a secret, also as an override: `cluster.image_pull_secret`."""
    return name.rpartition(".")[2] in _REFERENCES


def names_secret(name: str) -> bool:
    """Return True if a variable or key with this name contains a secret, such as `HF_TOKEN`."""
    if not has_hint(name) or _is_reference(name) or _HARMLESS_NAME.search(name):
        return False
    return _SECRET_NAME.search(name) is not None


def is_certain(name: str) -> bool:
    """Return True if any value after this name in a log is a secret."""
    if not has_hint(name) or _is_reference(name):
        return False
    if _HARMLESS_NAME.search(name) or _TEXT_TOKEN.search(name):
        return False
    if not name.isupper() or "_" not in name:
        return _CERTAIN_NAME.search(name) is not None
    # Few environment variables contain a text token or a mapping key.
    return names_secret(name)


def may_name_secret(name: str) -> bool:
    """Return True if a random-looking value after this name in a log is a secret."""
    return names_secret(name) and _TEXT_TOKEN.search(name) is None
