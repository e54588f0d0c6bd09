# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Damaged state: no command ends with a defect or hangs, and `stop` stops the run."""

import copy
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import pytest

from seatrial.checkpoints.by_engine import setup_of
from seatrial.errors import ExitCode
from seatrial.monitoring.event_log import EventKind, EventLog
from seatrial.monitoring.processes import command_lines, state
from seatrial.runs.ledger.host import SUPERVISOR, LocalRun, local_run
from seatrial.runs.status.listing import list_runs
from seatrial.runs.status.status import status
from seatrial.runs.stop import stop
from seatrial.sdk.plan import plan as plan_of
from seatrial.worker.supervisor.exit_records import Final, read_ends, remember, remembered
from seatrial.worker.supervisor.heartbeats import BeatWriter, beat_file, read_beats
from seatrial.worker.supervisor.status import read_status
from tests.attack.mutations import MUTATIONS
from tests.conftest import MEGATRON, SPEC
from tests.unit.checkpoints.made import make_checkpoint
from tests.unit.cli.forking import Answer, Call, Forker
from tests.unit.cluster.fake_api import FakeTransport
from tests.unit.runs.fake_cluster import site_of
from tests.unit.runs.test_damaged_state import ledger_of_run
from tests.unit.runs.test_launch import RUN as CLUSTER_RUN
from tests.unit.runs.test_launch import launched

pytestmark = [pytest.mark.attack, pytest.mark.timeout(3600)]

RUN = "slim-7b"
HANG_SECONDS = 30.0
"""No command of these takes a second; whatever takes this long waits for something."""
WORKERS = 2
"""Runs at a time, each in a directory of its own."""
OTHERS: tuple[tuple[str, ...], ...] = (
    ("logs", RUN),
    ("launch", "run.yaml", "--yes"),
    ("delete", RUN, "--yes"),
    ("watch", RUN, "--once"),
    ("diagnose", RUN),
    ("report", RUN, "--output", "report.html"),
    ("wait", RUN, "--timeout", "0"),
    ("plan", "run.yaml"),
    ("checkpoints", "list", "run.yaml"),
    ("run", "run.yaml", "--show"),
    ("status", RUN, "--json"),
    ("validate", "run.yaml"),
)
STAND_IN = """\
#!/bin/sh
trap 'exit 75' TERM
while :; do sleep 0.05; done
"""


@dataclass
class Score:
    """What the cases have shown."""

    cases: int = 0
    defects: list[str] = field(default_factory=list)
    hangs: list[str] = field(default_factory=list)
    alive: list[str] = field(default_factory=list)

    def __add__(self, other: Self) -> Self:
        """Both together."""
        return type(self)(
            self.cases + other.cases,
            self.defects + other.defects,
            self.hangs + other.hangs,
            self.alive + other.alive,
        )


