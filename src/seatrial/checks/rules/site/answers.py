# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Rules about what the API server itself answered: rights, refusals, and what it hid."""

from collections.abc import Iterator

from seatrial.checks.site.codes import SiteCode
from seatrial.checks.site.demand import cluster_of, namespace_of
from seatrial.checks.site.facts import Subject
from seatrial.checks.site.rights import needed_rights
from seatrial.checks.situation import Checked, Situation, of_cluster
from seatrial.findings import Finding, Severity, Where

SILENT = ("failed calling webhook", "exceeded quota")
"""Refusals that another rule tells better."""


def rights(situation: Situation) -> Iterator[Checked]:
    """What launching takes and the account may not do."""
    facts, namespace = cluster_of(situation), namespace_of(situation)
    denied = set(facts.denied)
    missing = [right for right in needed_rights(situation) if right in denied]
    if not missing:
        return
    words = ", ".join(f"{right.verb} {right.resource}" for right in missing)
    yield situation.error(
        SiteCode.RIGHTS,
        "cluster.namespace",
        f"launching takes rights in namespace {namespace} that the account lacks: {words}.",
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
