# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Rules about secrets that a run needs but the spec does not provide."""

import json
from collections.abc import Iterator

from seatrial.checks.facts import is_gated
from seatrial.checks.rule import Checked, Situation, proposed, static
from seatrial.checks.rules.environment_variables import without_variable
from seatrial.codes.checks import CheckCode
from seatrial.spec.monitoring import WandbMode

WANDB_KEY = "WANDB_API_KEY"
HUB_TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HUGGINGFACE_HUB_TOKEN")


def _receives(situation: Situation, names: tuple[str, ...]) -> bool:
    """True if a secret sets one of the variables in pods, or mounts files that may contain it."""
    secrets = situation.spec.cluster.secrets
    return any(secret.env in names or secret.mount is not None for secret in secrets)


def _with_secret(situation: Situation, secret: str, key: str, env: str) -> str:
    """Return the override that adds a secret to the secrets in the spec."""
    known = [ref.model_dump(exclude_none=True) for ref in situation.spec.cluster.secrets]
    return f"cluster.secrets={json.dumps([*known, {'secret': secret, 'key': key, 'env': env}])}"


def no_wandb_key(situation: Situation) -> Iterator[Checked]:
    """Report Weights & Biases in online mode without an API key."""
    wandb = situation.spec.monitoring.wandb
    if wandb is None or wandb.mode is not WandbMode.ONLINE or not situation.in_pods:
        return
    if not _receives(situation, (WANDB_KEY,)):
        yield situation.error(
            CheckCode.NO_WANDB_KEY,
            "monitoring.wandb",
            f"no secret sets {WANDB_KEY} in pods: wandb would prompt for it, but pods have no "
            "terminal.",
            f"Add {{secret: wandb, key: api-key, env: {WANDB_KEY}}} to cluster.secrets, with the "
            "name and key of your secret.",
            wandb.project,
            proposed(_with_secret(situation, "wandb", "api-key", WANDB_KEY)),
        )


def no_hub_token(situation: Situation) -> Iterator[Checked]:
    """Report a gated Hugging Face repository without a token."""
    if not situation.in_pods or _receives(situation, HUB_TOKENS):
        return
    weights = situation.spec.initial_weights
    wanted = {
        "initial_weights.huggingface": (weights.huggingface or "") if weights else "",
        "data.tokenizer": situation.plan.model.tokenizer,
    }
    for number, source in enumerate(situation.spec.data.sources or ()):
        wanted[f"data.sources[{number}].from"] = source.from_ or ""
    for field_name, address in wanted.items():
        name = address.removeprefix("hf://").partition("@")[0]
        if address.startswith("hf://") and is_gated(name):
            yield situation.warning(
                CheckCode.NO_HUB_TOKEN,
                field_name,
                f"{name} is gated, but no secret sets HF_TOKEN in pods: the Hub returns 401.",
                "Add {secret: huggingface, key: token, env: HF_TOKEN} to cluster.secrets, with the "
                "name and key of your secret.",
                address,
                proposed(_with_secret(situation, "huggingface", "token", "HF_TOKEN")),
            )
            return


def given_twice(situation: Situation) -> Iterator[Checked]:
    """Report a variable that is set by two secrets, or by a secret and `cluster.env`."""
    plain, seen = situation.spec.cluster.env, dict[str, int]()
    for number, secret in enumerate(situation.spec.cluster.secrets):
        name = secret.env
        if name is None:
            continue
        other, change = "", tuple[str, ...]()
        if name in plain:
            other, change = "cluster.env", (without_variable(situation, name),)
        elif name in seen:
            other = f"cluster.secrets[{seen[name]}]"
        if other:
            yield situation.error(
                CheckCode.GIVEN_TWICE,
                f"cluster.secrets[{number}].env",
                f"{name} is set here and in {other}: processes would get the last value, and "
                "server-side apply rejects an object with both.",
                "Remove one of them.",
                name,
                proposed(*change),
            )
        seen.setdefault(name, number)


RULES = (
    static(CheckCode.GIVEN_TWICE, look=given_twice),
    static(CheckCode.NO_WANDB_KEY, look=no_wandb_key),
    static(CheckCode.NO_HUB_TOKEN, look=no_hub_token),
)
