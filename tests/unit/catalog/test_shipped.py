# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The shipped facts: every one has a source, and names lead somewhere."""

import re

import pytest

from seatrial.catalog.catalog import ENTRY_TYPES, Catalog, Kind
from seatrial.catalog.fabrics import Fabric
from seatrial.catalog.models import ModelPreset
from seatrial.spec.model import Architecture
from seatrial.spec.model_parts import MixtureOfExperts

ALL = [(kind, name) for kind in Kind for name in Catalog().names(kind)]

CITATION = re.compile(
    r"https://\S+|arXiv[: ]\d{4}\.\d{5}|[\w.-]+/[\w.-]+@[\w.-]+( \S+)?|^definition"
)
"""An address, a paper, repository@commit with a path, or something that we define ourselves."""


@pytest.mark.parametrize(("kind", "name"), ALL, ids=lambda part: str(part))
def test_every_fact_has_a_source(catalog: Catalog, kind: Kind, name: str) -> None:
    entry = catalog.entry(kind, name)
    known = set(ENTRY_TYPES[kind].model_fields)
    if isinstance(entry, ModelPreset):
        known |= set(Architecture.model_fields) | set(MixtureOfExperts.model_fields)
    cited = [entry.source, *entry.sources.values()]
    if isinstance(entry, Fabric):
        cited += [variable.source for variable in entry.environment]
        cited += [variable.source for variable in entry.avoid]
    price = getattr(entry, "price", None)
    if price is not None:
        cited.append(price.source)
    for source in cited:
        assert CITATION.search(source), source
    assert {key.partition(".")[0] for key in entry.sources} <= known


def test_names_and_aliases_are_unique(catalog: Catalog) -> None:
    for kind in Kind:
        names = catalog.names(kind)
        names += [
            alias for name in catalog.names(kind) for alias in catalog.entry(kind, name).aliases
        ]
        assert len(names) == len(set(names)), kind


def test_every_entry_is_valid_and_refers_to_what_exists(catalog: Catalog) -> None:
    assert catalog.check() == []


def test_facts_agree_across_kinds(catalog: Catalog) -> None:
    for name in catalog.names(Kind.NODE_TYPES):
        node = catalog.node_type(name)
        assert (node.fabric_resource_count > 0) == bool(node.fabric_resource), name
        assert (node.gpus > 0) == bool(node.accelerator), name
    for name in catalog.names(Kind.PROFILES):
        profile = catalog.profile(name)
        for node_type in profile.node_types:
            assert catalog.node_type(node_type).cloud == profile.cloud
        for tier in profile.storage:
            assert catalog.storage(tier).cloud in (profile.cloud, "local")
        for engine, image in profile.images.items():
            assert catalog.image(image).engine == engine


def test_no_variable_is_both_set_and_avoided(catalog: Catalog) -> None:
    for name in catalog.names(Kind.FABRICS):
        fabric = catalog.fabric(name)
        for wanted in fabric.environment:
            for harmful in fabric.avoid:
                same = wanted.name == harmful.name and harmful.value in ("", wanted.value)
                apart = (
                    wanted.node_types
                    and harmful.node_types
                    and not set(wanted.node_types) & set(harmful.node_types)
                )
                assert not same or apart, (name, wanted.name)


def test_an_image_whose_tag_moves_says_so_and_is_no_default(catalog: Catalog) -> None:
    images = {name: catalog.image(name) for name in catalog.names(Kind.IMAGES)}
    for name, image in images.items():
        _, _, tag = image.reference.rpartition(":")
        assert image.floating == ("latest" in tag), name
    for name in catalog.names(Kind.PROFILES):
        defaults = catalog.profile(name).images.values()
        assert not [image for image in defaults if images[image].floating], name


