# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Rules about the components of a cluster and their versions: the list of `seatrial site`.

Operators, queues, device plugins and CSI drivers that are missing have rules of their own, because
their absence shows in what the cluster serves and advertises.
"""

from collections.abc import Iterator
from dataclasses import replace

from seatrial.catalog.catalog import Catalog, Kind
from seatrial.catalog.components import ClusterComponent, ComponentRole, version
from seatrial.checks.cluster.demand import cluster_of, namespace_of
from seatrial.checks.cluster.facts import ClusterFacts, Controller, Subject
from seatrial.checks.rule import Checked, Situation, of_cluster
from seatrial.codes.cluster_checks import SiteCode
from seatrial.rendering.attempt import GangScheduler
from seatrial.rendering.gang import choose_gang
from seatrial.rendering.site import (
    conflict_rule,
    conflicts_among,
    needed_components,
    needs_of,
)
from seatrial.rendering.train_job import NEWEST, trainer_api
from seatrial.spec.cluster import Operator

FIELD = "cluster.operator"
TRAINER = "kubeflow-trainer"


def site_command(situation: Situation) -> str:
    """Return the command that lists what to install for this run."""
    return f"seatrial site {situation.loaded.where('name').file}"


def operator_component(catalog: Catalog, operator: Operator) -> ClusterComponent:
    """Return the component that runs an operator's jobs."""
    components = map(catalog.component, catalog.names(Kind.COMPONENTS))
    return next(
        c for c in components if c.role is ComponentRole.OPERATOR and operator in c.operators
    )


def workloads_of(component: ClusterComponent, situation: Situation) -> list[Controller]:
    """Return the deployments and daemon sets that belong to a component.

    The name of HyperPod's operator contains the name of Kubeflow's.
    """
    hyperpod = operator_component(situation.catalog, Operator.HYPERPOD).workloads
    others = () if component.workloads == hyperpod else hyperpod
    facts = cluster_of(situation)
    return [
        each
        for each in (*facts.controllers, *facts.daemons)
        if any(part in each.name for part in component.workloads)
        and not any(part in each.name for part in others)
    ]


def _needed(situation: Situation) -> dict[str, ClusterComponent]:
    """Return the components that the run needs. Kueue only if it would admit the run."""
    facts, namespace, plan = cluster_of(situation), namespace_of(situation), situation.plan
    needs = needs_of(situation.spec, plan.machines, situation.catalog)
    queues = [q.name for q in facts.local_queues if q.namespace == namespace and not q.stopped]
    gang = choose_gang(plan, facts.serves, queues).scheduler
    needs = replace(needs, queue=gang is GangScheduler.KUEUE)
    return needed_components(needs, situation.catalog)


def _is_installed(component: ClusterComponent, situation: Situation) -> bool | None:
    """Return None if the cluster does not show whether a component is installed."""
    facts = cluster_of(situation)
    if component.definition:
        return facts.serves(component.definition)
    if workloads_of(component, situation):
        return True
    return False if component.workloads and _sees_workloads(facts) else None


def _sees_workloads(facts: ClusterFacts) -> bool:
    lists = (Subject.CONTROLLERS, Subject.DAEMONS)
    return all(facts.sees(each) and each not in facts.only_here for each in lists)


def missing(situation: Situation) -> Iterator[Checked]:
    """Report missing components that no other rule reports."""
    monitored = situation.spec.monitoring.prometheus.pod_monitor is not None
    for name, component in _needed(situation).items():
        if _is_installed(component, situation) is not False:
            continue
        rule = f"{component.title} is not installed"
        fix = f"Install it: {site_command(situation)} prints the command."
        if component.role is ComponentRole.JOBS:
            rule += f": {situation.plan.machines.operator} jobs would never get pods."
            yield situation.error(SiteCode.NO_COMPONENT, FIELD, rule, fix, name)
        elif component.role is ComponentRole.CERTIFICATES:
            rule += ": the operator's webhooks would have no certificates."
            yield situation.warning(SiteCode.NO_COMPONENT, FIELD, rule, fix, name)
        elif component.role is ComponentRole.GPU_METRICS or (
            component.role is ComponentRole.METRICS and not monitored
        ):
            rule += ": the dashboards and alerts lack its metrics."
            fix = f"{fix[:-1]}. Ignore this if something else collects the metrics."
            yield situation.note(SiteCode.NO_COMPONENT, "monitoring.prometheus", rule, fix, name)


def installed_versions(situation: Situation) -> dict[str, str]:
    """Return the versions of the components that the run needs, where the cluster shows them."""
    found = {}
    for name, component in _needed(situation).items():
        versions = [each.version for each in workloads_of(component, situation) if each.version]
        if versions:
            found[name] = versions[0]
        elif name == TRAINER:
            # The newest API is the same in several releases, so it does not tell the version.
            form = cluster_of(situation).trainer_form
            found |= {name: form} if form and form != str(trainer_api(NEWEST)) else {}
    return found


def old_operator(situation: Situation) -> Iterator[Checked]:
    """Report an operator that is older than the tested versions."""
    component = operator_component(situation.catalog, situation.plan.machines.operator)
    oldest = component.works.since
    for controller in workloads_of(component, situation):
        found = version(controller.version)
        if not oldest or not found or found >= version(oldest):
            continue
        yield situation.warning(
            SiteCode.OLD_OPERATOR,
            FIELD,
            f"{controller.namespace}/{controller.name} has version {controller.version}; the "
            f"manifests are tested with {oldest} and newer. The operator may reject fields "
            "that it does not support.",
            f"Upgrade the operator to {oldest} or newer.",
            controller.version,
        )


def other_versions(situation: Situation) -> Iterator[Checked]:
    """Report versions that are not known to work. Old operators have a rule of their own."""
    for name, found in installed_versions(situation).items():
        component = situation.catalog.component(name)
        is_old = bool(component.works.since) and version(found) < version(component.works.since)
        if component.works.contains(found) or (is_old and component.role is ComponentRole.OPERATOR):
            continue
        yield situation.warning(
            SiteCode.OTHER_VERSION,
            FIELD,
            f"{component.title} has version {found}; known to work: {component.works}.",
            f"Install a version that {site_command(situation)} lists, or test a small run first.",
            found,
        )


def conflicting(situation: Situation) -> Iterator[Checked]:
    """Report components that are known not to work together."""
    versions = installed_versions(situation)
    for name, other, conflict in conflicts_among(versions, situation.catalog):
        rule = conflict_rule(versions, name, other, conflict)
        if conflict.by_default:
            fix = f"Check the settings of {name}, or install a version that "
            fix += f"{site_command(situation)} lists."
            yield situation.warning(SiteCode.CONFLICT, FIELD, rule, fix, versions[name])
        else:
            fix = f"Install versions that work together: {site_command(situation)} lists them."
            yield situation.error(SiteCode.CONFLICT, FIELD, rule, fix, versions[name])


RULES = (
    of_cluster(SiteCode.NO_COMPONENT, look=missing),
    of_cluster(SiteCode.OLD_OPERATOR, look=old_operator),
    of_cluster(SiteCode.OTHER_VERSION, look=other_versions),
    of_cluster(SiteCode.CONFLICT, look=conflicting),
)
