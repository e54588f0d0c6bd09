# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Rules about environment variables and the network between nodes."""

import json
from collections.abc import Iterator

from seatrial.catalog.node_types import Cloud
from seatrial.checks.facts import Harm, harmful_variables, nccl_variables, unread_on
from seatrial.checks.rule import Checked, Situation, proposed, static
from seatrial.codes.checks import CheckCode
from seatrial.naming import nearest
from seatrial.rendering.environment import forbidding

_CODES = {
    Harm.DEBUGGING: CheckCode.DEBUGGING,
    Harm.SLOWING: CheckCode.SLOWING,
    Harm.DEVICES: CheckCode.DEVICES,
}
_PLUGINS = ("NCCL_FASTRAK_", "NCCL_GPUDIRECTTCPX_", "NCCL_SHARP_", "NCCL_OFI_", "NCCL_RDMA_")
"""Prefixes of variables that plugins read, but NCCL itself does not."""
PINNED = ("NCCL_IB_GID_INDEX",)
"""Variables whose value differs between nodes; NCCL 2.21 and newer detect it."""
IDENTITY_LINK = "pod-id-link0"
"""The interface of EKS Pod Identity; it does not reach other nodes."""
OFFLINE_SWITCHES = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
_ON = ("1", "on", "true", "yes")


def without_variable(situation: Situation, *names: str) -> str:
    """Return the override that removes variables and keeps the others."""
    left = {key: text for key, text in situation.spec.cluster.env.items() if key not in names}
    return f"cluster.env={json.dumps(left)}"


def _spoken_for(situation: Situation, name: str, value: str) -> bool:
    """True if rendering reports the variable already."""
    machines = situation.plan.machines
    fabric = situation.catalog.fabric(machines.fabric)
    harmful_here = forbidding(fabric, machines.node_type, name, value) is not None
    return situation.in_pods and harmful_here


def harmful(situation: Situation) -> Iterator[Checked]:
    """Report variables that cause problems on any fabric."""
    fabric = situation.plan.machines.fabric
    rdma = situation.catalog.fabric(fabric).rdma
    for known in harmful_variables():
        value = situation.spec.cluster.env.get(known.name)
        if value is None or (known.values and value.lower() not in known.values):
            continue
        if not known.concerns(fabric, rdma=rdma) or _spoken_for(situation, known.name, value):
            continue
        yield situation.warning(
            _CODES[known.kind],
            f"cluster.env.{known.name}",
            f"{known.name}={value}: {known.why}.",
            "Remove the line.",
            value,
            proposed(without_variable(situation, known.name)),
        )


def unfused(situation: Situation) -> Iterator[Checked]:
    """Report that both fused attention backends of Transformer Engine are disabled."""
    names = ("NVTE_FLASH_ATTN", "NVTE_FUSED_ATTN")
    if all(situation.spec.cluster.env.get(name) == "0" for name in names):
        yield situation.warning(
            CheckCode.SLOWING,
            f"cluster.env.{names[0]}",
            "NVTE_FLASH_ATTN and NVTE_FUSED_ATTN are both 0: unfused attention is much slower, and "
            "its memory use grows with the square of the sequence length.",
            "Remove both lines.",
            "0",
            proposed(without_variable(situation, *names)),
        )


def unread(situation: Situation) -> Iterator[Checked]:
    """Report variables that look like NCCL variables but that NCCL does not read."""
    fabric = situation.catalog.fabric(situation.plan.machines.fabric)
    own = {variable.name for variable in fabric.environment}
    for name, value in situation.spec.cluster.env.items():
        known = name in nccl_variables() or name in own or name.startswith(_PLUGINS)
        like_nccl = name.upper().startswith("NCCL_")
        if not like_nccl or known or _spoken_for(situation, name, value):
            continue
        match = nearest(name, nccl_variables())
        yield situation.warning(
            CheckCode.UNREAD,
            f"cluster.env.{name}",
            f"NCCL does not read {name}, so it has no effect.",
            f"Use {match} if that is the variable you want; otherwise, remove the line."
            if match
            else "Remove the line.",
            value,
            proposed(without_variable(situation, name)),
        )


def elsewhere(situation: Situation) -> Iterator[Checked]:
    """Report variables that have an effect only on a different network."""
    fabric = situation.plan.machines.fabric
    own = {variable.name for variable in situation.catalog.fabric(fabric).environment}
    for name, value in situation.spec.cluster.env.items():
        why = "" if name in own else unread_on(fabric, name)
        if why and not _spoken_for(situation, name, value):
            yield situation.warning(
                CheckCode.UNREAD,
                f"cluster.env.{name}",
                f"{name} has no effect on {fabric}: {why}.",
                "Remove the line.",
                value,
                proposed(without_variable(situation, name)),
            )


