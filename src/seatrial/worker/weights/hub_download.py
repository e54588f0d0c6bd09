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
    _fetched(
        address,
        lambda: hf_hub_download(name, CONFIG, revision=revision or None, local_dir=directory),
    )


def fetch_weights(address: str, directory: Path) -> None:
    """Fetch everything that an import reads; files that are there already are not fetched again."""
    name, revision = tokenizer_name(address)
    wanted = list(WEIGHTS)
    _fetched(
        address,
        lambda: snapshot_download(
            name, revision=revision or None, local_dir=directory, allow_patterns=wanted
        ),
    )


def _fetched(address: str, fetch: Callable[[], str]) -> None:
    """Fetch; FindingsError where trying again would not help."""
    try:
        fetch()
    except GatedRepoError as error:
        rule = "the repository is open only to those who accepted its conditions."
        fix = "Accept them on its page, and give pods HF_TOKEN by a secret (cluster.secrets)."
        raise _refused(address, rule, fix) from error
    except RevisionNotFoundError as error:
        fix = "Write a branch, tag or commit that its page shows, such as @main."
        raise _refused(address, "the repository has no such revision.", fix) from error
    except RepositoryNotFoundError as error:
        rule = "there is no such repository, or this account may not see it."
        fix = "Check the name; for a private one give pods HF_TOKEN by a secret (cluster.secrets)."
        raise _refused(address, rule, fix) from error
    except (HFValidationError, OfflineModeIsEnabled) as error:
        fix = "Check the address and the variables of cluster.env; or give a directory."
        raise _refused(address, f"it cannot be fetched: {described(error)}.", fix) from error
    except LocalEntryNotFoundError as error:
        raise _unreached(address, error) from error
    except EntryNotFoundError as error:
        fix = "Name a repository with weights for transformers."
        raise _refused(address, f"the repository has no {CONFIG}.", fix) from error
    except HfHubHTTPError as error:
        status = error.response.status_code
        if status in (401, 403):
            fix = "Give pods HF_TOKEN of an account that may read it, by a secret."
            raise _refused(address, f"the Hub answers {status}.", fix) from error
        raise _unreached(address, error) from error
    except Exception as error:
        # Of the HTTP library, which is the Hub's own choice.
        if passes(error):
            raise _unreached(address, error) from error
        raise


def _refused(address: str, rule: str, fix: str) -> FindingsError:
    return refusal(ExchangeCode.NOT_GIVEN, address, rule, fix, address)


def _unreached(address: str, error: Exception) -> UnreachedHubError:
    return UnreachedHubError(
        f"{address}: the Hub did not give the weights: {described(error)}. Check that pods reach "
        "it; the next start goes on with what was fetched."
    )
