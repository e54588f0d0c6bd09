# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Finds the checkpoints that a run would resume from: its own, or those of its parent."""

from dataclasses import dataclass

from seatrial.checkpoints.by_engine import setup_of
from seatrial.checkpoints.setup import Setup
from seatrial.checks.probe_facts import PlaceFacts, SavedFacts, Unknown
from seatrial.checks.rule import Situation
from seatrial.engines.registry import ENGINES
from seatrial.planning.plan import parent_location


@dataclass(frozen=True, slots=True)
class ResumeOrigin:
    """The location that a run would resume from."""

    address: str
    place: PlaceFacts
    is_parent: bool
    """True if the location belongs to the parent run that the spec names."""

    @property
    def field(self) -> str:
        """The spec field that sets the location."""
        return "continue_from" if self.is_parent else "checkpoints.location"


def places_of(situation: Situation) -> tuple[str, ...]:
    """Return the locations where the run looks for checkpoints, its own first."""
    weights = situation.spec.initial_weights
    named = (parent_location(situation.spec), weights.checkpoint if weights else None)
    return (situation.plan.checkpoint_location, *(place for place in named if place))


def has_resume_checks(situation: Situation) -> bool:
    """True if the resume rules support the run's engine."""
    return ENGINES[situation.spec.engine.name].has_resume_checks


def sees_checkpoints(situation: Situation) -> bool:
    """True if a checkpoint location can be read, so that the resume rules can run."""
    probe = situation.checkpoints
    if probe is None or not has_resume_checks(situation):
        return False
    weights = situation.spec.initial_weights
    first = weights.checkpoint if weights else None
    seen = first is not None and probe.at(first) is not Unknown.UNSEEN
    return seen or origin_of(situation) is not None


def origin_of(situation: Situation) -> ResumeOrigin | None:
    """Return the location that the run would resume from; `None` if none can be read."""
    if situation.checkpoints is None or not has_resume_checks(situation):
        return None
    own = situation.checkpoints.at(situation.plan.checkpoint_location)
    if isinstance(own, PlaceFacts) and (own.saved or own.tracked is not None):
        return ResumeOrigin(situation.plan.checkpoint_location, own, is_parent=False)
    if situation.spec.continue_from is None:
        return None
    address = parent_location(situation.spec)
    found = situation.checkpoints.at(address)
    if found is Unknown.UNSEEN:
        return None
    place = found if isinstance(found, PlaceFacts) else PlaceFacts(())
    return ResumeOrigin(address, place, is_parent=True)


def chosen_of(situation: Situation, origin: ResumeOrigin) -> SavedFacts | None:
    """Return the checkpoint that the run would load."""
    parent = situation.spec.continue_from
    if origin.is_parent and parent is not None and parent.step != "latest":
        return next((one for one in origin.place.saved if one.step == parent.step), None)
    return origin.place.newest


def wanted_setup(situation: Situation) -> Setup:
    """Return the setup that the run would record in its checkpoints."""
    return setup_of(situation.plan)
