# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A user's own directory adds to the catalog and replaces single facts of it."""

from pathlib import Path

import pytest

from seatrial.catalog.catalog import Catalog, Kind, default_catalog, user_directory
from seatrial.errors import FindingsError, NotInCatalogError, UnreadableError, UsageError


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
    "unknown-fact": (
        '[x]\nlike = "p4d.24xlarge"\ngpuss = 8\n',
        "x.gpuss: gpuss is not a known fact.",
    ),
    "missing-fact": (
        '[x]\ntitle = "X"\nsource = "somewhere"\n',
        ":1 x.gpus: gpus is required but missing. Add gpus: GPUs per node.",
    ),
    "missing-part": (
        '[x]\nlike = "p4d.24xlarge"\n\n[x.price]\nusd_per_hour = 1\n',
        ":4 x.price.as_of: as_of is required but missing. Add as_of: Date on which",
    ),
    "unknown-part": (
        '[x]\nlike = "p4d.24xlarge"\n\n[x.price]\nusd = 1\n',
        ":5 x.price.usd: usd is not a known fact. The facts of price are: usd_per_hour, as_of,",
    ),
    "short-source": (
        '[x]\nlike = "p4d.24xlarge"\nsource = "us"\n',
        ":3 x.source: 'us' is too short for a source. State the source in at least 8 characters.",
    ),
    "out-of-range": (
        '[x]\nlike = "p4d.24xlarge"\ncpus = 0\n',
        ":3 x.cpus: must be above 0, not 0. Expected: Virtual CPUs per node.",
    ),
    "wrong-type": (
        '[x]\nlike = "p4d.24xlarge"\ngpus = "eight"\n',
        ":3 x.gpus: must be a whole number, not 'eight'. Expected: GPUs per node.",
    ),
    "wrong-choice": (
        '[x]\nlike = "p4d.24xlarge"\ncloud = "amazon"\n',
        ":3 x.cloud: 'amazon' is not a valid choice. Use one of: aws, azure, google, local.",
    ),
    "aliases-no-list": (
        '[x]\nlike = "p4d.24xlarge"\naliases = 5\n',
        ":3 x.aliases: must be a list in brackets, not 5. Expected: Other names for the entry",
    ),
    "unknown-like": (
        '[x]\nlike = "p9"\n',
        ":2 x.like: the field 'like' refers to 'p9', which does not exist. Use the name of an "
        "entry of the same kind.",
    ),
    "like-half-a-name": ('[x]\nlike = "p5"\n', "Did you mean p5.48xlarge?"),
    "like-no-text": (
        "[x]\nlike = 5\n",
        "x.like: the field 'like' refers to 5, which does",
    ),
    "like-itself": (
        '[x]\nlike = "y"\n[y]\nlike = "z"\n[z]\nlike = "y"\n',
        ":4 y.like: like forms a cycle: y -> z -> y. Define one of these entries without like.",
    ),
    "no-table": ("x = 1\n", ":1 x: every entry must be a table with its own name."),
    "dots-without-quotes": (
        "[x.24xlarge]\ngpus = 8\n",
        ":1 x.24xlarge: TOML reads the dots in [x.24xlarge] as nested tables. "
        'Put the name in quotes: ["x.24xlarge"].',
    ),
    "more-dots-without-quotes": (
        "[ml.x.24xlarge]\ngpus = 8\n[ml.x.24xlarge.price]\nusd_per_hour = 1\n",
        'Put the name in quotes: ["ml.x.24xlarge"].',
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_entry_is_named_with_its_file(tmp_path: Path, name: str) -> None:
    text, expected = BAD[name]
    with pytest.raises(FindingsError) as caught:
        write(tmp_path, "node_types.toml", text).node_type("x")
    lines = [finding.one_line() for finding in caught.value.findings]
    assert any(expected in line and str(tmp_path) in line for line in lines), lines


def test_a_file_that_is_not_toml_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        UnreadableError, match=r"fabrics\.toml:1:1: the catalog file cannot be read: [^(]*\. Fix"
    ):
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
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("SEATRIAL_CATALOG", "~/facts")
    assert user_directory() == Path("/home/me/facts")


def test_half_a_node_type_gets_the_whole(catalog: Catalog) -> None:
    with pytest.raises(NotInCatalogError, match=r"Did you mean p5\.48xlarge\?"):
        catalog.node_type("p5")


def test_aliases_that_are_no_list_do_not_stop_a_lookup(tmp_path: Path) -> None:
    mine = write(tmp_path, "node_types.toml", '[x]\nlike = "p4d.24xlarge"\naliases = 5\n')
    assert mine.node_type("p4d.24xlarge").gpus == 8
    with pytest.raises(NotInCatalogError):
        mine.node_type("q9")


