# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Rules about the run's volume in the cluster: PVC, access mode, size, driver, class."""

from collections.abc import Iterator

from seatrial.checks.cluster.demand import cluster_of, demand_of, namespace_of, nearest
from seatrial.checks.cluster.facts import ClaimFacts, Subject
from seatrial.checks.rule import Checked, Situation, of_cluster, proposed
from seatrial.checks.rules.cluster.components import site_command
from seatrial.codes.cluster_checks import SiteCode
from seatrial.planning.saving.run_saves import saves_of
from seatrial.rendering.resources import capacity_bytes
from seatrial.units import format_bytes

FIELD = "cluster.storage.claim"
SHARED = "ReadWriteMany"
FOR_ONE = ("ReadWriteOnce", "ReadWriteOncePod")


def _claims(situation: Situation) -> list[ClaimFacts]:
    """Return the PVCs in the run's namespace."""
    namespace = namespace_of(situation)
    return [claim for claim in cluster_of(situation).claims if claim.namespace == namespace]


def _claim(situation: Situation) -> ClaimFacts | None:
    """Return the PVC that the spec names, if it exists and is not being deleted."""
    name = situation.spec.cluster.storage.claim
    return next((c for c in _claims(situation) if c.name == name and not c.ending), None)


def _good(situation: Situation) -> list[str]:
    """Return the names of PVCs that the run could use."""
    needed = _needed(situation)
    return [
        claim.name
        for claim in _claims(situation)
        if claim.phase == "Bound"
        and not claim.ending
        and _mountable(situation, claim)
        and _room(claim) >= needed
    ]


def _instead(situation: Situation) -> tuple[str, list[str]]:
    """Return the PVC that was probably meant, as the start of a fix and as overrides."""
    name = situation.spec.cluster.storage.claim or ""
    other = nearest(name, [each for each in _good(situation) if each != name])
    return (f"Use {other}, or " if other else ""), [f"{FIELD}={other}"] if other else []


def _mountable(situation: Situation, claim: ClaimFacts) -> bool:
    """True if all nodes of the run can write to a PVC."""
    if situation.plan.machines.nodes > 1:
        return SHARED in claim.access_modes
    return any(mode in (SHARED, *FOR_ONE) for mode in claim.access_modes)


def _room(claim: ClaimFacts) -> int:
    return claim.capacity if claim.free is None else claim.free


def _needed(situation: Situation) -> int:
    """Return the maximum size of the checkpoints on the volume in bytes; 0 if unknown."""
    chosen, location = situation.run.chosen, situation.plan.checkpoint_location
    mount = situation.spec.cluster.storage.mount.rstrip("/")
    if chosen is None or not f"{location}/".startswith(f"{mount}/"):
        return 0
    return saves_of(situation.plan, chosen, situation.catalog).budget.capacity


def no_claim(situation: Situation) -> Iterator[Checked]:
    """Report a PVC that does not exist in the run's namespace."""
    facts, name = cluster_of(situation), situation.spec.cluster.storage.claim
    namespace = namespace_of(situation)
    if name is None or not facts.sees(Subject.CLAIMS, namespace) or _claim(situation):
        return
    elsewhere = sorted(c.namespace for c in facts.claims if c.name == name and not c.ending)
    rule = f"namespace {namespace} has no PVC {name}"
    if any(c.name == name for c in _claims(situation)):
        rule = f"the PVC {name} is being deleted"
    elif elsewhere:
        rule += f"; the PVC in namespace {elsewhere[0]} cannot be mounted from another namespace"
    else:
        there = ", ".join(sorted(c.name for c in _claims(situation)))
        rule += f"; its PVCs: {there or 'none'}"
    use, by = _instead(situation)
    fix = f"{use}{'create' if use else 'Create'} the PVC, or set a tier for a new volume."
    yield situation.error(SiteCode.NO_CLAIM, FIELD, f"{rule}.", fix, name, proposed(*by))


def access_mode(situation: Situation) -> Iterator[Checked]:
    """Report a PVC that not all nodes of the run can write to."""
    claim, nodes = _claim(situation), situation.plan.machines.nodes
    if claim is None or _mountable(situation, claim):
        return
    use, by = _instead(situation)
    modes = ", ".join(claim.access_modes) or "no access mode"
    whom = f"{nodes:,} nodes write" if nodes > 1 else "the run writes"
    yield situation.error(
        SiteCode.ACCESS_MODE,
        FIELD,
        f"the PVC {claim.name} has {modes}, but {whom} to it, which requires {SHARED}.",
        f"{use}{'create' if use else 'Create'} a PVC with {SHARED}.",
        modes,
        proposed(*by),
    )


def not_bound(situation: Situation) -> Iterator[Checked]:
    """Report a PVC that is not bound."""
    claim = _claim(situation)
    if claim is None or claim.phase == "Bound":
        return
    use, by = _instead(situation)
    yield situation.error(
        SiteCode.NOT_BOUND,
        FIELD,
        f"the PVC {claim.name} is {claim.phase} and has no volume: pods would stay Pending.",
        f"{use}{'f' if use else 'F'}ind the reason with kubectl -n {claim.namespace} describe pvc "
        f"{claim.name}.",
        claim.phase,
        proposed(*by),
    )