def test_an_image_that_cannot_be_pulled_says_so(catalog: Catalog) -> None:
    planned = [catalog.image(name) for name in catalog.names(Kind.IMAGES)]
    planned = [image for image in planned if not image.published]
    assert planned
    words = ("not published", "never built", "planned")
    assert all(any(word in image.note.lower() for word in words) for image in planned)


def test_g5_of_four_gpus_is_in_the_profiles(catalog: Catalog) -> None:
    assert "g5.12xlarge" in catalog.profile("eks").node_types
    assert "ml.g5.12xlarge" in catalog.profile("hyperpod-eks").node_types


def test_a_twin_of_hyperpod_asks_for_as_many_devices_and_names_the_conflict(
    catalog: Catalog,
) -> None:
    twin = catalog.node_type("ml.p6e-gb200.36xlarge")
    assert twin.fabric_resource_count == 4
    assert twin.fabric_resource == "vpc.amazonaws.com/efa"
    assert "disagree" in twin.note


ASKED_FOR = {
    Kind.MODELS: "175b 30b 13b 1.3b 857m 375m 125m gpt3-1.7b gpt3-3.6b gpt3-7.5b gpt3-18.4b "
    "gpt3-39.1b gpt3-76.1b gpt3-145.6b gpt3-310.1b gpt2-large gpt2-xl mpt-125m mpt-350m mpt-760m "
    "mpt-1b mpt-3b mpt-7b mpt-13b mpt-30b mpt-70b llama2-7b llama2-13b llama2-70b llama3-8b "
    "llama3-70b llama3-405b mixtral-8x7b mixtral-8x22b qwen3-30b-a3b qwen3-235b-a22b",
    Kind.ACCELERATORS: "a10g rtx-a6000 rtx-4090 l40s a100-40gb a100-80gb h100-80gb h200-141gb b200 "
    "b300 gb200 gb300",
    Kind.NODE_TYPES: "p4d.24xlarge p4de.24xlarge p5.48xlarge p5e.48xlarge p5en.48xlarge "
    "p6-b200.48xlarge p6-b300.48xlarge p6e-gb200.36xlarge g5.8xlarge ml.p4d.24xlarge "
    "ml.p5.48xlarge Standard_ND96asr_v4 Standard_ND96amsr_A100_v4 Standard_ND96isr_H100_v5 "
    "Standard_ND96isr_H200_v5 Standard_ND128isr_NDR_GB200_v6 Standard_ND128isr_GB300_v6 "
    "Standard_NC24ads_A100_v4 a2-highgpu-8g a3-highgpu-8g a3-megagpu-8g a3-ultragpu-8g "
    "a4-highgpu-8g onprem-8xa100 onprem-8xh100 onprem-8xh200 onprem-8xb200 local",
    Kind.FABRICS: "efa infiniband infiniband-sharp gpudirect-tcpx gpudirect-tcpxo gke-rdma roce "
    "none",
    Kind.STORAGE: "amlfs-40 amlfs-125 amlfs-250 amlfs-500 azure-blob fsx-lustre-125 "
    "google-lustre-125 gcs-fuse existing-pvc local-path",
    Kind.PROFILES: "aks eks hyperpod-eks gke onprem local",
}


@pytest.mark.parametrize("kind", ASKED_FOR)
def test_nothing_that_people_use_is_missing(catalog: Catalog, kind: Kind) -> None:
    for name in ASKED_FOR[kind].split():
        catalog.entry(kind, name)


def test_names_that_lie_say_so(catalog: Catalog) -> None:
    assert "64,633,856" in catalog.model("375m").note
    assert "355,919,872" in catalog.model("857m").note


def test_efa_counts_are_those_of_the_device_plugin(catalog: Catalog) -> None:
    """The counts that a chart's default of 32 gets wrong for most machines."""
    counts = {"p4d.24xlarge": 4, "p5.48xlarge": 32, "p5en.48xlarge": 16, "p6-b200.48xlarge": 8}
    for name, count in counts.items():
        assert catalog.node_type(name).fabric_resource_count == count
