# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The resume verdict as findings: each reason at its field, and silence where there is none."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.checkpoints.setup import SavedConstants, Setup, Versions
from seatrial.checks.check import NO_CHECKPOINT, Verdict, check, codes_of
from seatrial.checks.probe_facts import PlaceFacts, SavedFacts, Unknown
from seatrial.checks.probes.checkpoints import CheckpointReader
from seatrial.checks.repairs.repair import Broken, mends, repair_of
from seatrial.checks.resume_source import wanted_setup
from seatrial.checks.rule import Scope
from seatrial.codes.resume import ResumeCode
from seatrial.findings import Finding, Severity
from tests.unit.checkpoints.made import make_checkpoint
from tests.unit.checks.examples import BASE, INSTALLED, without_unknown_image

OWN = "/data/example/checkpoints"
PARENT = "/data/first/checkpoints"
CONTINUES = "continue_from={run: first}"
Change = Callable[[Setup], Setup]


@dataclass
class Places:
    """A probe that answers what it was given."""

    places: dict[str, PlaceFacts]

    def at(self, address: str) -> PlaceFacts | Unknown:
        return self.places.get(address, Unknown.UNSEEN)


@cache
def setup_of_the_run() -> Setup:
    situation = check(BASE, "run.yaml", Catalog()).situation
    assert situation is not None
    return wanted_setup(situation)


def places(change: Change = lambda s: s, *, at: str = PARENT, **facts: Any) -> Places:
    """One checkpoint of step 500 whose setup is that of the run, changed."""
    setup = change(setup_of_the_run())
    tracked = facts.pop("tracked", 500)
    saved = (SavedFacts(500, setup, 500 * setup.global_batch_size, **facts),)
    return Places({at: PlaceFacts(saved, tracked)})


RATE = "training.learning_rate.peak=1.2e-4"
"""The default; a run from trained weights has to state it."""


def verdict(probe: Places, *overrides: str) -> Verdict:
    return without_unknown_image(
        check(BASE, "run.yaml", Catalog(), (*INSTALLED, *overrides), checkpoints=probe)
    )


def order(**values: Any) -> Change:
    return lambda s: replace(s, data_order=replace(s.data_order, **values))


def model(**values: Any) -> Change:
    return lambda s: replace(s, model=replace(s.model, **values))


def layout(**values: Any) -> Change:
    return lambda s: replace(s, layout=replace(s.layout, **values))


def rate(**values: Any) -> Change:
    def changed(setup: Setup) -> Setup:
        assert setup.schedule is not None
        return replace(setup, schedule=replace(setup.schedule, **values))

    return changed


def setup(**values: Any) -> Change:
    return lambda s: replace(s, **values)


def in_buckets(saved: Setup) -> Setup:
    return layout(tp_size=8, dp_size=2)(setup(optimizer_sharding="dp_reshardable")(saved))


PARENTS: dict[str, tuple[Places, str]] = {
    ResumeCode.MODEL: (places(model(layers=2)), "continue_from"),
    ResumeCode.PADDING: (places(model(padded_vocab_size=51200)), "continue_from"),
    ResumeCode.FORMAT: (places(setup(checkpoint_format="torch_dcp")), "continue_from"),
    ResumeCode.OPTIMIZER: (places(setup(optimizer="sgd")), "training.optimizer"),
    ResumeCode.PRECISION: (places(setup(precision="fp16")), "training.precision"),
    ResumeCode.LAYOUT: (places(in_buckets), "parallelism.tp_size"),
    ResumeCode.RESHARDED: (places(layout(tp_size=8, dp_size=2)), "parallelism.tp_size"),
    ResumeCode.BLEND: (places(order(blend=("/data/prepared/other",))), "data.sources"),
    ResumeCode.SEQUENCE: (places(order(sequence_length=1024)), "training.sequence_length"),
    ResumeCode.SPLIT: (places(order(split="90,10,0")), "data.split"),
    ResumeCode.SEED: (places(order(seed=1)), "training.seed"),
    ResumeCode.LENGTH: (places(order(train_samples=64_000)), "training.steps"),
    ResumeCode.TOKENIZER: (places(setup(tokenizer="other")), "data.tokenizer"),
    ResumeCode.SCHEDULE: (places(rate(peak=1e-3)), "training.learning_rate.peak"),
    ResumeCode.BATCH: (places(setup(global_batch_size=64)), "training.global_batch_size"),
    ResumeCode.NEWER_ENGINE: (
        places(setup(versions=Versions("0.1.0", "megatron-core 0.99.0", "2.13.0"))),
        "continue_from",
    ),
    ResumeCode.FINISHED: (
        Places({PARENT: PlaceFacts((SavedFacts(1000, setup_of_the_run(), 128_000),))}),
        "training.steps",
    ),
    ResumeCode.NOTHING_SAVED: (places(recorded=False), "continue_from.checkpoints"),
}
NOTES = (ResumeCode.RESHARDED, ResumeCode.LENGTH)


