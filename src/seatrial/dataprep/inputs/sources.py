# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The sources of a plan by name, and the settings that determine the output."""

import re

from seatrial.dataprep.inputs.selection import without_ending
from seatrial.dataprep.tasks.task_list import SourceSettings, TaskSettings, Tokenizer
from seatrial.errors import UsageError
from seatrial.planning.plan import Plan
from seatrial.spec.data import DataSource


def named_sources(plan: Plan) -> list[tuple[str, DataSource]]:
    """Return all sources of a plan with unique names, as given or derived from the address."""
    sources = plan.spec.data.sources or ()
    taken = {source.name for source in sources if source.name}
    named = []
    for source in sources:
        name = source.name
        if name is None:
            base = name = _made_name(source.from_ or source.prepared or "")
            number = 2
            while name in taken:
                name, number = f"{base}-{number}", number + 1
            taken.add(name)
        named.append((name, source))
    return named


def _made_name(address: str) -> str:
    """Derive a name from the last meaningful part of an address, in portable characters."""
    path = address.partition("://")[2] or address
    if address.startswith("hf://"):
        path = path.partition("@")[0]
    parts = [part for part in re.split(r"[/\\]", path) if part.strip(".*?[]{}")]
    last = without_ending(parts[-1]) if parts else ""
    name = re.sub(r"[^a-z0-9._-]+", "-", last.lower()).strip("._-")
    return name or "source"


def raw_sources(plan: Plan) -> list[tuple[str, DataSource]]:
    """Return the sources of raw text; raise an error if there are none to prepare."""
    if plan.spec.data.mock:
        raise UsageError(
            "data.mock is true: the engine generates its data, so there is no data to prepare."
        )
    raw = [(name, source) for name, source in named_sources(plan) if source.from_ is not None]
    if not raw:
        raise UsageError(
            "every source is already prepared. Add raw text with data.sources[0].from, or continue "
            "with the run."
        )
    if not plan.model.tokenizer:
        raise UsageError("data.tokenizer is not set. Set it, for example data.tokenizer=hf://gpt2.")
    return raw


def settings_of(plan: Plan, tokenizer: Tokenizer) -> TaskSettings:
    """Return all settings that the output depends on, besides the inputs."""
    policies = plan.spec.data.preparation
    return TaskSettings(
        tokenizer=tokenizer,
        sources=tuple(
            SourceSettings(name, source.text_field, source.domain_field)
            for name, source in raw_sources(plan)
        ),
        empty_documents=policies.empty_documents,
        end_token_in_text=policies.end_token_in_text,
        largest_bad_share=policies.largest_bad_share,
    )
