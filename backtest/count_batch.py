# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Count many ranks, with the engine imported once; runs in the worker's environment.

Reads a job from each line of standard input: `arguments`, `attention`, `options`, `environment` and
`record`, the file to write. Each job runs in a fork, because the engine keeps its state in globals.
Prints a line with the reason for each job; it is empty if the rank was counted.
"""

import io
import json
import os
import sys
import traceback
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from seatrial.worker.environment import set_variables
from seatrial.worker.megatron.full_size.__main__ import VARIABLES


def main() -> None:
    set_variables(unless_set=VARIABLES)
    # Import late: this loads torch and the engine, which read the environment.
    from seatrial.worker.megatron.full_size.start import prepare  # noqa: PLC0415

    output = io.StringIO()
    with redirect_stdout(output), redirect_stderr(output):
        counter = prepare("fused", 512)
        from seatrial.worker.megatron.full_size import rank  # noqa: PLC0415
    for line in sys.stdin:
        reading, writing = os.pipe()
        process = os.fork()
        if process == 0:
            os.close(reading)
            os.write(writing, _count(json.loads(line), counter, rank).encode()[:4000])
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            reason = pipe.read()
        _, status = os.waitpid(process, 0)
        reason = reason or (f"ended with status {status}" if status else "")
        print(json.dumps({"reason": reason}), flush=True)


def _count(job: dict[str, Any], counter: Any, rank: Any) -> str:
    """Count one rank, and return the reason if that fails."""
    from seatrial.worker.megatron.full_size.kernels import Attention, Choices  # noqa: PLC0415

    os.environ.update(job["environment"])
    Choices.attention = Attention(job["attention"])
    output = io.StringIO()
    with redirect_stdout(output), redirect_stderr(output):
        try:
            record = rank.count_rank(job["arguments"], counter, rank.CountOptions(**job["options"]))
            Path(job["record"]).write_text(json.dumps(record.to_dict()), encoding="utf-8")
        except SystemExit:
            return output.getvalue().strip().rpartition("\n")[2]
        except Exception as error:  # The reason is recorded, and the next job runs.
            place = traceback.extract_tb(error.__traceback__)[-1]
            return f"{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})"
    return ""


if __name__ == "__main__":
    main()
