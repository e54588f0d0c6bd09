# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""All that Seatrial writes or prints of values that reach it: a function for each output."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from seatrial.cli.main import _report_defect
from seatrial.findings import Finding, Severity, Where
from seatrial.monitoring.event_log import EventKind, EventLog
from seatrial.rehearsal.rehearse import write_report
from seatrial.worker.node import mlflow_sender
from seatrial.worker.supervisor.crash_report import _write
from tests.conftest import SPEC
from tests.unit.cli.forking import Answer, Call, Forker

NOON = 1_794_744_000.0
RECORD = {
    "number": 1,
    "submission": "abc",
    "submitted": "2026-11-16T12:00:00+00:00",
    "operator": "torchrun",
    "spec_digest": "0" * 64,
}
HERE = "cluster: {profile: local, processes_per_node: 4}"


Output = Callable[[Forker, Path, list[str]], str]


def _called(forker: Forker, home: Path, *words: str) -> Answer:
    variables = {**os.environ, "COLUMNS": "10000", "SEATRIAL_CATALOG": str(home)}
    return forker(Call(words, str(home), variables))


def _said(forker: Forker, home: Path, *words: str) -> str:
    answer = _called(forker, home, *words)
    assert answer.code != 70, answer.said
    return answer.said


def _foreign_log(home: Path, values: list[str]) -> Path:
    """Write an event log as another program does, with values wherever text can stand."""
    told = [f"GET https://h.example/k?X-Amz-Signature={v}&x=1 (token {v}) failed" for v in values]
    lines: list[dict[str, object]] = [
        {"kind": "start", "step": 0, "time": NOON, "began": NOON - 9, "world_size": 8},
        {"kind": "step", "step": 1, "time": NOON + 1, "seconds": 1.0, "loss": 2.0},
    ]
    for number, (rule, value) in enumerate(zip(told, values, strict=True)):
        found = {"code": f"ST-X-{number:03}", "severity": "error", "rule": rule, "value": value}
        more = {"fix": f"not {value}", "HF_TOKEN": value, "n": [value]}
        lines.append({"kind": "finding", "step": 1, "time": NOON + 3, **found, **more})
    lines.append({"kind": "exit", "step": 1, "time": NOON + 4, "code": 1, "error": " ".join(told)})
    file = home / "foreign.events.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def _printed_log(home: Path, values: list[str]) -> Path:
    file = home / "ranks.log"
    lines = [
        f"[rank{rank}]: Traceback (most recent call last):\n"
        f'[rank{rank}]:   File "/x/train.py", line 1, in <module>\n'
        f"[rank{rank}]:     open('https://user:{value}@h.example/x')\n"
        f"[rank{rank}]: OSError: [Errno 24] Too many open files: \x1b[31m{value}\x1b[0m\n"
        for rank, value in enumerate(values)
    ]
    file.write_text("".join(lines))
    return file


def _local_run(home: Path, values: list[str]) -> Path:
    """Write the files of a run on this host that failed."""
    spec = home / "run.yaml"
    kept = [line for line in SPEC.splitlines() if "cluster:" not in line]
    spec.write_text("\n".join([*kept, HERE, ""]))
    attempts = home / ".seatrial" / "slim-7b" / "attempts"
    attempts.mkdir(parents=True)
    (attempts / "00001.record").write_text(json.dumps(RECORD))
    reason = f"pulling {' '.join(values)}"
    end = {"when": "2026-11-16T13:00:00+00:00", "outcome": "failed", "reason": reason}
    (attempts / "00001.end").write_text(json.dumps(end))
    lines = [f"[default0]:logging in with {value}\n" for value in values]
    (attempts / "00001.log").write_text("".join(lines))
    return spec


def report(forker: Forker, home: Path, values: list[str]) -> str:
    page = home / "page.html"
    said = _said(forker, home, "report", str(_foreign_log(home, values)), "--output", str(page))
    text = page.read_text(encoding="utf-8")
    assert "ST-X-000" in text
    # Without the library that draws, which is no part of the answer.
    return said + "".join(part for part in text.split("<script>") if len(part) < 1_000_000)


def watch(forker: Forker, home: Path, values: list[str]) -> str:
    said = _said(forker, home, "watch", str(_foreign_log(home, values)), "--once")
    assert "ST-X-" in said
    assert "failed at step 1: GET" in said
    return said


def watch_json(forker: Forker, home: Path, values: list[str]) -> str:
    said = _said(forker, home, "watch", str(_foreign_log(home, values)), "--once", "--json")
    assert [json.loads(line)["kind"] for line in said.splitlines()][-1] == "exit"
    return said


def diagnose(forker: Forker, home: Path, values: list[str]) -> str:
    said = _said(forker, home, "diagnose", str(_printed_log(home, values)))
    assert "Too many open files" in said
    events = _said(forker, home, "diagnose", str(_foreign_log(home, values)))
    return said + events + _said(forker, home, "diagnose", str(home / "ranks.log"), "--json")


def logs(forker: Forker, home: Path, values: list[str]) -> str:
    spec = str(_local_run(home, values))
    said = _said(forker, home, "logs", spec) + _said(forker, home, "logs", spec, "--json")
    assert said.count("logging in with") == 2 * len(values)
    return said


