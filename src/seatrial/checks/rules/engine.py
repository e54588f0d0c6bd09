# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Rules that each engine provides, for example about its options and environment variables."""

import json
from collections.abc import Iterator

from seatrial.checks.rule import Checked, Situation, proposed, static
from seatrial.checks.rules.environment_variables import without_variable
from seatrial.codes.checks import CheckCode
from seatrial.engines.engine import RunProblem
from seatrial.engines.registry import ENGINES
from seatrial.planning.options import FLEX_DISPATCHERS
from seatrial.rendering.attempt import Attempt
from seatrial.rendering.context import scene_of
from seatrial.rendering.environment import COLLNET, reduces_in_switches

OPTION = "engine.options."
VARIABLE = "cluster.env."
DISPATCHER = "performance.token_dispatcher"
RDMA_FABRICS = ("infiniband", "infiniband-sharp", "gke-rdma", "roce")
"""Fabrics with the verbs that DeepEP and HybridEP use between nodes."""


def _without_option(situation: Situation, option: str) -> str:
    """Return the override that removes an option and keeps the others."""
    kept = {
        name: value
        for name, value in situation.spec.engine.options.items()
        if name.replace("_", "-") != option.replace("_", "-")
    }
    return f"engine.options={json.dumps(kept)}"


def _checked(situation: Situation, problem: RunProblem) -> Checked:
    """Turn a problem into a finding, with the change that removes it."""
    override = problem.override
    if not override and problem.field.startswith(OPTION):
        override = _without_option(situation, problem.field.removeprefix(OPTION))
    elif not override:
        override = without_variable(situation, problem.field.removeprefix(VARIABLE))
    found = situation.warning if problem.is_warning else situation.error
    return found(
        problem.code, problem.field, problem.rule, problem.fix, problem.value, proposed(override)
    )


def of_engine(situation: Situation) -> Iterator[Checked]:
    """Report settings that the engine would reject or ignore."""
    machines = situation.plan.machines
    name = machines.accelerator
    generation = situation.catalog.accelerator(name).architecture if name else ""
    domain = situation.catalog.node_type(machines.node_type).linked_gpus(
        machines.processes_per_node
    )
    engine = ENGINES[situation.spec.engine.name]
    for problem in engine.run_problems(situation.plan, generation, domain):
        yield _checked(situation, problem)


def sharp(situation: Situation) -> Iterator[Checked]:
    """Report that the spec's SHARP option contradicts NCCL_COLLNET_ENABLE."""
    option = ENGINES[situation.spec.engine.name].sharp_option
    written = {name.replace("_", "-"): name for name in situation.spec.engine.options}
    if not situation.in_pods or not option or option not in written:
        return
    scene = scene_of(situation.plan, situation.catalog, Attempt())
    name, fabric = written[option], situation.plan.machines.fabric
    in_switches, value = reduces_in_switches(scene), situation.spec.engine.options[name]
    if in_switches == bool(value):
        return
    title = ENGINES[situation.spec.engine.name].title
    if in_switches:
        rule = f"{title} ignores {COLLNET}=1 on {fabric} unless {option} is set: the switches "
        rule += "would not reduce the gradients."
        fix = f"Remove the option: Seatrial sets {option} on this fabric."
    else:
        rule = f"{option} lets the InfiniBand switches reduce the gradients (SHARP), but {fabric} "
        rule += f"sets neither {COLLNET} nor the variables of SHARP's plugin."
        fix = "Remove the option. To use SHARP on AKS, set cluster.fabric=infiniband-sharp."
    yield situation.warning(
        CheckCode.SHARP,
        f"{OPTION}{name}",
        rule,
        fix,
        str(value).lower(),
        proposed(_without_option(situation, option)),
    )


def dispatcher(situation: Situation) -> Iterator[Checked]:
    """Report that the image or the fabric is not known to work with DeepEP or HybridEP."""
    asked, machines = situation.spec.performance.token_dispatcher, situation.plan.machines
    if asked not in FLEX_DISPATCHERS or not machines.accelerator:
        return
    layout = situation.plan.layout
    leaves_node = layout.ep_size * layout.etp_size > machines.processes_per_node
    if leaves_node and machines.fabric not in RDMA_FABRICS:
        yield situation.warning(
            CheckCode.DISPATCHER,
            DISPATCHER,
            f"the experts of a layer are on several nodes, and {asked} sends tokens between nodes "
            f"only over InfiniBand or RoCE. It is not known to work on {machines.fabric}.",
            f"Use ep_size {max(1, machines.processes_per_node // layout.etp_size)} or less, or "
            "alltoall.",
            asked,
            proposed(f"{DISPATCHER}=alltoall"),
        )
    elif situation.in_pods:
        title = ENGINES[situation.spec.engine.name].title
        yield situation.warning(
            CheckCode.DISPATCHER,
            DISPATCHER,
            f"{machines.image} is not known to contain {asked} for this version of {title}. "
            "Without it, every rank fails at the first layer with experts.",
            "Run python -c 'import deep_ep' in the image: HybridEP is a part of that package. If "
            "it fails, use alltoall.",
            asked,
            proposed(f"{DISPATCHER}=alltoall"),
        )


RULES = (
    static(CheckCode.DISPATCHER, look=dispatcher),
    static(CheckCode.SHARP, look=sharp),
    static(
        CheckCode.CONNECTIONS,
        CheckCode.ENGINES_OWN,
        CheckCode.OPTION_NEEDS,
        CheckCode.OPTION_AGAINST,
        CheckCode.WIDTHS,
        look=of_engine,
    ),
)
