# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Floors of the preflight measurements follow from the catalog."""

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.planning.node_floors import NodeFloors, node_floors

CATALOG = Catalog()


def floors(node: str, processes: int, *, rdma: bool = True) -> NodeFloors:
    kind = CATALOG.node_type(node)
    gpu = CATALOG.accelerator(kind.accelerator) if kind.accelerator else None
    return node_floors(kind, gpu, processes, rdma=rdma, write_bytes_per_second=2e9)


def test_a_whole_node_has_all_floors() -> None:
    found = floors("p5.48xlarge", 8)
    # 0.4 of 989 TFLOP/s, half of 3,350 GB/s, 0.3 of 450 GB/s, 0.3 of 400 GB/s, a tenth of 2 GB/s.
    assert found.matmul_tflops == pytest.approx(395.8, rel=0.01)
    assert found.memory_gb_s == pytest.approx(1675)
    assert found.within_gb_s == pytest.approx(135)
    assert found.between_gb_s == pytest.approx(120)
    assert found.write_gb_s == pytest.approx(0.2)


def test_a_part_of_a_node_has_its_part_of_the_network() -> None:
    assert floors("p5.48xlarge", 2).between_gb_s == pytest.approx(30)


def test_gpus_without_nvlink_between_them_have_no_floor_for_links() -> None:
    assert floors("g5.48xlarge", 8).within_gb_s == 0
    assert floors("p5.48xlarge", 1).within_gb_s == 0
    assert floors("Standard_NC96ads_A100_v4", 4).within_gb_s == 0


def test_tcp_has_a_lower_floor() -> None:
    assert floors("a2-highgpu-8g", 8, rdma=False).between_gb_s == pytest.approx(1.25)


def test_a_host_without_gpus_has_none_for_them() -> None:
    assert floors("local", 2) == NodeFloors(write_gb_s=0.2)


def test_floors_survive_the_command_line() -> None:
    found = floors("p5.48xlarge", 8)
    again = NodeFloors.parse(found.to_text())
    assert again.to_text() == found.to_text()
    assert NodeFloors.parse("") == NodeFloors()
    assert NodeFloors().to_text() == ""
