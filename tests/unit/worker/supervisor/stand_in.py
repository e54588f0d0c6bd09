# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Stands in for torchrun and for the ranks that it starts, without torch.

Started as torchrun, it starts ranks, says in torchrun's words when one ends, and starts all again.
Started as a rank, it beats. What ranks are to do beside that stands in files of a directory.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from seatrial.worker.supervisor.exit_records import recording_exit
from seatrial.worker.supervisor.heartbeats import BeatWriter, RankPhase
from seatrial.worker.supervisor.rank import start_heartbeat

PLACE = "PLACE_OF_TEST"
RANKS = 2


def agent() -> int:
    allowed = next(int(w.partition("=")[2]) for w in sys.argv if w.startswith("--max-restarts"))
    ended: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(1))
    count = 0
    if (Path(os.environ[PLACE]) / "alone").exists():
        # As torchrun does that does not find the first node, only sooner.
        time.sleep(0.8)
        return 1
    while True:
        ranks = [_rank(number, count) for number in range(RANKS)]
        while not ended and all(rank.poll() is None for rank in ranks):
            time.sleep(0.05)
        failed = [n for n, rank in enumerate(ranks) if rank.poll() not in (None, 0)]
        if failed:
            rank = ranks[failed[0]]
            _say(
                f"E1115 api.py:1002] failed (exitcode: {rank.returncode}) local_rank: {failed[0]} "
                f"(pid: {rank.pid}) of binary: python"
            )
        for rank in ranks:
            if rank.poll() is None and (failed or ended):
                _say(f"W1115 Sending process {rank.pid} closing signal SIGTERM")
                rank.terminate()
        for rank in ranks:
            rank.wait(timeout=30)
        if not failed or ended or count >= allowed:
            return 1 if failed or ended else 0
        count += 1


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _rank(number: int, count: int) -> "subprocess.Popen[bytes]":
    told = {
        "RANK": str(number),
        "LOCAL_RANK": str(number),
        "TORCHELASTIC_RESTART_COUNT": f"{count}",
    }
    return subprocess.Popen([sys.executable, __file__, "rank"], env=os.environ | told)


def leave(place: Path, heart: BeatWriter) -> None:
    """End training, and then this process; for some there is something left to tell."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    heart.end()
    if (place / "leave").exists():
        time.sleep(float((place / "leave").read_text()))
        (place / f"left-{os.getpid()}").touch()
    if (place / "full").exists():
        # The disk has no room for the save.
        sys.exit(int((place / "full").read_text()))
    sys.exit(75)


def rank() -> None:
    place = Path(os.environ[PLACE])
    heart = start_heartbeat()
    # A process that writes for it, and does not end with it.
    subprocess.Popen(["sleep", "1000"])
    if (place / "deaf").exists():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        signal.signal(signal.SIGTERM, lambda *_: leave(place, heart))
    heart.begin(0)
    for step in range(1, 100_000):
        time.sleep(0.02)
        if (place / "fail").exists():
            sys.exit(int((place / "fail").read_text()))
        if (place / "hang").exists():
            time.sleep(1000)
        if (place / "save").exists():
            with heart.pause(RankPhase.SAVING):
                time.sleep(float((place / "save").read_text()))
        heart.step(step)


if __name__ == "__main__":
    if sys.argv[1:] == ["rank"]:
        with recording_exit():
            rank()
    else:
        sys.exit(agent())
