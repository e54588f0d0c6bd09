# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The facts that only the check needs: each with its source, and read as they are meant."""

import tomllib
from dataclasses import replace
from importlib.resources import files
from typing import Any

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.checks.check import check
from seatrial.checks.facts import Inside, inside_reference, is_gated, nccl_for
from seatrial.codes.checks import CheckCode
from tests.unit.checks.described import Described
from tests.unit.checks.examples import BASE


def entries() -> list[tuple[str, dict[str, Any]]]:
    """Every fact, with where it stands."""
    found = []
    for name in ("software_versions", "hub", "variables"):
        text = files("seatrial.checks").joinpath("data", f"{name}.toml").read_text("utf-8")
        for section, facts in tomllib.loads(text).items():
            listed = facts if isinstance(facts, list) else list(facts.values())
            for fact in listed:
                found += [(f"{name} {section}", part) for part in fact.get("releases", [fact])]
    return found


@pytest.mark.parametrize("where_and_fact", entries(), ids=lambda entry: str(entry)[:60])
def test_every_fact_has_its_source(where_and_fact: tuple[str, dict[str, Any]]) -> None:
    assert len(where_and_fact[1]["source"]) > 10


def test_a_release_tells_of_itself_and_its_patches() -> None:
    known = inside_reference("nvcr.io/nvidia/nemo:25.11")
    assert (known.engine, known.at_most) == ((0, 15, 0), False)
    assert inside_reference("nvcr.io/nvidia/nemo:25.11.01") == known


def test_a_release_that_is_not_listed_is_no_newer_than_the_next() -> None:
    # 24.12 was released, and no source was found for what it holds.
    between = inside_reference("nvcr.io/nvidia/nemo:24.12")
    listed = inside_reference("nvcr.io/nvidia/nemo:25.09")
    assert between == replace(listed, at_most=True)
    assert between.shown(between.engine) == "0.14.0 or older"
    for unknown in ("nvcr.io/nvidia/nemo:99.01", "nvcr.io/nvidia/nemo:dev"):
        assert inside_reference(unknown) == Inside()


def test_releases_are_listed_in_their_order() -> None:
    text = files("seatrial.checks").joinpath("data", "software_versions.toml").read_text("utf-8")
    for series in tomllib.loads(text)["series"]:
        tags = [release["tag"] for release in series["releases"]]
        assert tags == sorted(tags)


@pytest.mark.parametrize(
    ("image", "code", "words"),
    [
        ("nvcr.io/nvidia/pytorch:23.04-py3", CheckCode.OLD_TORCH, "PyTorch 2.2.0 or older"),
        ("nvcr.io/nvidia/nemo:23.08", CheckCode.OTHER_ENGINE, "megatron 0.7.0 or older"),
        ("nvcr.io/nvidia/nemo:25.04", CheckCode.KNOWN_HOLES, "megatron 0.14.0 or older"),
        ("team/megatron@sha256:abc", CheckCode.IMAGE_NAME, "sha256:abc is not a digest"),
        (
            "UPPER/Case:tag",
            CheckCode.IMAGE_NAME,
            "'Case' is not a valid repository name, which must",
        ),
        ("example.com/a//b:tag", CheckCode.IMAGE_NAME, "'a//b' is not a valid repository name"),
        ("example.com/a/b:-tag", CheckCode.IMAGE_NAME, "'-tag' is not a valid tag"),
    ],
)
def test_what_an_image_is_blamed_for(image: str, code: str, words: str) -> None:
    verdict = check(BASE, "run.yaml", Catalog(), (f"cluster.image={image}",))
    said = {found.code: found.rule for found in verdict.findings}
    assert words in said[code]


def test_tags_that_name_their_versions_are_read() -> None:
    found = inside_reference("mosaicml/llm-foundry:2.7.0_cu128_aws-latest")
    assert (found.torch, found.cuda) == ((2, 7, 0), (12, 8))


def test_gated_is_what_a_page_says_and_no_more() -> None:
    assert is_gated("google/gemma-2-9b")
    assert is_gated("bigcode/starcoder")
    assert is_gated("bigcode/starcoderbase-1b")
    assert not is_gated("bigcode/starcoder2-3b")
    assert not is_gated("google/gemma-4-27b")
    assert not is_gated("gpt2")


def known_holes(image: str) -> str:
    """What the check says of the vulnerabilities of an image."""
    verdict = check(BASE, "run.yaml", Catalog(), (f"cluster.image={image}",), data=Described())
    said = [found.rule for found in verdict.findings if found.code == CheckCode.KNOWN_HOLES]
    return said[0] if said else ""


def test_all_holes_of_a_version_are_named_with_the_first_version_without() -> None:
    said = known_holes("nvcr.io/nvidia/nemo:24.09")
    assert "CVE-2025-23264" in said
    assert "CVE-2026-24150" in said
    assert "Fixed in 0.17.1." in said
    later = known_holes("nvcr.io/nvidia/nemo:26.04")
    assert "CVE-2026-65180" in later
    assert "CVE-2026-24150" not in later


def test_an_old_nccl_is_told_where_it_was_found_not_to_work() -> None:
    assert nccl_for("efa", "Blackwell").fails == (2, 25)
    assert nccl_for("infiniband", "Blackwell").fails == ()
    on_efa = (
        "cluster.profile=eks",
        "cluster.node_type=p6-b200.48xlarge",
        "cluster.image=nvcr.io/nvidia/pytorch:25.03-py3",
    )
    verdict = check(BASE, "run.yaml", Catalog(), on_efa, data=Described())
    said = [found.rule for found in verdict.findings if found.code == CheckCode.OLD_FOR_GPU]
    assert said == [
        "NCCL 2.25 in the image does not work with the efa adapters of p6-b200.48xlarge; NCCL "
        "2.29 does."
    ]
