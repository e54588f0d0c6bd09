# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Releases of a cluster's components as Helm commands, a helmfile, or Argo CD Applications."""

import json
import shlex
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import PurePosixPath

from seatrial.rendering.manifest import Manifest, without_empty
from seatrial.rendering.site import Release
from seatrial.rendering.yaml_text import yaml_documents, yaml_text

_GITHUB = "https://github.com/"
_OCI = "oci://"


class SiteFormat(StrEnum):
    """How `seatrial site` writes the components."""

    COMMANDS = "commands"
    """A shell script with helm and kubectl commands."""
    HELMFILE = "helmfile"
    """A helmfile."""
    ARGOCD = "argocd"
    """Argo CD Applications."""


FILE_NAMES = {
    SiteFormat.COMMANDS: "install.sh",
    SiteFormat.HELMFILE: "helmfile.yaml",
    SiteFormat.ARGOCD: "applications.yaml",
}


def site_text(releases: Sequence[Release], form: SiteFormat, title: str) -> str:
    """Format the components of a cluster. `title` is the first line."""
    makers = {
        SiteFormat.COMMANDS: _script,
        SiteFormat.HELMFILE: _helmfile,
        SiteFormat.ARGOCD: _applications,
    }
    return makers[form](releases, title)


def _script(releases: Sequence[Release], title: str) -> str:
    lines = ["#!/usr/bin/env bash", f"# {title}", "set -euo pipefail"]
    for release in releases:
        lines += ["", *_about(release)]
        if release.component.managed:
            lines.append(f"# Managed by the cloud. Enable it with: {release.component.managed}")
        elif not release.part_of:
            lines += [*_namespace_commands(release), *_commands(release)]
    return "\n".join(lines) + "\n"


def _about(release: Release) -> list[str]:
    """Return comments about a component."""
    version = f" {release.version}" if release.version else ""
    part = f" Installed by {release.part_of}." if release.part_of else ""
    lines = [f"# {release.component.title} ({release.name}{version}).{part}"]
    noted = release.component.note and not release.part_of
    return [*lines, f"# {release.component.note}"] if noted else lines


def _namespace_commands(release: Release) -> Iterator[str]:
    """Yield commands that create a namespace whose pods need a Pod Security level."""
    name, level = release.component.namespace, release.component.pod_security
    if level:
        yield f"kubectl create namespace {name} --dry-run=client --output=yaml | kubectl apply -f -"
        yield (
            f"kubectl label --overwrite namespace {name} pod-security.kubernetes.io/enforce={level}"
        )


def _commands(release: Release) -> Iterator[str]:
    """Yield the commands that install a component."""
    facts = release.component
    if facts.manifests:
        for path in facts.manifests:
            yield shlex.join(["kubectl", "apply", "--server-side", *_applied(release, path)])
        return
    chart = [facts.chart, "--repo", facts.repository]
    if facts.repository.startswith(_OCI):
        chart = [f"{facts.repository}/{facts.chart}"]
    if facts.path:
        clone = PurePosixPath(facts.repository).stem
        argv = ["git", "clone", "--depth", "1", "--branch", release.tag, facts.repository, clone]
        yield shlex.join(argv)
        yield shlex.join(["helm", "dependency", "update", f"{clone}/{facts.path}"])
        chart = [f"{clone}/{facts.path}"]
    argv = ["helm", "upgrade", "--install", release.name, *chart]
    argv += [] if facts.path else ["--version", release.version]
    argv += ["--namespace", facts.namespace, "--create-namespace", "--wait"]
    for key, value in (release.values or {}).items():
        argv += ["--set-json", f"{key}={json.dumps(value, separators=(',', ':'))}"]
    yield shlex.join(argv)


def _applied(release: Release, path: str) -> list[str]:
    """Return kubectl's arguments for a file or a kustomization in a git repository."""
    facts = release.component
    if not path.endswith(".yaml"):
        return ["-k", f"{facts.repository}/{path}?ref={release.tag}"]
    project = facts.repository.removeprefix(_GITHUB).removesuffix(".git")
    return ["-f", f"https://raw.githubusercontent.com/{project}/{release.tag}/{path}"]


