# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A new spec: whatever the wishes are, it reads back as what was asked for, or is refused."""

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial.catalog.catalog import Catalog
from seatrial.errors import FindingsError
from seatrial.findings import Finding
from seatrial.planning.resolve import resolve
from seatrial.recipes.starter import Wishes, starter
from seatrial.spec.loader import loads

WISHES = Wishes(name="new", model="gpt3-125m", profile="local")


@given(st.text(min_size=1))
@settings(max_examples=60, deadline=None)
def test_a_source_reads_back_as_it_was_written(catalog: Catalog, address: str) -> None:
    refused: tuple[Finding, ...] = ()
    text = ""
    try:
        text = starter(replace(WISHES, data=address), catalog).text
    except FindingsError as error:
        refused = error.findings
    if refused:
        assert {finding.where.field for finding in refused} == {"data.sources[0].from"}
        return
    (source,) = loads(text, "run.yaml").spec.data.sources or ()
    assert source.from_ == address


@pytest.mark.parametrize("name", ["true", "null", "e5", "new"])
def test_a_name_stays_text(catalog: Catalog, name: str) -> None:
    new = starter(replace(WISHES, name=name), catalog)
    assert loads(new.text, "run.yaml").spec.name == name


@pytest.mark.parametrize("tokens", ["1500000000", "2.5B", "1e10", "2_000_000_000"])
def test_a_count_stays_a_count(catalog: Catalog, tokens: str) -> None:
    new = starter(replace(WISHES, tokens=tokens), catalog)
    assert f"  tokens: {tokens}    #" in new.text


def test_a_rounded_batch_says_so(catalog: Catalog) -> None:
    wishes = replace(WISHES, model="gpt3-7.5b", profile="eks", node_type="p5.48xlarge")
    assert "would not divide" not in starter(replace(wishes, nodes=2), catalog).text
    assert re.search(
        r"global_batch_size: \d+    # .*; 512 would not divide by dp \d+\n",
        starter(replace(wishes, nodes=3), catalog).text,
    )


@pytest.mark.parametrize(
    ("changes", "account", "secret"),
    [
        ({"data": "s3://bucket/corpus"}, True, True),
        ({"data": "hf://datasets/a/b@main", "tokenizer": "hf://gpt2"}, False, True),
        ({"data": "s3://bucket/corpus", "tokenizer": "hf://gpt2"}, True, False),
        ({"profile": "local", "data": "s3://bucket/corpus"}, False, False),
        ({"model": "gpt3-125m"}, False, False),
    ],
)
def test_access_is_proposed_where_it_will_be_needed(
    catalog: Catalog, changes: dict[str, str], account: bool, secret: bool
) -> None:
    wishes = replace(Wishes(name="new", model="llama3-8b", profile="eks"), **changes)  # type: ignore[arg-type]
    text = starter(wishes, catalog).text
    assert ("# service_account: training" in text) == account
    assert ("env: HF_TOKEN" in text) == secret
    # The lines are right as they stand, once they are no comments any more.
    wanted = re.sub(r"^  # (?=(service_account|secrets):|  - \{)", "  ", text, flags=re.MULTILINE)
    loaded = loads(wanted, "run.yaml")
    assert resolve(loaded, catalog).spec.cluster.service_account == (
        "training" if account else None
    )
    assert len(loaded.spec.cluster.secrets) == secret
