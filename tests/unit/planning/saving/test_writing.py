# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Sizes and write times of checkpoints, against what others published."""

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.planning.saving.size import (
    checkpoint_bytes,
    file_system_bandwidth,
    node_bandwidth,
    write_seconds,
)
from seatrial.spec.training import Precision

TIB = 1 << 40
GIB = 1 << 30

AMLFS_TABLE = [
    # Azure/ai-infrastructure-on-azure, megatron-lm on AKS, "Theoretical checkpoint write time":
    # tier, TiB of the file system, GB/s, minutes that the document states, minutes that it takes.
    ("amlfs-40", 480, 19.2, 2.04, 2.20),
    ("amlfs-125", 512, 64.0, 0.61, 0.66),
    ("amlfs-250", 512, 128.0, 0.31, 0.33),
    ("amlfs-500", 512, 256.0, 0.15, 0.16),
]
AMLFS_CHECKPOINT_TIB = 2.3


@pytest.mark.parametrize(("tier", "capacity", "gb_s", "stated", "exact"), AMLFS_TABLE)
def test_write_times_of_the_amlfs_table_with_its_units_corrected(
    catalog: Catalog, tier: str, capacity: int, gb_s: float, stated: float, exact: float
) -> None:
    bandwidth = file_system_bandwidth(catalog.storage(tier), capacity * TIB)
    assert bandwidth == pytest.approx(gb_s * 1e9)
    seconds = write_seconds(int(AMLFS_CHECKPOINT_TIB * TIB), 128, None, bandwidth)
    assert seconds is not None
    assert round(seconds / 60, 2) == exact
    # The document divided GiB by GB/s: 2.3 x 1024 / 19.2.
    mixed = AMLFS_CHECKPOINT_TIB * 1024 / gb_s / 60
    assert mixed == pytest.approx(stated, abs=0.005)
    assert seconds / 60 == pytest.approx(mixed * GIB / 1e9)


PUBLISHED_SIZES = [
    # NVIDIA/dgxc-benchmarking, whose GB and TB are GiB and TiB; parameters of the models' own.
    (8.03e9, 105 * GIB),
    (70.55e9, 920 * GIB),
    (405.9e9, 5.2 * TIB),
    # bigscience train/tr11-176B-ml/README.md: 2.3 TB, in powers of ten or of two it is within 7 %.
    (176.2e9, 2.3 * TIB),
]


@pytest.mark.parametrize(("parameters", "published"), PUBLISHED_SIZES)
def test_published_sizes_are_14_bytes_a_parameter(parameters: float, published: float) -> None:
    assert checkpoint_bytes(int(parameters)) == pytest.approx(published, rel=0.03)


def test_a_model_in_fp32_is_its_own_master_copy() -> None:
    assert checkpoint_bytes(1000, Precision.FP32) == 12_000
    assert checkpoint_bytes(1000, Precision.FP16) == 14_000


def test_the_slower_of_nodes_and_file_system_decides() -> None:
    assert write_seconds(1000, 10, 50.0, 1000.0) == 2.0
    assert write_seconds(1000, 10, 50.0, 100.0) == 10.0
    assert write_seconds(1000, 10, None, 100.0) == 10.0
    assert write_seconds(1000, 10, 50.0, None) is None


def test_bandwidth_has_a_ceiling_where_one_is_published(catalog: Catalog) -> None:
    tier = catalog.storage("fsx-lustre-125")
    assert file_system_bandwidth(tier, 8 * TIB) == pytest.approx(1e9)
    capped = tier.model_copy(update={"max_gb_s": 0.5})
    assert file_system_bandwidth(capped, 8 * TIB) == pytest.approx(0.5e9)
    assert file_system_bandwidth(catalog.storage("azure-blob"), TIB) is None


def test_a_node_sends_no_more_than_its_network(catalog: Catalog) -> None:
    assert node_bandwidth(catalog.node_type("p4d.24xlarge")) == pytest.approx(50e9)
