# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The defects that clusters are tested with are defects: each is absent here, and can be put in."""

import pytest

from tests.cluster.defects import DEFECTS, Defect


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_a_defect_breaks_a_manifest_that_did_not_have_it(defect: Defect) -> None:
    good = defect.good()
    broken = defect.broken()
    assert broken != good
    assert broken["kind"] == good["kind"] == defect.kind


def test_there_are_enough_and_each_has_its_name() -> None:
    names = [defect.name for defect in DEFECTS]
    assert len(names) == len(set(names)) >= 25
