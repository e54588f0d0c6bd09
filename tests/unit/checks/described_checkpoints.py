# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints as the `checkpoint.toml` of a broken run describes them.

What a description leaves out of a setup is taken to be as the run has it: a case has one defect.
"""

import tomllib
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from seatrial.checkpoints.setup import ModelShape, SavedSchedule, Setup
from seatrial.checks.probe_facts import PlaceFacts, SavedFacts, Unknown
from seatrial.planning.layout import Layout

Description = dict[str, Any]
ABSENT = "none"
"""What a description calls an optimizer's state that was not saved."""


class DescribedCheckpoints:
    def __init__(self, description: Description, run: Setup) -> None:
        self._run = run
        self._tracked = description.get("tracker")
        self._places: dict[str, list[Description]] = {}
        for told in description.get("checkpoints", ()):
            self._places.setdefault(told["path"].rpartition("/")[0], []).append(told)

    @classmethod
    def of(cls, folder: Path, run: Setup | None) -> "DescribedCheckpoints | None":
        """What the folder of a case describes, if it does."""
        file = folder / "checkpoint.toml"
        if not file.is_file() or run is None:
            return None
        return cls(tomllib.loads(file.read_text()), run)

    def at(self, address: str) -> PlaceFacts | Unknown:
        told = self._places.get(address.rstrip("/"))
        if told is None:
            return Unknown.ABSENT
        saved = sorted((self._saved(each) for each in told), key=lambda one: -one.step)
        return PlaceFacts(tuple(saved), self._tracked)

    def _saved(self, told: Description) -> SavedFacts:
        step, batch = told["step"], told.get("global_batch_size", self._run.global_batch_size)
        return SavedFacts(
            step,
            self._setup(told),
            told.get("consumed_samples", step * batch),
            told.get("complete", True),
            told.get("optimizer_state") != ABSENT,
        )

    def _setup(self, told: Description) -> Setup:
        run = self._run
        shape = {f.name: told[f.name] for f in fields(ModelShape) if f.name in told}
        if "hidden_size" in told and "head_dim" not in told:
            shape["head_dim"] = told["hidden_size"] // told["heads"]
        if run.model.max_positions and "max_positions" not in told:
            # A table of learned positions is as long as the samples, where nothing else is said.
            shape["max_positions"] = told.get("sequence_length", run.model.max_positions)
        degrees = {f.name: told[f.name] for f in fields(Layout) if f.name in told}
        layout = replace(run.layout, **degrees)
        layout = replace(layout, etp_size=told.get("etp_size", layout.tp_size))
        layout = layout.spread_over(told.get("world_size", run.layout.world_size))
        sharded = (
            "fully_reshardable" if run.optimizer_sharding == ABSENT else run.optimizer_sharding
        )
        own = "none" if told.get("sharding") == "none" else sharded
        state = told.get("optimizer_state", own)
        return replace(
            run,
            layout=layout,
            model=replace(run.model, **shape),
            data_order=self._order(told),
            tokenizer=self._tokenizer(told),
            precision=told.get("precision", run.precision),
            checkpoint_format=_format(told, run),
            versions=replace(run.versions, engine=_engine(told, run)),
            optimizer=told.get("optimizer", run.optimizer),
            optimizer_sharding=own if state == ABSENT else state,
            global_batch_size=told.get("global_batch_size", run.global_batch_size),
            schedule=self._schedule(told),
        )

    def _order(self, told: Description) -> Any:
        order, batch = self._run.data_order, told.get("global_batch_size", 0)
        changes: Description = {}
        for name in ("seed", "sequence_length", "train_samples"):
            if name in told:
                changes[name] = told[name]
        if "train_steps" in told:
            changes["train_samples"] = told["train_steps"] * batch
        if "split" in told:
            changes["split"] = ",".join(f"{share:g}" for share in told["split"])
        if "blend" in told:
            changes["blend"] = self._blend(told["blend"])
        return replace(order, **changes)

    def _blend(self, told: list[Description]) -> tuple[str, ...]:
        """The words of a blend; the weight of a single source says nothing."""
        words = list[str]()
        for each in told:
            words += [f"{each['weight']:g}"] if len(told) > 1 else []
            words.append(each["prefix"])
        return tuple(words)

    def _tokenizer(self, told: Description) -> str:
        """The tokenizer as the engine is given it, where the description names one."""
        name = str(told.get("tokenizer", "")).removeprefix("hf://").partition("@")[0]
        kind = self._run.tokenizer.partition(" ")[0]
        return f"{kind} {name}" if name else self._run.tokenizer

    def _schedule(self, told: Description) -> SavedSchedule | None:
        """The learning rate; in whole steps where the plan counts in steps."""
        rate, run = told.get("learning_rate"), self._run.schedule
        if rate is None or run is None:
            return run
        in_steps = run.warmup_samples % self._run.global_batch_size == 0
        batch = told.get("global_batch_size", 1) if in_steps else 1
        return SavedSchedule(
            rate.get("peak", run.peak),
            rate.get("minimum", run.minimum),
            rate.get("style", run.style),
            rate.get("warmup_samples", run.warmup_samples) // batch * batch,
            rate.get("decay_samples", run.decay_samples) // batch * batch,
        )


def _format(told: Description, run: Setup) -> str:
    """The format of a checkpoint; one of another engine has none that this one knows."""
    if told.get("engine", "megatron") != "megatron":
        return str(told["engine"])
    return str(told.get("format", run.checkpoint_format))


def _engine(told: Description, run: Setup) -> str:
    """The engine with its version; that of the run where the description says none."""
    version = told.get("engine_version")
    return f"megatron-core {version}" if version else run.versions.engine
