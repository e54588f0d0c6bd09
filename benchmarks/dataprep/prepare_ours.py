# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Prepare a corpus as `seatrial data prepare` does, and print the wall time of each phase as JSON.

python -m benchmarks.dataprep.prepare_ours SPEC OUTPUT local|ray WORKERS
"""

import json
import sys
import time

from seatrial.dataprep.drivers.local import LocalDriver
from seatrial.dataprep.drivers.ray import RayDriver
from seatrial.dataprep.progress import Progress
from seatrial.sdk.data import prepare_data


def main() -> None:
    spec, output, name, workers = sys.argv[1:]
    driver = RayDriver(int(workers)) if name == "ray" else LocalDriver(int(workers))
    began: dict[str, float] = {}

    def tell(progress: Progress) -> None:
        began.setdefault(progress.phase, time.monotonic())

    outcome = prepare_data(spec, to=output, driver=driver, tell=tell)
    ends = [*list(began.values())[1:], time.monotonic()]
    phases = {name: end - start for (name, start), end in zip(began.items(), ends, strict=True)}
    record = outcome.record
    counts = [source.counts for source in record.sources]
    print(
        json.dumps(
            {
                "phases": phases,
                "ray_start": driver.start_seconds if isinstance(driver, RayDriver) else 0.0,
                "task_cpu": outcome.cpu_seconds,
                "tasks": outcome.tasks,
                "tokens": sum(file.tokens for file in record.files),
                "documents": sum(count.documents for count in counts),
                "text_bytes": sum(count.text_bytes for count in counts),
                "files": [file.name for file in record.files],
            }
        )
    )


if __name__ == "__main__":
    main()
