# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A kept plan is used until something changes, and is never believed."""

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.hashing import digest
from seatrial.planning import plan_record
from seatrial.planning.calibration import Chosen, calibrate, write_calibration
from seatrial.planning.memory.constants import constants as memory_constants
from seatrial.planning.planner import plan_run
from seatrial.planning.resolve import resolve_basis
from seatrial.planning.saving.interval import rate_of
from seatrial.planning.search import choose
from seatrial.planning.search.problem import measured_on
from seatrial.planning.timing import constants
from seatrial.rendering.names import spec_digest
from seatrial.runs import kept_plan
from seatrial.runs.kept_plan import find, plan_file
from seatrial.sdk.plan import load_plan
from seatrial.spec.loader import load
from tests.unit.planning.search.asked import OPEN


@pytest.fixture
def open_spec(tmp_path: Path) -> Path:
    """A spec that leaves everything to the planner, planned once."""
    file = tmp_path / "run.yaml"
    file.write_text(OPEN)
    load_plan(file, (), Catalog())
    return file


def changed(file: Path, **changes: Any) -> None:
    """Change a kept plan and put a fitting digest on it, as somebody who means to would."""
    content = json.loads(file.read_text())
    del content["digest"]
    content |= changes
    file.write_text(json.dumps(content | {"digest": digest(content)}))


