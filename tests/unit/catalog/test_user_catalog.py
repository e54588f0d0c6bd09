# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A user's own directory adds to the catalog and replaces single facts of it."""

from pathlib import Path

import pytest

from seatrial.catalog.catalog import Catalog, Kind, user_directory
from seatrial.errors import FindingsError, NotInCatalogError, UnreadableError


def write(directory: Path, name: str, text: str) -> Catalog:
    (directory / name).write_text(text)
    return Catalog([directory])


def test_a_price_is_replaced_and_the_rest_stays(tmp_path: Path, catalog: Catalog) -> None:
    mine = write(
        tmp_path,
        "node_types.toml",
        '["p4d.24xlarge".price]\nusd_per_hour = 12.5\nas_of = 2026-11-01\n'
        'region = "us-east-1"\nsource = "our contract"\n',
    )
    node = mine.node_type("p4d.24xlarge")
    assert node.price is not None
    assert node.price.usd_per_hour == 12.5
    assert node.gpus == catalog.node_type("p4d.24xlarge").gpus
    assert mine.origin(Kind.NODE_TYPES, "p4d.24xlarge") == tmp_path / "node_types.toml"


def test_an_entry_is_added_like_another(tmp_path: Path) -> None:
    mine = write(
        tmp_path,
        "node_types.toml",
        '[our-dgx]\nlike = "p4d.24xlarge"\ntitle = "Our DGX"\nfabric = "infiniband"\n'
        'source = "our data centre"\n',
    )
    node = mine.node_type("our-dgx")
    assert (node.gpus, node.fabric, node.price) == (8, "infiniband", None)


BAD = {
    "unknown-fact": ('[x]\nlike = "p4d.24xlarge"\ngpuss = 8\n', "x.gpuss: there is no such fact."),
    "missing-fact": ('[x]\ntitle = "X"\nsource = "somewhere"\n', "x.gpus: Field required."),
    "unknown-like": ('[x]\nlike = "p9"\n', "x.like: there is no 'p9' to be like."),
    "no-table": ("x = 1\n", "x: every entry is a table with a name of its own."),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_entry_is_named_with_its_file(tmp_path: Path, name: str) -> None:
    text, expected = BAD[name]
    with pytest.raises(FindingsError) as caught:
        write(tmp_path, "node_types.toml", text).node_type("x")
    lines = [finding.one_line() for finding in caught.value.findings]
    assert any(expected in line and str(tmp_path) in line for line in lines), lines


def test_a_file_that_is_not_toml_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match=r"fabrics\.toml: the catalog file cannot be read"):
        write(tmp_path, "fabrics.toml", "= nothing").names(Kind.FABRICS)


def test_an_unknown_name_gets_the_nearest(catalog: Catalog) -> None:
    with pytest.raises(NotInCatalogError, match=r"Did you mean p4d\.24xlarge\?"):
        catalog.node_type("p4d.24xlage")


def test_where_a_users_catalog_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SEATRIAL_CATALOG")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/settings")
    assert user_directory() == Path("/settings/seatrial/catalog")
    monkeypatch.setenv("SEATRIAL_CATALOG", "/mine")
    assert user_directory() == Path("/mine")
