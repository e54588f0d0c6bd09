# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Rules about the components installed in a cluster: operators, CRDs, gang schedulers."""

from collections.abc import Iterator

from seatrial.checks.cluster.demand import cluster_of, namespace_of
from seatrial.checks.cluster.facts import Subject
from seatrial.checks.facts import shown, version
from seatrial.checks.rule import Checked, Situation, of_cluster, proposed
from seatrial.checks.rules.cluster.components import (
    operator_component,
    site_command,
    workloads_of,
)
from seatrial.codes.cluster_checks import SiteCode
from seatrial.rendering.attempt import GangScheduler
from seatrial.rendering.gang import POD_GROUPS, choose_gang, is_open
from seatrial.rendering.train_job import NEWEST, trainer_api
from seatrial.spec.cluster import Operator

DEFINITIONS = {
    Operator.PYTORCHJOB: ("pytorchjobs.kubeflow.org", "v1"),
    Operator.TRAINJOB: ("trainjobs.trainer.kubeflow.org", "v1alpha1"),
    Operator.HYPERPOD: ("hyperpodpytorchjobs.sagemaker.amazonaws.com", "v1"),
}
"""The CRD of each operator's jobs, with the version that Seatrial renders."""
NEEDED = (1, 29)
"""The first Kubernetes version with backoffLimitPerIndex enabled by default."""
FIELD = "cluster.operator"


def served(situation: Situation, operator: Operator) -> bool:
    """True if the cluster serves an operator's jobs in the rendered version."""
    return cluster_of(situation).serves(*DEFINITIONS[operator])


def not_served(situation: Situation) -> Iterator[Checked]:
    """Report a cluster that does not serve the jobs of the run's operator."""
    operator = situation.plan.machines.operator
    if served(situation, operator):
        return
    facts, profile = cluster_of(situation), situation.plan.machines.profile
    others = [
        other
        for other in situation.catalog.profile(profile).operators
        if other in DEFINITIONS and served(situation, other)
    ]
    name, version = DEFINITIONS[operator]
    there = facts.definitions.get(name, ())
    rule = f"the cluster does not serve {name} {version}"
    plural = name.partition(".")[0]
    alike = [each for each in facts.definitions if each.partition(".")[0] == plural]
    if there:
        rule += f", only {', '.join(there)}"
    elif alike:
        versions = ", ".join(facts.definitions[alike[0]])
        rule += f", only an older {alike[0]} {versions}"
    left_open = situation.spec.cluster.operator is Operator.AUTO
    if others and left_open:
        yield situation.warning(
            SiteCode.NOT_SERVED,
            FIELD,
            f"{rule}: it would reject manifests for {operator}. `seatrial launch` uses "
            f"{others[0]} instead.",
            f"Set cluster.operator={others[0]}, so that all commands use the same operator.",
            operator,
            proposed(f"cluster.operator={others[0]}"),
        )
        return
    fix = f"Install the operator: {site_command(situation)} prints the command."
    if others:
        fix = f"Use cluster.operator={others[0]}, or install the operator."
    by = [f"cluster.operator={others[0]}"] if others else []
    yield situation.error(SiteCode.NOT_SERVED, FIELD, f"{rule}.", fix, operator, proposed(*by))


def not_running(situation: Situation) -> Iterator[Checked]:
    """Report an operator that is installed but not running."""
    facts, operator = cluster_of(situation), situation.plan.machines.operator
    down = [each for each in facts.refusals if "failed calling webhook" in each.said]
    if down:
        yield situation.error(
            SiteCode.NOT_RUNNING,
            FIELD,
            f"an admission webhook for {down[0].about} does not respond: {down[0].said}.",
            "Check that the operator's pods are running: kubectl get pods --all-namespaces.",
            operator,
        )
        return
    if not served(situation, operator) or not facts.sees(Subject.CONTROLLERS):
        return
    if Subject.CONTROLLERS in facts.only_here:
        return
    component = operator_component(situation.catalog, operator)
    found = workloads_of(component, situation)
    if not found:
        yield situation.warning(
            SiteCode.NOT_RUNNING,
            FIELD,
            f"the cluster serves {operator} jobs, but no deployment has "
            f"{' or '.join(component.workloads)} in its name: no controller would run the jobs.",
            "Reinstall the operator, unless it runs under a different name.",
            operator,
        )
    elif not any(each.ready for each in found):
        first = found[0]
        yield situation.error(
            SiteCode.NOT_RUNNING,
            FIELD,
            f"{first.namespace}/{first.name} has 0 of {first.wanted} pods ready: no controller "
            "would start the job.",
            f"Find the reason with kubectl -n {first.namespace} describe deployment {first.name}.",
            operator,
        )