def test_like_goes_through_several_entries_in_any_order(tmp_path: Path) -> None:
    mine = write(
        tmp_path,
        "node_types.toml",
        '[c]\nlike = "b"\ncpus = 3\n[b]\nlike = "a"\ngpus = 2\n'
        '[a]\nlike = "p4d.24xlarge"\ngpus = 1\ncpus = 1\naliases = ["first"]\n',
    )
    node = mine.node_type("c")
    assert (node.cpus, node.gpus, node.nics, node.aliases) == (3, 2, 4, ())
    assert mine.canonical(Kind.NODE_TYPES, "first") == "a"


def test_a_price_is_replaced_as_a_whole(tmp_path: Path) -> None:
    mine = write(tmp_path, "node_types.toml", '["p4d.24xlarge".price]\nusd_per_hour = 12.5\n')
    with pytest.raises(FindingsError) as caught:
        mine.node_type("p4d.24xlarge")
    assert [finding.where.field.rpartition(".")[2] for finding in caught.value.findings] == [
        "as_of",
        "region",
        "source",
    ]
    assert {finding.where.line for finding in caught.value.findings} == {1}


@pytest.mark.parametrize("name", ["node_types.toml", "node-types.toml"])
def test_a_file_is_named_by_its_kind_with_hyphen_or_underscore(tmp_path: Path, name: str) -> None:
    mine = write(tmp_path, name, '[x]\nlike = "p4d.24xlarge"\ngpus = 2\n')
    assert mine.node_type("x").gpus == 2


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("nodetypes.toml", "Rename it to node_types.toml."),
        ("zebra.toml", "Use one of: models.toml, accelerators.toml, node_types.toml, "),
    ],
)
def test_a_file_of_no_kind_is_a_finding(tmp_path: Path, name: str, fix: str) -> None:
    mine = write(tmp_path, name, "")
    with pytest.raises(FindingsError, match="not match a kind of catalog entry") as caught:
        mine.names(Kind.MODELS)
    (finding,) = caught.value.findings
    assert finding.where.file == str(tmp_path / name)
    assert finding.fix.startswith(fix)
    assert mine.check() == [finding]


def test_two_files_of_one_kind_are_a_finding(tmp_path: Path) -> None:
    (tmp_path / "node_types.toml").write_text("")
    with pytest.raises(FindingsError, match=r"node-types\.toml:1: node_types\.toml exists too"):
        write(tmp_path, "node-types.toml", "").names(Kind.NODE_TYPES)


def test_a_profile_gets_more_node_types(tmp_path: Path, catalog: Catalog) -> None:
    (tmp_path / "node_types.toml").write_text('[ours]\nlike = "p5.48xlarge"\n')
    mine = write(tmp_path, "profiles.toml", '[eks]\nextra_node_types = ["ours", "p5.48xlarge"]\n')
    assert mine.profile("eks").node_types == (*catalog.profile("eks").node_types, "ours")
    assert mine.check() == []


def test_check_names_who_refers_to_what(tmp_path: Path) -> None:
    (tmp_path / "node_types.toml").write_text(
        '[ours]\nlike = "p5.48xlarge"\naccelerator = "h100"\nfabric = "carrier-pigeon"\n'
    )
    mine = write(
        tmp_path,
        "profiles.toml",
        '[lab]\nlike = "eks"\nnode_types = ["p9"]\n\n[lab.images]\nmegatron = "none-such"\n',
    )
    found = [finding.one_line() for finding in mine.check()]
    nodes, profiles = tmp_path / "node_types.toml", tmp_path / "profiles.toml"
    assert found == [
        f"{nodes}:3 ours.accelerator: the node type ours refers to the accelerator 'h100', which "
        "is not in the catalog. Did you mean h100-80gb?",
        f"{nodes}:4 ours.fabric: the node type ours refers to the fabric 'carrier-pigeon', which "
        "is not in the catalog. To list the names, run seatrial catalog list fabrics.",
        f"{profiles}:3 lab.node_types: the profile lab refers to the node type 'p9', which is "
        "not in the catalog. To list the names, run seatrial catalog list node-types.",
        f"{profiles}:6 lab.images.megatron: the profile lab refers to the image 'none-such', "
        "which is not in the catalog. To list the names, run seatrial catalog list images.",
        f"{profiles}:1 lab.default_node_type: the default p5.48xlarge of the profile lab is not "
        "in its node_types. Add the default to node_types, or choose a default from node_types.",
    ]


def test_check_goes_on_after_what_it_cannot_read(tmp_path: Path) -> None:
    (tmp_path / "fabrics.toml").write_text("= nothing")
    (tmp_path / "storage.toml").write_text('[x]\nlike = "x"\n')
    mine = write(tmp_path, "models.toml", '[y]\nlike = "llama3-8b"\ntp_size = 0\n')
    found = mine.check()
    assert [finding.code for finding in found] == [
        "ST-CATALOG-002",
        "ST-CATALOG-001",
        "ST-CATALOG-003",
    ]
    assert all(finding.where.file and finding.where.line for finding in found)


def test_a_named_directory_that_does_not_exist_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEATRIAL_CATALOG", str(tmp_path / "fatcs"))
    default_catalog.cache_clear()
    with pytest.raises(UsageError, match="which is not a directory"):
        default_catalog()