class Attacked:
    """One real run on this host, whose state is damaged again and again."""

    def __init__(self, home: Path, forker: Forker) -> None:
        """Launch it, stop it, launch it again, and keep a copy of all that it has written."""
        self.home, self.forker = home / "run", forker
        self.home.mkdir(parents=True)
        self.saved = home / "saved"
        self.run: LocalRun = local_run(self.home, RUN)
        worker = home / "python"
        worker.write_text(STAND_IN)
        worker.chmod(0o755)
        self.variables = os.environ | {
            MEGATRON.installation.variable: str(worker),
            "KUBECONFIG": str(home / "none"),
            "HOME": str(home),
            "COLUMNS": "100",
        }
        spec = SPEC[: SPEC.index("parallelism:")] + (
            f"cluster: {{profile: local, processes_per_node: 2, storage: {{mount: {self.home}/data"
            "}}\ncheckpoints: {every_steps: 100}\n"
        )
        (self.home / "run.yaml").write_text(spec)
        for words in (("plan", "run.yaml"), ("launch", "run.yaml"), ("stop", RUN)):
            self._good(*words)
        self._good("run", "run.yaml", "--until", "rules")
        self._good("launch", "run.yaml")
        self._write_more()
        self._good("checkpoints", "verify", "run.yaml")
        shutil.copytree(self.home, self.saved)
        self._good("stop", RUN)
        # From now on a stand-in for the engine that starts at once.
        task = self.saved / self.run.file(2, "task").relative_to(self.home)
        values = json.loads(task.read_text()) | {"words": [str(worker)]}
        task.write_text(json.dumps(values))

    def _good(self, *words: str) -> None:
        answer = self.call(*words)
        assert answer.code == 0, (words, answer.said)

    def _write_more(self) -> None:
        """What a longer run would have: events, checkpoints, heartbeats, a calibration, reports."""
        plan = plan_of(self.home / "run.yaml")
        data = Path(plan.checkpoint_location).parent
        make_checkpoint(Path(plan.checkpoint_location), 100, setup=setup_of(plan))
        log = EventLog(data / "events.jsonl")
        log.write(EventKind.START, 0, world_size=2, total_steps=1000)
        for step in range(1, 20):
            log.write(EventKind.STEP, step, seconds=1.0, loss=2.0, grad_norm=1.0)
        log.close()
        self.supervisor = data / "supervisor"
        BeatWriter(beat_file(self.supervisor, 0), 0)
        remember(self.supervisor, Final("a", 1))
        (self.supervisor / "end-1").write_text("75\n")
        kept = self.run.directory.parent
        report = {"ok": True, "run": RUN}
        (kept / "rehearsal-20261115-031200.json").write_text(json.dumps(report))
        values = {
            "scale": 1.1,
            "measured": 1.1,
            "predicted": 1.0,
            "steps": 9,
            "warm_up": 2,
            "outliers": 0,
            "spread": 0.01,
            "measured_on": {"a": "b"},
            "digest": "sha256:0",
            "version": "1",
            "constants": "sha256:0",
            "workload": "sha256:0",
        }
        (kept / "calibration.json").write_text(json.dumps(values))

    def call(self, *words: str, obeys_modes: bool = False) -> Answer:
        """The answer of a command in the directory of the spec."""
        return self.forker(Call(words, str(self.home), self.variables, obeys_modes=obeys_modes))

    def files(self) -> list[Path]:
        """Every file that the run has written, relative to its directory."""
        own = (path.relative_to(self.saved) for path in sorted(self.saved.rglob("*")))
        return [path for path in own if (self.saved / path).is_file() and path.name != "run.yaml"]

    def restore(self) -> None:
        """Put everything back."""
        shutil.rmtree(self.home)
        shutil.copytree(self.saved, self.home)

    @contextmanager
    def started(self) -> Iterator[int]:
        """The run's second attempt, under its own supervisor; killed should it be left over."""
        self.run.file(2, "lock").unlink()
        task = str(self.run.file(2, "task").resolve())
        words = [sys.executable, "-m", SUPERVISOR, task]
        subprocess.run(words, check=True, env=self.variables, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while not (process := self.run.supervisor(2)) > 0 or not _children_of(process):
            assert time.monotonic() < deadline, "the supervisor has not started"
            time.sleep(0.01)
        try:
            yield process
        finally:
            for number, line in command_lines().items():
                if line[-1:] == (task,) or task in line:
                    os.kill(number, signal.SIGKILL)

    def attack(self, path: Path, name: str, draw: random.Random) -> Score:
        """Damage one file, ask four commands, and see whether the run has stopped."""
        self.restore()
        case, score = f"{path}: {name}", Score(1)
        with self.started() as process:
            inner = _children_of(process)
            MUTATIONS[name](self.home / path, draw)
            other = draw.choice(OTHERS)
            by_name = draw.choice((RUN, "run.yaml"))
            for words in (("status", by_name), ("list",), other, ("stop", by_name)):
                began = time.monotonic()
                answer = self.call(*words, obeys_modes=name == "unreadable")
                told = f"{case}: seatrial {' '.join(words)}: {answer.code}\n{answer.said[-1500:]}"
                if answer.code in (ExitCode.INTERNAL, 99) or "Traceback" in answer.said:
                    score.defects.append(told)
                if answer.code < 0 or time.monotonic() - began > HANG_SECONDS:
                    score.hangs.append(told)
            left = [one for one in (process, *inner) if state(one)]
            if left or self.run.supervisors(thorough=True):
                score.alive.append(f"{case}, after {' '.join(other)}: {answer.said[-1500:]}")
            score.defects += [f"{case}: {told}" for told in self._worker_trouble(path)]
        return score

    def _worker_trouble(self, path: Path) -> list[str]:
        """Errors of those who read what the run's processes tell on their node."""
        if "supervisor" not in path.parts:
            return []
        found = []
        readers: tuple[Callable[[Path], object], ...] = (
            read_beats,
            read_ends,
            read_status,
            lambda directory: remembered(directory, "a"),
        )
        for read in readers:
            try:
                read(self.home / self.supervisor.relative_to(self.home))
            except Exception as error:
                found.append(f"{read}: {error!r}")
        return found


def _children_of(process: int) -> list[int]:
    """The processes that a supervisor has started, once the stand-in itself runs."""
    lines = command_lines()
    tasks = Path(f"/proc/{process}/task/{process}/children")
    found = [int(one) for one in tasks.read_text().split()] if tasks.exists() else []
    return [one for one in found if lines.get(one, ())[:1] == ("/bin/sh",)]


def test_whatever_is_damaged_the_run_can_be_seen_and_stopped(
    tmp_path: Path,
    attack_size: Callable[[int, int], int],
    record_property: Callable[[str, object], None],
) -> None:
    count = attack_size(1000, 24)
    workers = [tmp_path / f"worker-{number}" for number in range(WORKERS)]

    def work(home: Path) -> Score:
        total = Score()
        with Forker(os.environ) as forker:
            attacked = Attacked(home, forker)
            files = attacked.files()
            # All kinds of damage to all files, in an order that a short form samples evenly.
            pairs = [(path, name) for path in files for name in MUTATIONS]
            own = workers.index(home)
            random.Random(24).shuffle(pairs)  # noqa: S311
            while len(pairs) < count:
                pairs += pairs
            for number in range(own, count, WORKERS):
                path, name = pairs[number]
                total += attacked.attack(path, name, random.Random(number))  # noqa: S311
        return total

    try:
        with ThreadPoolExecutor(WORKERS) as pool:
            score = sum(pool.map(work, workers), Score())
    finally:
        # Whatever a case that failed has left running.
        for home in workers:
            for process in local_run(home / "run", RUN).supervisors(thorough=True).values():
                os.kill(process, signal.SIGTERM)
    assert score.cases == count
    figure = (
        f"{score.cases:,} mutated state files: {len(score.defects)} exit 70, "
        f"{len(score.hangs)} hangs, stop stopped {score.cases - len(score.alive):,} of "
        f"{score.cases:,}"
    )
    record_property("figure", figure)
    assert not score.defects, "\n\n".join(score.defects[:20])
    assert not score.hangs, "\n\n".join(score.hangs[:20])
    assert not score.alive, "\n\n".join(score.alive[:20])


def test_a_damaged_ledger_keeps_no_run_of_its_namespace_from_being_stopped(
    tmp_path: Path,
    attack_size: Callable[[int, int], int],
    record_property: Callable[[str, object], None],
) -> None:
    count, stopped = attack_size(300, 30), 0
    # What a config map can hold: text. The API server refuses what is none.
    names = [name for name in list(MUTATIONS)[:12] if name not in ("unreadable",)]
    first = FakeTransport()
    launched(first)
    for number in range(count):
        draw = random.Random(number)  # noqa: S311
        server = FakeTransport()
        server.objects.update(copy.deepcopy(first.objects))
        data = ledger_of_run(server)
        file = tmp_path / "ledger"
        file.write_text(data["attempt-00001"])
        MUTATIONS[names[number % len(names)]](file, draw)
        key = draw.choice(("attempt-00001", "attempt-00002", "attempt-", "attempt-x", "other"))
        data[key] = file.read_text(errors="replace")
        site = site_of(server)
        assert [line.run for line in list_runs(site)] == [CLUSTER_RUN]
        assert status(site, CLUSTER_RUN).state
        stopped += stop(site, CLUSTER_RUN).was_running
        status(site, CLUSTER_RUN)
        if number % 10 == 0:
            assert launched(server, agree=True).is_new
    record_property("figure", f"{count:,} mutated ledgers: stop stopped {stopped:,} of {count:,}")
    assert stopped == count
