# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Who looks at the data of a run for `seatrial check --data`."""

from seatrial.checks.data_facts import DataProbe
from seatrial.checks.repairs.repair import Broken
from seatrial.client import require_data_extra


def reader_for(broken: Broken) -> DataProbe | None:
    """The reader of what a run names; nothing while there is no plan to look with."""
    require_data_extra()
    situation = broken.again().situation
    if situation is None:
        return None
    # Loaded here because the rest of the check needs none of the data libraries.
    from seatrial.checks.data_reader import DataReader  # noqa: PLC0415

    mount = situation.spec.cluster.storage.mount if situation.in_pods else ""
    return DataReader(situation.plan.model.tokenizer, mount)
