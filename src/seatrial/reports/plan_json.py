# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A planned run as plain data for `--json`."""

from dataclasses import asdict
from typing import Any

from seatrial.planning.memory.breakdown import Memory
from seatrial.planning.run_budget import failure_loss
from seatrial.planning.saving.run_saves import Saves
from seatrial.planning.search.candidates import Lacking, Priced
from seatrial.planning.search.explain import named, why
from seatrial.planning.search.sizing import Limits
from seatrial.reports.plan_text import Page


def page_data(page: Page) -> dict[str, Any]:
    """Return everything that the page shows, and the whole plan."""
    run, budget = page.run, page.budget
    length = budget.duration
    data: dict[str, Any] = {
        "plan": run.plan.to_dict(),
        "plan_digest": run.plan.digest,
        "choices": dict(run.choices),
        "options_off": {off.name: off.reason for off in run.options_off},
        "estimate": None,
        "length": {
            "seconds": length.total if length else None,
            "training_seconds": length.training if length else None,
            "saving_seconds": length.saving if length else None,
            "failure_seconds": length.failures if length else None,
            "relative_error": budget.error,
            "node_hours": budget.node_hours,
            "cost": asdict(budget.cost) if budget.cost else None,
        },
        "saves": _saves(page, budget.saves) if budget.saves else None,
        "limits": _limits(page.limits) if page.limits else None,
        "search": None,
        "findings": [finding.to_dict() for finding in page.findings],
    }
    if run.chosen is not None and run.constants is not None:
        data["estimate"] = estimate_data(run.chosen) | {
            "step_relative_error": asdict(run.time_error) if run.time_error else None,
            "constants": run.constants.provenance,
            "constants_version": run.constants.version,
        }
    if run.chosen is not None and run.outcome is not None:
        outcome = run.outcome
        data["search"] = {
            "chose": run.searched,
            "legal": outcome.legal,
            "priced": outcome.priced,
            "risky": outcome.risky,
            "instead": _instead(outcome.instead),
            "why": why(run.chosen, outcome, run.problem),
            "ranked": [_alternative(found) for found in outcome.ranked],
            "do_not_fit": [_lacking(found) for found in outcome.lacking],
        }
    return data


def _saves(page: Page, saves: Saves) -> dict[str, Any]:
    """Return the checkpoints; times in seconds, sizes in bytes."""
    loss = failure_loss(page.budget, page.run.plan.machines.nodes)
    return asdict(saves.budget) | {
        "work_at_risk_seconds": saves.at_risk,
        "failure_loss": asdict(loss) if loss else None,
        "tier": saves.tier,
        "tier_assumed": saves.assumed,
        "write_seconds_by_tier": saves.write_seconds,
        "seconds_between_failures": saves.between_failures,
        "failure_rate": asdict(saves.rate),
    }


def _limits(limits: Limits) -> dict[str, Any]:
    """Return the fewest nodes and the largest model."""
    largest = limits.largest_model
    return {
        "fewest_nodes": limits.fewest.nodes if limits.fewest else None,
        "every_fewer_tried": limits.fewest.all_tried if limits.fewest else None,
        "fewest_nodes_sharding": limits.shared_out,
        "largest_model": None
        if largest is None
        else {
            "parameters": largest.parameters,
            "largest_tried": largest.largest_tried,
            "dimensions": largest.architecture.model_dump(mode="json"),
        },
    }


def estimate_data(chosen: Priced) -> dict[str, Any]:
    """Return the memory and time of a layout."""
    time = chosen.time
    return {
        "memory": _memory(chosen.memory),
        "step_seconds": time.total,
        "step_parts_seconds": {str(part): seconds for part, seconds in time.parts.items()},
        "stage_seconds": list(time.stages),
        "model_flops": time.model_flops,
        "flops_per_gpu": time.flops_per_gpu,
        "tokens_per_second_per_gpu": chosen.rate,
    }


def _memory(need: Memory) -> dict[str, Any]:
    """Return the memory of the stages in bytes."""
    return {
        "verdict": need.verdict,
        "headroom_bytes": need.headroom,
        "relative_error": need.error,
        "tested_relative_error": need.tested,
        "assumed_relative_error": need.assumed,
        "untested": list(need.untested),
        "stages": [
            {
                "stage": stage.index,
                "total_bytes": stage.total,
                "parts_bytes": {str(part): size for part, size in stage.parts.items()},
            }
            for stage in need.stages
        ],
    }


def _alternative(found: Priced) -> dict[str, Any]:
    """Return the summary of a ranked layout."""
    candidate = found.candidate
    return {
        "layout": named(candidate),
        "degrees": asdict(candidate.shape.layout),
        "micro_batch_size": candidate.micro_batch_size,
        "global_batch_size": candidate.global_batch_size,
        "recompute": candidate.recompute,
        "sharding": candidate.shape.sharding,
        "step_seconds": found.time.total,
        "tokens_per_second_per_gpu": found.rate,
        "memory_bytes": found.memory.fullest.total,
    }


def _instead(found: Priced | Lacking | None) -> dict[str, Any] | None:
    """Return the best layout with the other sharding, if memory decided between the two."""
    if found is None:
        return None
    own = _alternative(found) if isinstance(found, Priced) else _lacking(found)
    return own | {"verdict": found.memory.verdict}


def _lacking(found: Lacking) -> dict[str, Any]:
    """Return the summary of a layout that does not fit."""
    return {
        "layout": named(found.candidate),
        "recompute": found.candidate.recompute,
        "memory_bytes": found.memory.fullest.total,
        "lacks_bytes": -found.memory.headroom,
    }
