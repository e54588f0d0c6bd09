# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Download a config.json from the Hugging Face Hub, without its library and without remote code.

The token comes from HF_TOKEN, or from the file that `hf auth login` writes. It is sent only to the
Hub: HF_ENDPOINT, or huggingface.co. A redirect to another host is refused.
"""

import os
import re
import time
from contextlib import suppress
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from seatrial.codes.huggingface import HubConfigCode, config_refusal
from seatrial.errors import FindingsError
from seatrial.storage.state_files import DamagedError, parse_json

LARGEST_ANSWER = 1 << 20
TIMEOUT_SECONDS = 20.0
"""Timeout of a single read."""
DEADLINE_SECONDS = 60.0
"""How long a file may take in all; a slow server could otherwise send a byte per read."""
_OFFLINE = "Download config.json where the Hub can be reached, and use its path instead."


def download_config(name: str, commit: str, most: int) -> bytes:
    """Return the config.json of a repository at a commit; refuse one of more than `most` bytes."""
    path = f"/{quote(name)}/resolve/{commit}/config.json"
    return _get(path, f"{name}@{commit}", most)


def commit_of(name: str, revision: str) -> str:
    """Return the commit of a branch, a tag or an abbreviated commit."""
    where = f"{name}@{revision}"
    path = f"/api/models/{quote(name)}/revision/{quote(revision, safe='')}"
    answer = _get(path, where, LARGEST_ANSWER)
    with suppress(DamagedError, AttributeError):
        commit = parse_json(answer).get("sha")
        if isinstance(commit, str) and re.fullmatch("[0-9a-f]{40}", commit):
            return commit
    raise _refused(where, "the Hub did not answer with a commit.", "Check HF_ENDPOINT.")


def endpoint() -> str:
    """Return the address of the Hub."""
    return os.environ.get("HF_ENDPOINT", "").rstrip("/") or "https://huggingface.co"


def _token(where: str) -> str:
    """Return the user's token; empty if there is none. Messages never contain any part of it."""
    token = _find_token()
    if not re.fullmatch("[!-~]*", token):
        rule = "the Hugging Face token contains characters that no token has, such as a line break."
        raise _refused(where, rule, "Set HF_TOKEN to the token alone, or run hf auth login.")
    return token


def _find_token() -> str:
    if token := os.environ.get("HF_TOKEN", "").strip():
        return token
    home = os.environ.get("HF_HOME") or str(Path.home() / ".cache" / "huggingface")
    file = os.environ.get("HF_TOKEN_PATH") or str(Path(home) / "token")
    with suppress(OSError, UnicodeDecodeError):
        return Path(file).read_text("utf-8").strip()
    return ""


class _SameHost(HTTPRedirectHandler):
    """Follows redirects on the same host only, because requests carry the token."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> Request | None:
        before, after = urlsplit(req.full_url), urlsplit(newurl)
        if (before.scheme, before.netloc) != (after.scheme, after.netloc):
            fp.close()
            raise URLError(f"it redirects to another host, {after.hostname}")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _get(path: str, where: str, most: int) -> bytes:
    """Return the content of a small file on the Hub; raise FindingsError with the reason."""
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "TRUE", "YES", "ON"):
        raise _refused(where, "HF_HUB_OFFLINE forbids the download.", _OFFLINE)
    hub = endpoint()
    if not hub.startswith(("https://", "http://")):
        raise _refused(where, f"HF_ENDPOINT is {hub}.", "Use an address that starts with https://.")
    token = _token(where)
    try:
        request = Request(hub + path, headers=_headers(hub, token))  # noqa: S310  (checked above)
        deadline = time.monotonic() + DEADLINE_SECONDS
        with build_opener(_SameHost).open(request, timeout=TIMEOUT_SECONDS) as answer:
            data = _read(answer, most + 1, deadline)
    except HTTPError as error:
        with error:
            raise _explained(where, error) from None
    except (URLError, OSError, HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        rule = f"{hub} cannot be reached: {reason}."
        raise _refused(where, rule, f"Check the network and HF_ENDPOINT. {_OFFLINE}") from None
    except ValueError:
        # The error may contain headers.
        rule = f"{hub}, or an address that it redirects to, is not a valid address."
        raise _refused(where, rule, "Check HF_ENDPOINT.") from None
    if len(data) > most:
        raise _refused(where, "the file is too large for a config.json.", "Check the name.")
    return data


def _headers(hub: str, token: str) -> dict[str, str]:
    """Return the headers of a request; the token is sent only over an encrypted connection."""
    is_private = hub.startswith("https://") or urlsplit(hub).hostname in ("127.0.0.1", "localhost")
    headers = {"User-Agent": "seatrial"}
    return headers | ({"Authorization": f"Bearer {token}"} if token and is_private else {})


def _read(answer: HTTPResponse, most: int, deadline: float) -> bytes:
    """Return up to `most` bytes; raise TimeoutError at the deadline."""
    data = b""
    while len(data) < most and (part := answer.read1(most - len(data))):
        data += part
        if time.monotonic() > deadline:
            raise TimeoutError(f"the download took longer than {DEADLINE_SECONDS:.0f} s")
    return data


def _explained(where: str, error: HTTPError) -> FindingsError:
    code = error.headers.get("X-Error-Code", "")
    if error.code == 403 or code == "GatedRepo":
        rule = "the repository is gated, and your token has no access."
        return _refused(where, rule, "Accept its conditions on its page, and set HF_TOKEN.")
    if code == "EntryNotFound":
        return _refused(where, "the repository has no config.json.", "Use another repository.")
    if code == "RevisionNotFound":
        fix = "Use a commit from the repository's page."
        return _refused(where, "the repository has no such revision.", fix)
    if error.code in (401, 404):
        rule = "the repository does not exist, or your token has no access."
        return _refused(where, rule, "Check the name. If it is private or gated, set HF_TOKEN.")
    return _refused(where, f"the Hub answered {error.code}.", f"Try again later. {_OFFLINE}")


def _refused(where: str, rule: str, fix: str) -> FindingsError:
    return config_refusal(HubConfigCode.NOT_FETCHED, where, "", rule, fix)
