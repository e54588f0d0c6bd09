# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Weights of a repository on the Hugging Face Hub, fetched to a directory; never a pickle.

The token comes from HF_TOKEN, or from the file that `hf auth login` writes, and goes nowhere else.
"""

from collections.abc import Callable
from pathlib import Path

from huggingface_hub import hf_hub_download, snapshot_download
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from seatrial.checkpoints.exchange.import_plan import CONFIG
from seatrial.codes.exchange import ExchangeCode, refusal
from seatrial.errors import FindingsError, SeatrialError
from seatrial.spec.addresses import tokenizer_name
from seatrial.storage.retries import described, passes

HUB = "hf://"
WEIGHTS = ("model*.safetensors", "model.safetensors.index.json", CONFIG)
"""What an import reads; a repository often holds the same weights in other formats as well."""


class UnreachedHubError(SeatrialError):
    """The Hub does not answer now; a later start may have more luck."""


def fetch_config(address: str, directory: Path) -> None:
    """Fetch the description of the model alone."""
    name, revision = tokenizer_name(address)
    _fetch(
        address,
        lambda: hf_hub_download(name, CONFIG, revision=revision or None, local_dir=directory),
    )


def fetch_weights(address: str, directory: Path) -> None:
    """Fetch everything that an import reads; files that are there already are not fetched again."""
    name, revision = tokenizer_name(address)
    wanted = list(WEIGHTS)
    _fetch(
        address,
        lambda: snapshot_download(
            name, revision=revision or None, local_dir=directory, allow_patterns=wanted
        ),
    )


def _fetch(address: str, fetch: Callable[[], str]) -> None:
    """Fetch; FindingsError where trying again would not help, UnreachedHubError where it may."""
    try:
        fetch()
    except Exception as error:
        explained = _explain(address, error)
        if explained is None:
            raise
        raise explained from error


_FINAL: tuple[tuple[type[Exception], str, str], ...] = (
    (
        GatedRepoError,
        "the repository is open only to those who accepted its conditions.",
        "Accept them on its page, and give pods HF_TOKEN by a secret (cluster.secrets).",
    ),
    (
        RevisionNotFoundError,
        "the repository has no such revision.",
        "Write a branch, tag or commit that its page shows, such as @main.",
    ),
    (
        RepositoryNotFoundError,
        "there is no such repository, or this account may not see it.",
        "Check the name; for a private one give pods HF_TOKEN by a secret (cluster.secrets).",
    ),
    (
        EntryNotFoundError,
        f"the repository has no {CONFIG}.",
        "Name a repository with weights for transformers.",
    ),
)
"""The Hub's errors that stay, each with its rule and its fix; the first that fits counts."""


def _explain(address: str, error: Exception) -> SeatrialError | None:
    """An error of the Hub's library in our words; None for one that is not about the Hub."""
    if isinstance(error, LocalEntryNotFoundError):
        return _unreached(address, error)
    for kind, rule, fix in _FINAL:
        if isinstance(error, kind):
            return _refused(address, rule, fix)
    if isinstance(error, HFValidationError | OfflineModeIsEnabled):
        fix = "Check the address and the variables of cluster.env; or give a directory."
        return _refused(address, f"it cannot be fetched: {described(error)}.", fix)
    if isinstance(error, HfHubHTTPError) and error.response.status_code in (401, 403):
        fix = "Give pods HF_TOKEN of an account that may read it, by a secret."
        return _refused(address, f"the Hub answers {error.response.status_code}.", fix)
    # What passes is of the HTTP library, which is the Hub's own choice.
    if isinstance(error, HfHubHTTPError) or passes(error):
        return _unreached(address, error)
    return None


def _refused(address: str, rule: str, fix: str) -> FindingsError:
    return refusal(ExchangeCode.NOT_GIVEN, address, rule, fix, address)


def _unreached(address: str, error: Exception) -> UnreachedHubError:
    return UnreachedHubError(
        f"{address}: the Hub did not give the weights: {described(error)}. Check that pods reach "
        "it; the next start goes on with what was fetched."
    )