def test_a_kept_plan_is_used_without_a_search(
    open_spec: Path, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = load_plan(open_spec, (), catalog)[1]

    def no_search(*_: object, **__: object) -> None:
        raise AssertionError("searched again")

    monkeypatch.setattr(choose, "search", no_search)
    assert load_plan(open_spec, (), catalog)[1] == first


def test_a_changed_spec_is_planned_again_and_said(open_spec: Path, catalog: Catalog) -> None:
    open_spec.write_text(OPEN.replace("nodes: 2", "nodes: 4"))
    said: list[str] = []
    plan = load_plan(open_spec, (), catalog, tell=said.append)[1]
    assert plan.machines.nodes == 4
    assert said == [
        f"Planned again: the spec changed since {plan_file(open_spec, 'open')} was written."
    ]
    assert load_plan(open_spec, (), catalog, tell=said.append)[1] == plan
    assert len(said) == 1


def test_words_for_people_change_no_plan(open_spec: Path, catalog: Catalog) -> None:
    open_spec.write_text(f"{OPEN}description: other words\n")
    assert find(resolve_basis(load(open_spec), catalog), open_spec).choices is not None


def with_facts(tmp_path: Path, kind: str, text: str) -> Catalog:
    """The catalog with facts of one's own."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / f"{kind}.toml").write_text(text)
    return Catalog([tmp_path / "own"])


def test_changed_facts_are_noticed(open_spec: Path, tmp_path: Path) -> None:
    own = with_facts(tmp_path, "accelerators", "[a100-40gb]\nusable_memory_gib = 38.0\n")
    other = find(resolve_basis(load(open_spec), own), open_spec)
    assert other.choices is None
    assert "the catalog changed" in other.news


def test_another_price_changes_no_layout(open_spec: Path, tmp_path: Path) -> None:
    price = '{usd_per_hour = 1.0, region = "r", as_of = 2026-11-01, source = "a contract"}'
    own = with_facts(tmp_path, "node_types", f'["p4d.24xlarge"]\nprice = {price}\n')
    assert find(resolve_basis(load(open_spec), own), open_spec).choices is not None


def test_of_a_claim_the_tier_that_is_reckoned_with_is_among_the_facts(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(OPEN.replace("nodes: 2", "nodes: 2, storage: {claim: mine}"))
    load_plan(file, (), Catalog())
    assert find(resolve_basis(load(file), Catalog()), file).choices is not None
    tier = Catalog().profile("eks").default_storage
    own = with_facts(tmp_path, "storage", f"[{tier}]\nmb_s_per_tib = 77.0\n")
    assert "the catalog changed" in find(resolve_basis(load(file), own), file).news


@pytest.mark.parametrize("name", ["widening", "calibrated_error", "unseen_error"])
def test_every_error_of_the_table_is_among_the_constants(
    open_spec: Path, catalog: Catalog, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    other: dict[str, Any] = {name: 2.0}
    monkeypatch.setattr(plan_record, "table", lambda: replace(constants.table(), **other))
    found = find(resolve_basis(load(open_spec), catalog), open_spec)
    assert "The planner's constants changed after the layout" in found.news


@pytest.mark.usefixtures("fresh_constants")
def test_figures_of_other_machines_are_not_among_them(
    open_spec: Path, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = replace(constants.table(), version="another")
    monkeypatch.setattr(constants, "table", lambda: other)
    assert find(resolve_basis(load(open_spec), catalog), open_spec).news == ""


def calibrated_by(spec: Path, catalog: Catalog, factor: float) -> None:
    """Keep a calibration beside a spec."""
    loaded = load(spec)
    known = plan_run(resolve_basis(loaded, catalog)).constants
    assert known is not None
    steps = Chosen((10.0 * factor,) * 3, 2, 0)
    measured = calibrate(10.0, steps, measured_on(resolve_basis(loaded, catalog)), known)
    write_calibration(measured, plan_file(spec, "open").parent)


def test_a_calibration_tells_more_about_a_layout_and_leaves_it(
    open_spec: Path, catalog: Catalog
) -> None:
    before = load_plan(open_spec, (), catalog)[1]
    calibrated_by(open_spec, catalog, 3.0)
    # Another search would choose otherwise: a launched run would then have another spec.
    loaded = load(open_spec)
    after = find(resolve_basis(loaded, catalog), open_spec)
    new = plan_run(resolve_basis(loaded, catalog), calibration=after.calibration)
    assert spec_digest(new.plan.spec) != spec_digest(before.spec)
    said: list[str] = []
    kept = load_plan(open_spec, (), catalog, tell=said.append)[1]
    assert kept == before
    assert spec_digest(kept.spec) == spec_digest(before.spec)
    assert said == [
        f"The calibration changed after the layout in {plan_file(open_spec, 'open')} was chosen. "
        f"The run keeps this layout; to search again: seatrial plan {open_spec} --again."
    ]
    plain = plan_run(resolve_basis(loaded, catalog), kept=after.choices)
    calibrated = plan_run(
        resolve_basis(loaded, catalog), calibration=after.calibration, kept=after.choices
    )
    assert plain.chosen is not None
    assert calibrated.chosen is not None
    assert calibrated.chosen.time.total == pytest.approx(3.0 * plain.chosen.time.total)


def test_damage_is_noticed_though_only_the_calibration_changed(
    open_spec: Path, catalog: Catalog
) -> None:
    calibrated_by(open_spec, catalog, 3.0)
    file = plan_file(open_spec, "open")
    changed(file, choices=json.loads(file.read_text())["choices"] | {"parallelism.tp_size": 1})
    found = find(resolve_basis(load(open_spec), catalog), open_spec)
    assert found.choices is None
    assert "does not match its spec" in found.news


def refitted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other rates under the same version, as after a new fit."""
    known = constants.table()
    fits = tuple(
        replace(fit, rates=replace(fit.rates, matrix=0.9 * fit.rates.matrix)) for fit in known.fits
    )
    monkeypatch.setattr(constants, "table", lambda: replace(known, fits=fits))
    constants.constants_for.cache_clear()


@pytest.fixture
def fresh_constants() -> Iterator[None]:
    """Constants are looked up anew before and after the test."""
    constants.constants_for.cache_clear()
    yield
    constants.constants_for.cache_clear()


@pytest.mark.usefixtures("fresh_constants")
def test_refitted_times_are_noticed(
    open_spec: Path, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find(resolve_basis(load(open_spec), catalog), open_spec).choices is not None
    refitted(monkeypatch)
    found = find(resolve_basis(load(open_spec), catalog), open_spec)
    assert found.choices is not None
    assert "The planner's constants changed after the layout" in found.news


@pytest.mark.parametrize("name", ["memory_constants", "rate_of"])
def test_refitted_memory_and_failures_are_noticed(
    open_spec: Path, catalog: Catalog, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    if name == "memory_constants":
        other = replace(memory_constants("megatron-core"), error=0.5)
        monkeypatch.setattr(plan_record, name, lambda _: other)
    else:
        more = replace(rate_of(None), hours=1.0)
        monkeypatch.setattr(plan_record, name, lambda _: more)
    found = find(resolve_basis(load(open_spec), catalog), open_spec)
    assert found.choices is not None
    assert "The planner's constants changed after the layout" in found.news


@pytest.mark.usefixtures("fresh_constants")
def test_a_calibration_of_other_constants_is_not_used_and_said(
    open_spec: Path, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = load(open_spec)
    calibrated_by(open_spec, catalog, 1.2)
    assert find(resolve_basis(loaded, catalog), open_spec).findings == ()
    refitted(monkeypatch)
    found = find(resolve_basis(loaded, catalog), open_spec)
    assert found.calibration is None
    (finding,) = found.findings
    assert finding.code == "ST-TIME-002"
    assert "is ignored" in finding.rule
    assert finding.fix.startswith(f"Calibrate again: seatrial calibrate {open_spec}")
    said: list[str] = []
    load_plan(open_spec, (), catalog, tell=said.append)
    assert said[-1] == f"{finding.rule} {finding.fix}"


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"format": 1}', "null"])
def test_a_damaged_file_is_planned_again(open_spec: Path, catalog: Catalog, damage: str) -> None:
    file = plan_file(open_spec, "open")
    good = file.read_text()
    file.write_text(damage)
    found = find(resolve_basis(load(open_spec), catalog), open_spec)
    assert found.choices is None
    assert found.news == f"Planned again: {file} was modified."
    load_plan(open_spec, (), catalog)
    assert file.read_text() == good


def test_a_file_changed_by_hand_is_not_believed(open_spec: Path, catalog: Catalog) -> None:
    file = plan_file(open_spec, "open")
    content = json.loads(file.read_text())
    content["choices"]["parallelism.tp_size"] = 1
    file.write_text(json.dumps(content))
    assert find(resolve_basis(load(open_spec), catalog), open_spec).choices is None


@pytest.mark.parametrize(
    "choices",
    [
        {"parallelism.tp_size": 3},
        {"parallelism.tp_size": 1},
        {"cluster.nodes": 9},
        {"parallelism.sharding": "everything"},
        {"training.micro_batch_size": [1]},
        {},
    ],
)
def test_a_file_with_a_new_digest_must_still_follow_from_the_spec(
    open_spec: Path, catalog: Catalog, choices: dict[str, Any]
) -> None:
    file = plan_file(open_spec, "open")
    kept = json.loads(file.read_text())["choices"]
    changed(file, choices=kept | choices if choices else {})
    found = find(resolve_basis(load(open_spec), catalog), open_spec)
    assert found.choices is None
    assert found.news.startswith("Planned again: ")


def test_overrides_leave_the_kept_plan_alone(open_spec: Path, catalog: Catalog) -> None:
    before = plan_file(open_spec, "open").read_bytes()
    said: list[str] = []
    plan = load_plan(open_spec, ("cluster.nodes=4",), catalog, tell=said.append)[1]
    assert plan.machines.nodes == 4
    # The spec has not changed, and nobody says so.
    assert said == []
    assert plan_file(open_spec, "open").read_bytes() == before


def test_a_full_disk_leaves_no_file_beside_the_plan(
    open_spec: Path, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    directory = plan_file(open_spec, "open").parent
    before = sorted(directory.iterdir())
    open_spec.write_text(open_spec.read_text() + "\ndescription: another\n")
    plan_file(open_spec, "open").unlink()
    monkeypatch.setattr(os, "fsync", full)
    said: list[str] = []
    load_plan(open_spec, (), catalog, tell=said.append)
    assert "No space left on device" in said[-1]
    assert sorted(directory.iterdir()) == [file for file in before if file.name != "plan.json"]


def test_a_directory_that_cannot_be_written_is_said_and_keeps_nobody_from_planning(
    open_spec: Path, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_plan, "plan_file", lambda *_: Path("/proc/none/plan.json"))
    said: list[str] = []
    assert load_plan(open_spec, (), catalog, tell=said.append)[1].layout.world_size == 16
    (words,) = said
    assert words.startswith("The plan is not stored, so the next command may plan differently: ")
    assert "cannot write /proc/none/plan.json" in words
    # Who does not want it kept is not told that it is not.
    load_plan(open_spec, (), catalog, keep=False, tell=said.append)
    assert said == [words]


def test_specs_of_one_run_name_in_one_directory_keep_a_plan_each(
    open_spec: Path, catalog: Catalog
) -> None:
    other = open_spec.with_name("other.yaml")
    other.write_text(open_spec.read_text().replace("nodes: 2", "nodes: 4"))
    first = load_plan(open_spec, (), catalog)[1]
    told: list[str] = []
    second = load_plan(other, (), catalog, tell=told.append)[1]
    directory = open_spec.parent / ".seatrial" / "open"
    assert sorted(path.name for path in directory.iterdir()) == [
        "plan-other.yaml.json",
        "plan.json",
    ]
    for file, plan in ((open_spec, first), (other, second)):
        found = find(resolve_basis(load(file), catalog), file)
        assert found.run is not None
        assert (found.run.plan.digest, found.news) == (plan.digest, "")
    assert told == []
    # A renamed spec takes over the plan of the file that is gone.
    open_spec.rename(open_spec.with_name("renamed.yaml"))
    assert plan_file(open_spec.with_name("renamed.yaml"), "open").name == "plan.json"
    assert plan_file(other, "open").name == "plan-other.yaml.json"