def interfaces(situation: Situation) -> Iterator[Checked]:
    """Report interface names that exclude the right interface or allow a wrong one."""
    for name in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"):
        value = situation.spec.cluster.env.get(name, "")
        rule = _interface_rule(situation, name, value) if value else ""
        if rule and not _spoken_for(situation, name, value):
            fix, repaired = "Remove the line.", without_variable(situation, name)
            if IDENTITY_LINK in rule:
                fix = f"Add {IDENTITY_LINK} to the list, or remove the line."
                repaired = f'cluster.env.{name}="{value},{IDENTITY_LINK}"'
            code, where = CheckCode.INTERFACES, f"cluster.env.{name}"
            yield situation.warning(code, where, rule, fix, value, proposed(repaired))


def _interface_rule(situation: Situation, name: str, value: str) -> str:
    """Return what is wrong with the interfaces in a variable; "" if they are valid."""
    profile = situation.catalog.profile(situation.plan.machines.profile)
    excluded, exact = value.startswith("^"), value.lstrip("^").startswith("=")
    names = [part for part in value.lstrip("^=").split(",") if part]
    if excluded and name.startswith("GLOO"):
        return "Gloo accepts interface names, and does not support exclusion lists (^)."
    if excluded:
        left_out = any(IDENTITY_LINK.startswith(part) for part in names)
        if profile.cloud is Cloud.AWS and situation.in_pods and not left_out:
            return (
                f"this list allows NCCL to use the interface {IDENTITY_LINK} of EKS Pod Identity, "
                "which does not reach other nodes."
            )
        return ""
    if situation.plan.machines.nodes > 1 and all(part == "lo" for part in names):
        return "the loopback interface does not reach other nodes."
    usual = profile.network_interface
    matched = usual in names if exact or name.startswith("GLOO") else usual.startswith(tuple(names))
    if usual and not matched:
        title = situation.plan.machines.profile
        return f"pods on profile {title} use the interface {usual}, which is not in this list."
    return ""


def unused_fabric(situation: Situation) -> Iterator[Checked]:
    """Report plain TCP between nodes that have a faster network."""
    machines = situation.plan.machines
    node = situation.catalog.node_type(machines.node_type)
    # A profile may offer no other network for a node type.
    if machines.fabric != "none" or node.fabric == "none" or machines.nodes == 1:
        return
    devices = f"{node.nics} {node.fabric} adapters" if node.nics else f"{node.fabric} network"
    yield situation.warning(
        CheckCode.UNUSED_FABRIC,
        "cluster.fabric",
        f"the run does not use the {devices} of each {machines.node_type} "
        f"({node.network_gbit_s:,.0f} Gbit/s in total): gradients are sent over TCP.",
        "Remove the line, unless a slow test is intended.",
        machines.fabric,
        proposed(f"cluster.fabric={node.fabric}"),
    )


def offline(situation: Situation) -> Iterator[Checked]:
    """Report offline mode in pods that have to download files."""
    weights = situation.spec.initial_weights
    wanted = [situation.plan.model.tokenizer, (weights.huggingface or "") if weights else ""]
    fetched = [address for address in wanted if address.startswith("hf://")]
    for name in OFFLINE_SWITCHES:
        value = situation.spec.cluster.env.get(name, "")
        if fetched and value.lower() in _ON:
            yield situation.warning(
                CheckCode.OFFLINE,
                f"cluster.env.{name}",
                f"{name}={value} prevents pods from downloading {fetched[0]}.",
                "Remove the line, or copy the files to the volume and set their path.",
                value,
                proposed(without_variable(situation, name)),
            )


def pinned(situation: Situation) -> Iterator[Checked]:
    """Report variables that set one value for all nodes where the right value differs."""
    for name in PINNED:
        value = situation.spec.cluster.env.get(name)
        unread = unread_on(situation.plan.machines.fabric, name)
        if value is not None and not unread:
            yield situation.warning(
                CheckCode.PINNED,
                f"cluster.env.{name}",
                f"the right index differs between nodes, but {value} applies to all of them. NCCL "
                "2.21 and newer detect the index.",
                "Remove the line.",
                value,
                proposed(without_variable(situation, name)),
            )


RULES = (
    static(CheckCode.DEBUGGING, CheckCode.SLOWING, CheckCode.DEVICES, look=harmful),
    static(CheckCode.SLOWING, look=unfused),
    static(CheckCode.UNREAD, look=unread),
    static(CheckCode.UNREAD, look=elsewhere),
    static(CheckCode.INTERFACES, look=interfaces),
    static(CheckCode.UNUSED_FABRIC, look=unused_fabric),
    static(CheckCode.OFFLINE, look=offline),
    static(CheckCode.PINNED, look=pinned),
)
