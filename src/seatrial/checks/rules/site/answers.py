# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Rules about what the API server itself answered: rights, refusals, and what it hid."""

from collections.abc import Iterator

from seatrial.checks.site.codes import SiteCode
from seatrial.checks.site.demand import cluster_of, namespace_of
from seatrial.checks.site.facts import Subject
from seatrial.checks.site.rights import following_rights, manifests_of, rights_for
from seatrial.checks.situation import Checked, Situation, of_cluster
from seatrial.findings import Finding, Severity, Where

SILENT = ("failed calling webhook", "exceeded quota")
"""Refusals that another rule tells better."""


def rights(situation: Situation) -> Iterator[Checked]:
    """What launching takes, or following afterwards, and the account may not do."""
    facts, namespace = cluster_of(situation), namespace_of(situation)
    manifests = manifests_of(situation)
    for asked, what, make in (
        (rights_for(manifests, namespace), "launching", situation.error),
        (following_rights(manifests, namespace), "following the run", situation.warning),
    ):
        missing = [right for right in asked if right in facts.denied]
        words = ", ".join(f"{right.verb} {right.resource}" for right in missing)
        if missing:
            yield make(
                SiteCode.RIGHTS,
                "cluster.namespace",
                f"{what} takes rights in namespace {namespace} that the account lacks: {words}.",
                "Let an administrator bind the role seatrial-launcher there: charts/seatrial, or "
                "seatrial render --part admin.",
                words,
            )


def refused(situation: Situation) -> Iterator[Checked]:
    """Objects that the API server refused, asked without keeping them."""
    for refusal in cluster_of(situation).refusals:
        if any(words in refusal.said for words in SILENT):
            continue
        yield Checked(
            Finding(
                SiteCode.OBJECT_REFUSED,
                Severity.ERROR,
                Where(field=refusal.about),
                f"the API server would refuse it: {refusal.said}.",
                "",
                "Compare with seatrial render --diff; see cluster.operator_version and the "
                "policies of the cluster.",
            )
        )


def unseen(situation: Situation) -> Iterator[Checked]:
    """Parts of the cluster that this account may not look at."""
    facts = cluster_of(situation)
    hidden = [str(subject) for subject in Subject if subject in facts.unseen]
    if hidden:
        yield situation.note(
            SiteCode.UNSEEN,
            "cluster",
            f"this account may not list {', '.join(hidden)}, so that nothing is said of them.",
            "Nothing needs doing; the role seatrial-observer lets it look at most of them.",
            ", ".join(hidden),
        )


RULES = (
    of_cluster(SiteCode.RIGHTS, look=rights),
    of_cluster(SiteCode.OBJECT_REFUSED, look=refused),
    of_cluster(SiteCode.UNSEEN, look=unseen),
)