def of_code(code: str, said: Verdict) -> list[Finding]:
    return [finding for finding in said.findings if finding.code == code]


@pytest.mark.parametrize("code", PARENTS)
def test_a_reason_stands_at_its_field_and_its_change_mends_it(code: str) -> None:
    probe, field = PARENTS[code]
    before = verdict(probe, CONTINUES)
    (finding,) = of_code(code, before)
    assert finding.where.field == field
    assert finding.rule[-1] == "."
    assert finding.fix[-1] == "."
    assert (finding.severity is Severity.NOTE) == (code in NOTES)
    run = Broken(BASE, "run.yaml", Catalog(), (CONTINUES,), checkpoints=probe)
    fired = next(each for each in before.checked if each.finding is finding)
    repair = repair_of(run, fired)
    if repair:
        assert mends(before, run.again(repair.overrides), finding)


@pytest.mark.parametrize("code", PARENTS)
def test_nothing_is_said_of_a_checkpoint_that_fits(code: str) -> None:
    assert not of_code(code, verdict(places(), CONTINUES))


def test_every_code_is_tried() -> None:
    elsewhere = {ResumeCode.CONTENT, ResumeCode.NO_STEP, ResumeCode.TORN, ResumeCode.FOREIGN}
    elsewhere |= {ResumeCode.PLACE}
    looked = {*codes_of(Scope.RESUME), ResumeCode.PLACE}
    assert looked == set(ResumeCode) == elsewhere | set(PARENTS)


def test_a_model_that_computes_otherwise_is_told_and_not_refused() -> None:
    probe = places(setup(constants=SavedConstants(0.0, 0.0, 0.0, 1e-6)))
    (finding,) = of_code(ResumeCode.MODEL, verdict(probe, CONTINUES))
    assert finding.severity is Severity.WARNING
    assert "norm epsilon 1e-06" in finding.rule


def test_files_of_another_size_are_other_data() -> None:
    probe = places(order(sizes=(1,)))
    assert not of_code(ResumeCode.CONTENT, verdict(probe, CONTINUES)), "files here are not seen"


def test_files_of_another_size_are_found_where_they_are_seen(tmp_path: Path) -> None:
    prefix = tmp_path / "web"
    prefix.with_suffix(".bin").write_bytes(b"12")
    change = order(sizes=(1,), blend=(str(prefix),))
    source = f"data.sources=[{{prepared: {prefix}}}]"
    mount = f"cluster.storage={{tier: amlfs-125, mount: {tmp_path}}}"
    probe = places(change, at=f"{tmp_path}/first/checkpoints")
    assert of_code(ResumeCode.CONTENT, verdict(probe, CONTINUES, source, mount))


@pytest.mark.parametrize(
    ("step", "recorded", "code"),
    [(700, True, ResumeCode.NO_STEP), (800, False, ResumeCode.TORN)],
)
def test_a_step_that_cannot_be_loaded(step: int, recorded: bool, code: str) -> None:
    good = places().places[PARENT]
    torn = SavedFacts(800, None, recorded=recorded)
    probe = Places({PARENT: replace(good, saved=(torn, *good.saved))})
    said = verdict(probe, f"continue_from={{run: first, step: {step}}}")
    (finding,) = of_code(code, said)
    assert finding.where.field == "continue_from.step"
    assert "500" in finding.fix
    assert not verdict(probe, "continue_from={run: first, step: 500}").findings


def test_a_parent_whose_newest_save_is_torn_is_told_with_what_is_taken_instead() -> None:
    good = places().places[PARENT]
    torn = SavedFacts(800, None, recorded=False)
    probe = Places({PARENT: replace(good, saved=(torn, *good.saved))})
    (finding,) = verdict(probe, CONTINUES).findings
    assert (finding.code, finding.severity) == (ResumeCode.TORN, Severity.WARNING)
    assert not verdict(probe, "continue_from={run: first, step: 500}").findings


def test_a_checkpoint_without_the_optimizers_state_is_only_weights(tmp_path: Path) -> None:
    (finding,) = verdict(places(has_optimizer=False), CONTINUES).findings
    assert (finding.code, finding.where.field) == (ResumeCode.OPTIMIZER, "continue_from")
    make_checkpoint(tmp_path, 5)
    found = CheckpointReader().at(str(tmp_path))
    assert isinstance(found, PlaceFacts)
    assert not found.saved[0].has_optimizer, "its list of tensors names layers only"
    (tmp_path / "iter_0000005" / ".metadata").write_bytes(b"?")
    found = CheckpointReader().at(str(tmp_path))
    assert isinstance(found, PlaceFacts)
    assert found.saved[0].has_optimizer, "nobody can tell"