def status(forker: Forker, home: Path, values: list[str]) -> str:
    spec = str(_local_run(home, values))
    said = _said(forker, home, "status", spec) + _said(forker, home, "status", spec, "--json")
    assert said.count("pulling") == 2
    return said + _said(forker, home, "list", "--json")


def _refused(forker: Forker, home: Path, values: list[str], *words: str) -> str:
    """What a command says of a spec whose environment has the values, and all that it writes."""
    spec = home / "run.yaml"
    env = {f"ENDPOINT_{number}": value for number, value in enumerate(values)}
    spec.write_text(SPEC.replace("nodes: 2}", f"nodes: 2, env: {json.dumps(env)}}}"))
    answer = _called(forker, home, words[0], str(spec), *words[1:])
    spec.unlink()
    assert answer.code == 1
    assert answer.said.count("ST-SPEC-006") == len(values)
    return answer.said + _written(home)


def _written(home: Path) -> str:
    return "".join(
        path.read_text(encoding="utf-8", errors="replace")
        for path in sorted(home.rglob("*"))
        if path.is_file()
    )


def plan_and_kept_plan(forker: Forker, home: Path, values: list[str]) -> str:
    said = _refused(forker, home, values, "plan")
    return said + _refused(forker, home, values, "plan", "--json")


def manifests(forker: Forker, home: Path, values: list[str]) -> str:
    return _refused(forker, home, values, "render", "--output", str(home / "made"))


def check_findings(forker: Forker, home: Path, values: list[str]) -> str:
    # It tries a repair for each finding, with a check of its own: of many, a few will do.
    few = values[:: len(values) // 5 + 1]
    said = _refused(forker, home, few, "check")
    return said + _refused(forker, home, few, "check", "--json")


def overrides(forker: Forker, home: Path, values: list[str]) -> str:
    spec = home / "run.yaml"
    spec.write_text(SPEC)
    value = values[-1]
    words = (f"cluster.env.X={value}", f"name={value}", f"training.steps={value}", value)
    return "".join(
        _said(forker, home, "validate", str(spec), word, *json_too)
        for word in words
        for json_too in ((), ("--json",))
    )


def errors_of_the_command_line(forker: Forker, home: Path, values: list[str]) -> str:
    value = values[-1]
    called = [
        ("report", value),
        ("catalog", "show", "models", value),
        ("data", "estimate", f"s3://u:{value}@bucket/x"),
        ("explain", value),
        ("validate", f"{value}.yaml", "--json"),
        (value,),
        ("plan", f"--{value}"),
    ]
    return "".join(_said(forker, home, *words) for words in called)


def event_log_on_disk(forker: Forker, home: Path, values: list[str]) -> str:
    file = home / "events.jsonl"
    log = EventLog(file)
    for value in values:
        finding = Finding(
            "ST-X-001", Severity.ERROR, Where("x"), f"{value}.", value, f"no {value}."
        )
        log.write(EventKind.FINDING, 1, **finding.to_dict(), told=[f"a {value}", {"b": value}])
        log.write(EventKind.EXIT, 1, code=1, error=f"RuntimeError('https://u:{value}@host')")
    log.close()
    assert len(file.read_text().splitlines()) == 2 * len(values)
    return file.read_text()


def rehearsal_report(forker: Forker, home: Path, values: list[str]) -> str:
    file = home / "rehearsal.json"
    told = {"results": [{"drill": "train", "said": [f"the hub refused {v}" for v in values]}]}
    write_report(SimpleNamespace(to_dict=lambda: told), file)  # type: ignore[arg-type]
    assert file.read_text().count("the hub refused") == len(values)
    return file.read_text()


def crash_report(forker: Forker, home: Path, values: list[str]) -> str:
    _write(home / "stack.txt", "".join(f'Thread: "login"\n    token: "{v}"\n' for v in values))
    return (home / "stack.txt").read_text()


def defect_report(forker: Forker, home: Path, values: list[str]) -> str:
    try:
        raise KeyError([f"https://host/x?sig={value}" for value in values])
    except KeyError as error:
        _report_defect(error, as_json=False)
    (told,) = home.glob("seatrial-*.txt")
    return told.read_text()


def mlflow(forker: Forker, home: Path, values: list[str]) -> str:
    """What the sender hands to MLflow, and what it says when MLflow is away."""
    sent: list[str] = []
    away = OSError(f"https://user:{values[-1]}@mlflow.example refused {' '.join(values)}")

    class Run:
        def __init__(self, *_: object) -> None:
            pass

        def send(self, events: object) -> None:
            sent.append(repr(events))
            raise away

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mlflow_sender, "MlflowRun", Run)
        mlflow_sender.Sender("run", "http://x", "x", _foreign_log(home, values)).look()
    assert "ST-X-000" in sent[0]
    return sent[0]


OUTPUTS: tuple[Output, ...] = (
    *(report, watch, watch_json, diagnose, logs, status, plan_and_kept_plan, manifests),
    *(check_findings, overrides, errors_of_the_command_line, event_log_on_disk),
    *(rehearsal_report, crash_report, defect_report, mlflow),
)
SHOW_FEW = (watch, diagnose, check_findings, overrides, errors_of_the_command_line)
"""Outputs that show few of many values."""