def small_claim(situation: Situation) -> Iterator[Checked]:
    """Report a volume that is too small for the checkpoints."""
    claim, needed = _claim(situation), _needed(situation)
    chosen = situation.run.chosen
    if claim is None or chosen is None or _room(claim) >= needed:
        return
    budget = saves_of(situation.plan, chosen, situation.catalog).budget
    if budget.kept is None:
        return
    use, by = _instead(situation)
    fix = f"{use}{'k' if use else 'K'}eep fewer checkpoints with checkpoints.keep_last"
    if not by and budget.kept.permanent:
        by = ["checkpoints.keep_every_steps=null"]
    elif not by:
        fitting = _room(claim) // budget.size - 1
        by = [f"checkpoints.keep_last={fitting}"] if fitting > 0 else []
    fix += " and keep_every_steps." if budget.kept.permanent else "."
    state = "free" if claim.free is not None else "in total"
    yield situation.error(
        SiteCode.SMALL_CLAIM,
        FIELD,
        f"the run keeps up to {budget.kept.total:,} checkpoints of {format_bytes(budget.size)}, "
        f"{format_bytes(needed)} together; {claim.name} has {format_bytes(_room(claim))} {state}.",
        fix,
        format_bytes(_room(claim)),
        proposed(*by),
    )


def no_driver(situation: Situation) -> Iterator[Checked]:
    """Report a new volume whose CSI driver the cluster lacks."""
    facts, tier = cluster_of(situation), demand_of(situation).scene.tier
    if tier is None or not tier.csi_driver or not facts.sees(Subject.DRIVERS):
        return
    if tier.csi_driver in facts.drivers:
        return
    profile = situation.catalog.profile(situation.plan.machines.profile)
    others = [
        name
        for name in profile.storage
        if situation.catalog.storage(name).csi_driver in facts.drivers
    ]
    there = ", ".join(facts.drivers) or "none"
    install = f"Install the driver ({site_command(situation)} prints the command)"
    fix = f"{install}, or use an existing PVC."
    by = list[str]()
    if others:
        fix = f"{install}, use {others[0]}, or use an existing PVC."
        by = [f"cluster.storage.tier={others[0]}"]
    yield situation.error(
        SiteCode.NO_DRIVER,
        "cluster.storage.tier",
        f"{situation.plan.machines.storage} volumes need the CSI driver {tier.csi_driver}, which "
        f"is not installed; installed drivers: {there}.",
        fix,
        situation.plan.machines.storage,
        proposed(*by),
    )


def no_class(situation: Situation) -> Iterator[Checked]:
    """Report a new volume whose storage class does not exist or uses a different driver."""
    facts, tier = cluster_of(situation), demand_of(situation).scene.tier
    if tier is None or not tier.storage_class or not facts.sees(Subject.CLASSES):
        return
    if situation.spec.cluster.storage.volume is not None:
        return
    found = next((each for each in facts.classes if each.name == tier.storage_class), None)
    if found is None:
        yield situation.warning(
            SiteCode.NO_CLASS,
            "cluster.storage.tier",
            f"the storage class {tier.storage_class} does not exist: the PVC stays Pending until "
            "an administrator creates the class.",
            "Ask an administrator to apply the output of seatrial render --part admin.",
            tier.storage_class,
        )
    elif found.provisioner != tier.csi_driver:
        yield situation.error(
            SiteCode.NO_CLASS,
            "cluster.storage.tier",
            f"the storage class {found.name} uses {found.provisioner}, but the tier needs "
            f"{tier.csi_driver}: a different class has the same name.",
            "Ask an administrator to rename the class, or use an existing PVC.",
            found.provisioner,
        )


def other_claim(situation: Situation) -> Iterator[Checked]:
    """Report a PVC with the run's name that `launch` cannot change as needed."""
    tier, name = demand_of(situation).scene.tier, situation.spec.name
    found = next((claim for claim in _claims(situation) if claim.name == name), None)
    if tier is None or found is None:
        return
    wanted = capacity_bytes(situation.plan, tier)
    existing = situation.spec.cluster.storage.volume is not None
    storage_class = "" if existing else tier.storage_class
    words = []
    if found.storage_class != storage_class:
        words.append(f"with class {found.storage_class or 'none'} instead of {storage_class}")
    if found.capacity > wanted:
        words.append(f"with {format_bytes(found.capacity)}, which cannot shrink")
    if SHARED not in found.access_modes:
        words.append(f"with {', '.join(found.access_modes)}")
    if words:
        yield situation.error(
            SiteCode.OTHER_CLAIM,
            "cluster.storage",
            f"namespace {found.namespace} already has a PVC {name}, {' and '.join(words)}. These "
            "properties of an existing PVC cannot be changed.",
            f"Use the PVC with cluster.storage.claim={name}, or give the run a different name.",
            name,
        )


RULES = (
    of_cluster(SiteCode.NO_CLAIM, look=no_claim),
    of_cluster(SiteCode.ACCESS_MODE, look=access_mode),
    of_cluster(SiteCode.NOT_BOUND, look=not_bound),
    of_cluster(SiteCode.SMALL_CLAIM, look=small_claim),
    of_cluster(SiteCode.NO_DRIVER, look=no_driver),
    of_cluster(SiteCode.NO_CLASS, look=no_class),
    of_cluster(SiteCode.OTHER_CLAIM, look=other_claim),
)