def other_form(situation: Situation) -> Iterator[Checked]:
    """Report a Trainer version in the spec whose API the cluster does not serve."""
    given = situation.spec.cluster.operator_version
    served_form, wanted = _served_form(situation), trainer_api(given)
    if situation.plan.machines.operator is not Operator.TRAINJOB or not served_form:
        return
    if given is None or wanted is None or str(wanted) == served_form:
        return
    newest = served_form == str(trainer_api(NEWEST))
    yield situation.error(
        SiteCode.OTHER_FORM,
        "cluster.operator_version",
        f"the spec sets {given}, but the cluster serves the TrainJob API of {served_form}"
        f"{' or newer' if newest else ''}, which has different fields for changing pods.",
        f"Use {served_form}, or remove the line: `seatrial launch` detects the version.",
        given,
        proposed("cluster.operator_version=null"),
    )


def _served_form(situation: Situation) -> str:
    """Return the Trainer release whose API is served, from the schema or the deployment."""
    facts = cluster_of(situation)
    trainer = operator_component(situation.catalog, Operator.TRAINJOB)
    versions = [each.version for each in workloads_of(trainer, situation)]
    known = [str(form) for version in versions if version and (form := trainer_api(version))]
    return facts.trainer_form or next(iter(known), "")


def old_kubernetes(situation: Situation) -> Iterator[Checked]:
    """Report a Kubernetes version that is too old for data preparation jobs."""
    found, sources = version(cluster_of(situation).kubernetes), situation.spec.data.sources or ()
    if not found or found >= NEEDED or all(source.prepared for source in sources):
        return
    yield situation.warning(
        SiteCode.OLD_KUBERNETES,
        "cluster.profile",
        f"the cluster runs Kubernetes {shown(found)}, but the Indexed Job that prepares data needs "
        f"{shown(NEEDED)} for per-task retries.",
        "Upgrade the cluster, or prepare the data on a host or in a different cluster.",
        shown(found),
    )


def no_kind(situation: Situation) -> Iterator[Checked]:
    """Report other objects of the run whose kind the cluster does not serve."""
    prometheus = situation.spec.monitoring.prometheus
    name = "podmonitors.monitoring.coreos.com"
    wanted = prometheus.enabled and prometheus.pod_monitor is not None
    if wanted and not cluster_of(situation).serves(name, "v1"):
        yield situation.error(
            SiteCode.NO_KIND,
            "monitoring.prometheus.pod_monitor",
            f"the cluster does not serve {name} v1, but the run would create such an object.",
            f"Install the Prometheus operator ({site_command(situation)} prints the command), or "
            "remove pod_monitor.",
            name,
            proposed("monitoring.prometheus.pod_monitor=null"),
        )


def no_gang(situation: Situation) -> Iterator[Checked]:
    """Report a gang scheduler that is not installed."""
    gang = situation.spec.cluster.gang
    name = POD_GROUPS.get(gang)
    if name is not None and not cluster_of(situation).serves(name):
        yield situation.error(
            SiteCode.NO_GANG,
            "cluster.gang",
            f"the cluster does not serve {name}: pods would wait for a gang scheduler that is not "
            "installed.",
            f"Install {gang}, or use cluster.gang=none.",
            gang,
            proposed("cluster.gang=none"),
        )


def auto_gang(situation: Situation) -> Iterator[Checked]:
    """Report a cluster that offers nothing for `gang: auto`."""
    facts, namespace, plan = cluster_of(situation), namespace_of(situation), situation.plan
    queues = [q.name for q in facts.local_queues if q.namespace == namespace and not q.stopped]
    if not is_open(plan):
        return
    if choose_gang(plan, facts.serves, queues).scheduler is not GangScheduler.NONE:
        return
    several = f" The namespace has the queues {', '.join(queues)}." if len(queues) > 1 else ""
    yield situation.warning(
        SiteCode.AUTO_GANG,
        "cluster.gang",
        "the cluster offers no gang scheduler that gang: auto can select: the "
        f"{plan.machines.nodes} pods start one by one, and hold their GPUs while they wait for "
        f"the others.{several}",
        "Set cluster.queue to a Kueue queue, install coscheduling or Volcano, or accept this with "
        "cluster.gang=none.",
        situation.spec.cluster.gang,
        proposed(f"cluster.queue={queues[0]}" if queues else "cluster.gang=none"),
    )


RULES = (
    of_cluster(SiteCode.NOT_SERVED, look=not_served),
    of_cluster(SiteCode.NOT_RUNNING, look=not_running),
    of_cluster(SiteCode.OTHER_FORM, look=other_form),
    of_cluster(SiteCode.OLD_KUBERNETES, look=old_kubernetes),
    of_cluster(SiteCode.NO_KIND, look=no_kind),
    of_cluster(SiteCode.NO_GANG, look=no_gang),
    of_cluster(SiteCode.AUTO_GANG, look=auto_gang),
)