def test_first_weights_have_to_be_there_and_of_this_model() -> None:
    starts = (f"initial_weights={{checkpoint: {PARENT}}}", RATE)
    (finding,) = verdict(places(model(layers=2)), *starts).findings
    assert (finding.code, finding.where.field) == (ResumeCode.MODEL, "initial_weights.checkpoint")
    (finding,) = verdict(Places({PARENT: PlaceFacts(())}), *starts).findings
    assert finding.code == ResumeCode.NOTHING_SAVED
    # Another schedule, other data and another layout are a new run's own.
    assert not verdict(places(rate(peak=1e-3)), *starts).findings


@pytest.mark.parametrize(
    "field", ["continue_from={run: first, checkpoints: %s}", "initial_weights={checkpoint: %s}"]
)
def test_a_checkpoint_has_to_be_where_pods_see_it(field: str) -> None:
    overrides = (*INSTALLED, RATE, field % "/home/me/saves")
    verdict = without_unknown_image(check(BASE, "run.yaml", Catalog(), overrides))
    (finding,) = verdict.findings
    assert finding.code == ResumeCode.PLACE
    for seen in (PARENT, "s3://bucket/saves"):
        seeing = (*INSTALLED, RATE, field % seen)
        assert not without_unknown_image(check(BASE, "run.yaml", Catalog(), seeing)).findings


def test_the_runs_own_checkpoints_come_before_its_parents() -> None:
    probe = Places(places(model(layers=2)).places | places(at=OWN).places)
    assert not verdict(probe, CONTINUES).findings


def test_another_models_checkpoints_in_the_runs_own_place() -> None:
    (finding,) = verdict(places(model(layers=2), at=OWN)).findings
    assert (finding.code, finding.where.field) == (ResumeCode.MODEL, "checkpoints.location")


def test_checkpoints_without_a_record_in_the_runs_own_place() -> None:
    (finding,) = verdict(places(at=OWN, recorded=False)).findings
    assert (finding.code, finding.severity) == (ResumeCode.FOREIGN, Severity.ERROR)
    # A save of this very run that was cut short has no tracker yet.
    assert not verdict(places(at=OWN, recorded=False, tracked=None)).findings


def test_a_schedule_that_begins_anew_may_differ() -> None:
    probe = places(rate(peak=1e-3))
    again = "continue_from={run: first, reset_schedule: true}"
    assert not of_code(ResumeCode.SCHEDULE, verdict(probe, again))


def test_nothing_is_looked_at_where_there_is_no_checkpoint(tmp_path: Path) -> None:
    reader = CheckpointReader()
    said = check(BASE, "run.yaml", Catalog(), checkpoints=reader)
    assert said.not_run[NO_CHECKPOINT] == len(codes_of(Scope.RESUME))
    location = f"checkpoints.location={tmp_path}"
    said = check(BASE, "run.yaml", Catalog(), (location,), checkpoints=reader)
    assert said.not_run[NO_CHECKPOINT] == len(codes_of(Scope.RESUME))


def test_a_checkpoint_on_a_disk_is_read(tmp_path: Path) -> None:
    make_checkpoint(tmp_path, 5)
    mount = f"cluster.storage={{tier: amlfs-125, mount: {tmp_path.parent}}}"
    location = f"checkpoints.location={tmp_path}"
    said = check(BASE, "run.yaml", Catalog(), (mount, location), checkpoints=CheckpointReader())
    assert of_code(ResumeCode.MODEL, said)


def test_a_place_that_is_not_here_is_nowhere_for_a_run_on_this_host(tmp_path: Path) -> None:
    absent = str(tmp_path / "nowhere")
    assert CheckpointReader().at(absent) is Unknown.UNSEEN
    assert CheckpointReader(here=True).at(absent) is Unknown.ABSENT
    assert CheckpointReader(here=True).at("s3://bucket/nowhere") is Unknown.UNSEEN


def test_a_weight_decay_that_grows_is_bound_to_the_length_of_the_run() -> None:
    def longer(setup: Setup) -> Setup:
        order = setup.data_order
        return replace(setup, data_order=replace(order, train_samples=2 * order.train_samples))

    def said(probe: Places, style: str, *more: str) -> bool:
        options = (
            f"{{weight-decay-incr-style: {style}, start-weight-decay: 0, end-weight-decay: 1}}"
        )
        found = verdict(probe, CONTINUES, f"engine.options={options}", *more).findings
        return any("weight decay grows" in finding.rule for finding in found)

    assert said(places(longer), "linear")
    assert not said(places(longer), "constant")
    assert not said(places(), "linear")
    anew = "continue_from.reset_schedule=true"
    assert not said(places(longer), "linear", anew)
