# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Whether an API server takes an object, asked strictly and without keeping it."""

from collections.abc import Iterable
from dataclasses import dataclass

from seatrial.rendering.manifest import Manifest
from tests.cluster.http_api import STRICT, Api


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a server says of an object."""

    refusal: str
    """Why it refuses it; empty when it does not."""
    warnings: tuple[str, ...]
    """What it warns of."""


def verdict(api: Api, manifest: Manifest) -> Verdict:
    """Ask both ways in which objects come: created, and applied on the server's side.

    Every field must be known. Applying finds entries that name the same key twice, which creating
    does not.
    """
    try:
        answers = (api.create(manifest, STRICT), api.apply(manifest, STRICT))
    except LookupError as error:
        return Verdict(str(error), ())
    refusal = next((answer.message for answer in answers if not answer.accepted), "")
    warnings = dict.fromkeys(warning for answer in answers for warning in answer.warnings)
    return Verdict(refusal, tuple(warnings))


def make_namespaces(api: Api, manifests: Iterable[Manifest]) -> None:
    """Create the namespaces that objects are in."""
    names = {each["metadata"].get("namespace", "default") for each in manifests} - {"default"}
    for name in sorted(names):
        answer = api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        if not answer.accepted:
            raise RuntimeError(answer.message)