def _other_steps(releases: Sequence[Release], *, manifests: bool) -> list[str]:
    """Return comments about what a format cannot express, with the commands to run first."""
    lines = []
    for release in releases:
        facts = release.component
        if facts.managed:
            lines += [*_about(release), f"# Managed by the cloud. Enable it with: {facts.managed}"]
        elif release.part_of:
            lines += _about(release)
        elif manifests and (facts.manifests or facts.pod_security):
            steps = [*_namespace_commands(release)]
            steps += _commands(release) if facts.manifests else []
            lines += [*_about(release), "# Run:", *(f"#   {step}" for step in steps)]
    return lines


def _helmfile(releases: Sequence[Release], title: str) -> str:
    own = [each for each in releases if not each.part_of]
    charts = [each for each in own if each.component.chart or each.component.path]
    addresses = dict.fromkeys(e.component.repository for e in charts if e.component.chart)
    entries = [
        without_empty(
            {
                "name": each.name,
                "namespace": each.component.namespace,
                "chart": _helmfile_chart(each),
                "version": each.version if each.component.chart else "",
                "values": [dict(each.values)] if each.values else [],
                "wait": True,
            }
        )
        for each in charts
    ]
    body: Manifest = {"repositories": list(map(_repository, addresses)), "releases": entries}
    comments = [f"# {title}", *_other_steps(releases, manifests=True)]
    return "\n".join(comments) + "\n" + yaml_text(without_empty(body))


def _repository(address: str) -> Manifest:
    """Return a helmfile repository."""
    oci = {"oci": True} if address.startswith(_OCI) else {}
    return {"name": _repository_name(address), "url": address.removeprefix(_OCI), **oci}


def _repository_name(address: str) -> str:
    return address.partition("://")[2].replace("/", "-").replace(".", "-")


def _helmfile_chart(release: Release) -> str:
    facts = release.component
    if facts.path:
        return f"git::{facts.repository}@{facts.path}?ref={release.tag}"
    return f"{_repository_name(facts.repository)}/{facts.chart}"


def _applications(releases: Sequence[Release], title: str) -> str:
    own = [each for each in releases if not each.part_of and not each.component.managed]
    comments = [f"# {title}", *_other_steps(releases, manifests=False)]
    if any(each.component.repository.startswith(_OCI) for each in own):
        comments.append(
            "# First register the OCI registries in Argo CD (argocd repo add --enable-oci)."
        )
    documents = yaml_documents(_application(each, wave) for wave, each in enumerate(own))
    return "\n".join(comments) + "\n" + documents


def _application(release: Release, wave: int) -> Manifest:
    """Return an Argo CD Application. Waves keep the order of the components."""
    facts = release.component
    level = facts.pod_security
    labels = {"pod-security.kubernetes.io/enforce": level} if level else {}
    policy = {
        "syncOptions": ["CreateNamespace=true", "ServerSideApply=true"],
        "managedNamespaceMetadata": without_empty({"labels": labels}),
    }
    target = {"server": "https://kubernetes.default.svc", "namespace": facts.namespace}
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {
            "name": release.name,
            "namespace": "argocd",
            "annotations": {"argocd.argoproj.io/sync-wave": str(wave)},
        },
        "spec": {
            "project": "default",
            "sources": list(_sources(release)),
            "destination": target,
            "syncPolicy": without_empty(policy),
        },
    }


def _sources(release: Release) -> Iterator[Manifest]:
    """Yield the sources of an Application: a chart, or each path in a git repository."""
    facts = release.component
    values = dict(release.values or {})
    helm = without_empty({"releaseName": release.name, "valuesObject": values})
    if facts.chart:
        # Argo CD takes OCI registries without the scheme.
        address = facts.repository.removeprefix(_OCI)
        yield {
            "repoURL": address,
            "chart": facts.chart,
            "targetRevision": release.version,
            "helm": helm,
        }
        return
    if facts.path:
        source = {"repoURL": facts.repository, "path": facts.path, "targetRevision": release.tag}
        yield {**source, "helm": helm}
        return
    for path in facts.manifests:
        file = PurePosixPath(path)
        is_file = path.endswith(".yaml")
        yield without_empty(
            {
                "repoURL": facts.repository,
                "path": str(file.parent) if is_file else path,
                "targetRevision": release.tag,
                "directory": {"include": file.name} if is_file else {},
            }
        )
