# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The local driver with workers that die, fail, grow and are abandoned; the kernel is left out."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from textwrap import dedent

import pytest

from seatrial.dataprep.drivers.driver import Again, Done, Event, Job, PendingJob, TaskFailedError
from seatrial.dataprep.drivers.local import LocalDriver
from seatrial.dataprep.tasks.task_list import (
    InputFile,
    InputFormat,
    SourceSettings,
    Task,
    TaskList,
    TaskSettings,
    Tokenizer,
    TokenizerKind,
    freeze,
    thaw,
)

WORKER = dedent(
    """\
    import json, os, sys, time
    from pathlib import Path
    home = Path(os.environ["FAKE"])
    for line in sys.stdin:
        if line.startswith("{"):
            with (home / "jobs").open("a") as file:
                file.write(f"{os.getpid()} {json.loads(line)['backend']}\\n")
            continue
        number, source, inputs = json.loads(line)
        with (home / "begun").open("a") as file:
            file.write(f"{number} {os.getpid()}\\n")
        begun = (home / "begun").read_text().splitlines()
        first = sum(text.startswith(f"{number} ") for text in begun) == 1
        what = inputs[0][0]
        answer = {"record": json.dumps({
            "task": number, "list_digest": "", "attempt": "a", "files": [], "counts": {},
            "lengths": [], "quarantine_file": None, "backend": "", "seconds": 0, "cpu_seconds": 0,
        })}
        if what == "hang":
            time.sleep(600)
        elif what == "die" or (what == "die-once" and first):
            print("last words", file=sys.stderr, flush=True)
            os.kill(os.getpid(), 9)
        elif what in ("fixable", "system", "defect"):
            answer = {"error": {"kind": what, "text": f"it is {what}"}}
        memory = 2**40 if what == "grow" else 1
        print(json.dumps(answer | {"memory": memory}), flush=True)
    """
)
SETTINGS = TaskSettings(
    Tokenizer(TokenizerKind.HUGGING_FACE, "t", "0", 50257, 50256), (SourceSettings("s"),)
)


def task_list(*inputs: str) -> TaskList:
    """A list with one task for each word of what its worker should do."""
    files = [InputFile(what, 10, "v", InputFormat.JSONL) for what in inputs]
    return thaw(freeze(SETTINGS, [Task(n, "s", (file,)) for n, file in enumerate(files)]))


def run(tmp_path: Path, workers: int, *inputs: str) -> tuple[list[Event], LocalDriver]:
    """The events of the tasks, with the driver."""
    (tmp_path / "worker.py").write_text(WORKER)
    driver = LocalDriver(workers, (sys.executable, str(tmp_path / "worker.py")))
    tasks = task_list(*inputs)
    return list(driver.run(pending(tasks), tasks, tasks.tasks)), driver


def pending(tasks: TaskList) -> PendingJob:
    """A job whose backend is b."""
    return PendingJob(Job.of(tasks, "/x"), lambda: "b")


def begun(tmp_path: Path) -> list[list[int]]:
    """Number and process of every task that a worker began."""
    lines = (tmp_path / "begun").read_text().splitlines()
    return [[int(word) for word in line.split()] for line in lines]


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE", str(tmp_path))


def test_every_task_is_done_once_by_warm_workers(tmp_path: Path) -> None:
    events, _ = run(tmp_path, 2, *["good"] * 7)
    assert sorted(event.record.task for event in events if isinstance(event, Done)) == [*range(7)]
    assert len(events) == 7
    assert len({pid for _, pid in begun(tmp_path)}) <= 2


def test_no_more_workers_than_tasks(tmp_path: Path) -> None:
    run(tmp_path, 8, "good", "good")
    assert len({pid for _, pid in begun(tmp_path)}) <= 2


def test_the_task_of_a_killed_worker_is_done_again(tmp_path: Path) -> None:
    events, _ = run(tmp_path, 2, "good", "die-once", "good")
    assert sorted(event.record.task for event in events if isinstance(event, Done)) == [0, 1, 2]
    (again,) = (event for event in events if isinstance(event, Again))
    assert again.task == 1
    assert "killed by signal 9" in again.reason
    assert "last words" in again.reason


def test_a_task_that_kills_every_worker_ends_the_run_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(TaskFailedError, match=r"task 1 \(die\) failed 3 times.*signal 9"):
        run(tmp_path, 1, "good", "die", "good")
    assert [number for number, _ in begun(tmp_path)] == [0, 1, 1, 1]


def test_what_a_user_must_mend_is_not_tried_again(tmp_path: Path) -> None:
    with pytest.raises(TaskFailedError, match="it is fixable"):
        run(tmp_path, 1, "fixable")
    assert len(begun(tmp_path)) == 1


def test_an_error_of_the_system_is_tried_again(tmp_path: Path) -> None:
    with pytest.raises(TaskFailedError, match="3 times"):
        run(tmp_path, 1, "system")
    assert len(begun(tmp_path)) == 3


def test_a_defect_is_no_error_of_the_user(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="it is defect"):
        run(tmp_path, 1, "defect")


def test_a_worker_that_holds_too_much_memory_is_replaced(tmp_path: Path) -> None:
    events, driver = run(tmp_path, 1, "grow", "good", "good")
    assert len(events) == 3
    assert driver.replaced == 1
    first, second, third = (pid for _, pid in begun(tmp_path))
    assert first != second == third


def test_workers_hear_of_the_job_while_the_backend_is_being_chosen(tmp_path: Path) -> None:
    run(tmp_path, 1, "die-once", "good")
    first, second = dict.fromkeys(pid for _, pid in begun(tmp_path))
    # The one that replaces it need not wait for the choice.
    assert (tmp_path / "jobs").read_text() == f"{first} \n{first} b\n{second} b\n"


def test_closing_the_iterator_ends_the_workers(tmp_path: Path) -> None:
    (tmp_path / "worker.py").write_text(WORKER)
    tasks = task_list("good", "hang")
    driver = LocalDriver(2, (sys.executable, str(tmp_path / "worker.py")))
    events = driver.run(pending(tasks), tasks, tasks.tasks)
    assert isinstance(next(events), Done)
    events.close()  # type: ignore[attr-defined]
    for _, pid in begun(tmp_path):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_workers_end_when_the_parent_is_killed(tmp_path: Path) -> None:
    """The real worker, which waits for its input in a thread."""
    script = dedent(
        """\
        import sys, time
        from tests.unit.dataprep.drivers.test_local_driver import SETTINGS, task_list
        from seatrial.dataprep.drivers.driver import Job
        from seatrial.dataprep.drivers.local import _Worker, _WORKER
        tasks = task_list("/absent")
        worker = _Worker(_WORKER)
        worker.send(Job.of(tasks, sys.argv[1], "b").to_json())
        print(worker.process.pid, flush=True)
        time.sleep(60)
        """
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": f"{os.environ['PYTHONPATH']}:{Path(__file__).parents[4]}"},
    )
    with parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)
    end = time.monotonic() + 20
    while Path(f"/proc/{pid}").exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert not Path(f"/proc/{pid}").exists()
