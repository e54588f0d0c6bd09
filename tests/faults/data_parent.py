# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A preparation that can be made to kill itself at a chosen call, for tests.

    python data_parent.py SPEC DIR local|ray [--in parent|worker] [--kill FUNCTION:N]

FUNCTION is `link` (commits), `replace` (files that take their names), `unlink` (clean-up) or
`fsync`; the N-th call of it in that process, counted from 1, is answered with SIGKILL. Counting
goes on in a file, so that a worker that is started again does not die at the same call for ever.
"""

import argparse
import fcntl
import os
import signal
import sys
from importlib import import_module
from pathlib import Path
from typing import Any


def die_at(function: str, number: int, counter: Path) -> None:
    """Let the N-th call of a function of `os` kill this process before it does anything."""
    inner = getattr(os, function)

    def counted(*args: object, **settings: object) -> object:
        # A byte for each call; locked, because threads and workers count together.
        with counter.open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            os.write(file.fileno(), b".")
            if os.fstat(file.fileno()).st_size == number:
                os.kill(os.getpid(), signal.SIGKILL)
        return inner(*args, **settings)

    setattr(os, function, counted)


def main() -> None:
    """Prepare, or be a worker that may kill itself."""
    if sys.argv[1] == "worker":
        function, number, counted_in = sys.argv[2:]
        die_at(function, int(number), Path(counted_in))
        import_module("seatrial.dataprep.drivers.worker").main()
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("spec")
    parser.add_argument("to")
    parser.add_argument("driver", choices=["local", "ray"])
    parser.add_argument("--kill", default="")
    parser.add_argument("--in", dest="inside", default="parent")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    driver: Any = options.driver
    if options.kill:
        function, number = options.kill.split(":")
        counter = Path(f"{options.to}.count")
        counter.unlink(missing_ok=True)
        if options.inside == "parent":
            die_at(function, int(number), counter)
        else:
            command = (sys.executable, __file__, "worker", function, number, str(counter))
            local = import_module("seatrial.dataprep.drivers.local")
            driver = local.LocalDriver(options.workers, command)
    # Loaded after the functions of `os` were replaced, because some are kept when it is loaded.
    # Tasks are small, so that a small corpus has many.
    vars(import_module("seatrial.dataprep.tasks.task_list"))["SMALLEST"] = 12_000
    prepare_data = import_module("seatrial.sdk.data").prepare_data
    prepare_data(options.spec, to=options.to, driver=driver, workers=options.workers)


if __name__ == "__main__":
    main()
