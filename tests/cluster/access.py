# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Namespaces, and accounts that may do only what a rendered role lets them."""

import json
from base64 import b64decode
from dataclasses import dataclass
from pathlib import Path

from seatrial.catalog.catalog import Catalog
from seatrial.rendering.manifest import Manifest, manifest
from seatrial.rendering.render import Part, render
from tests.cluster.daemon import wait_until
from tests.cluster.http_api import Api
from tests.cluster.layout import Layout, kubeconfig
from tests.conftest import resolved

LAUNCHER = "launcher"
"""The account that launches."""
_RBAC = "rbac.authorization.k8s.io"
_HOURS_12 = 12 * 3600


@dataclass(frozen=True, slots=True, order=True)
class Denial:
    """A request that the server refused for lack of rights."""

    verb: str
    """What was wanted."""
    resource: str
    """Of which resource, with its group where it has one."""
    namespace: str
    """In which namespace; empty for the whole cluster."""


def make_namespace(api: Api, name: str, *, wait: bool) -> None:
    """Create a namespace; wait for the account that its pods need."""
    _made(api, manifest("v1", "Namespace", {"name": name}))
    if wait:
        account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        wait_until(lambda: api.ask("GET", account).accepted, f"an account in {name}")


def restricted(
    api: Api, layout: Layout, path: Path, namespace: str, operator: str, *, observer: bool
) -> None:
    """Write the access of an account that is bound to the rendered roles only."""
    plan = resolved(f"cluster.namespace={namespace}", f"cluster.operator={operator}")
    made = render(plan, Catalog(), Part.ADMIN).manifests
    roles = {each["kind"]: each for each in made}
    inside = {"name": LAUNCHER, "namespace": namespace}
    _made(api, manifest("v1", "ServiceAccount", inside))
    _made(api, roles["Role"])
    _made(api, _binding("RoleBinding", inside, roles["Role"]))
    if observer:
        _made(api, roles["ClusterRole"])
        outside = {"name": f"{LAUNCHER}-{namespace}"}
        binding = _binding("ClusterRoleBinding", outside, roles["ClusterRole"])
        binding["subjects"][0]["namespace"] = namespace
        _made(api, binding)
    answer = api.ask(
        "POST",
        f"/api/v1/namespaces/{namespace}/serviceaccounts/{LAUNCHER}/token",
        manifest(
            "authentication.k8s.io/v1", "TokenRequest", {}, spec={"expirationSeconds": _HOURS_12}
        ),
    )
    token = answer.body["status"]["token"]
    own = json.loads(layout.kubeconfig.read_text())["clusters"][0]["cluster"]
    authority = b64decode(own["certificate-authority-data"])
    path.touch(mode=0o600)
    path.write_text(kubeconfig(layout.server, authority, {"token": token}, namespace))


def denials(log: Path, namespace: str) -> list[Denial]:
    """What accounts of a namespace were refused, each once."""
    found = set()
    account = f"system:serviceaccount:{namespace}:"
    for line in log.read_text().splitlines():
        event = json.loads(line)
        if event["user"]["username"].startswith(account) and _forbidden(event):
            about = event.get("objectRef", {})
            resource = about.get("resource", event["requestURI"])
            group = f".{about['apiGroup']}" if about.get("apiGroup") else ""
            below = f"/{about['subresource']}" if about.get("subresource") else ""
            where = about.get("namespace", "")
            found.add(Denial(event["verb"], f"{resource}{below}{group}", where))
    return sorted(found)


def _forbidden(event: Manifest) -> bool:
    decision = event.get("annotations", {}).get("authorization.k8s.io/decision")
    return bool(decision == "forbid")


def _binding(kind: str, head: Manifest, role: Manifest) -> Manifest:
    return manifest(
        f"{_RBAC}/v1",
        kind,
        head,
        roleRef={"apiGroup": _RBAC, "kind": role["kind"], "name": role["metadata"]["name"]},
        subjects=[
            {"kind": "ServiceAccount", "name": LAUNCHER, "namespace": head.get("namespace", "")}
        ],
    )


def _made(api: Api, wanted: Manifest) -> None:
    answer = api.apply(wanted)
    if not answer.accepted:
        raise RuntimeError(f"{wanted['kind']} {wanted['metadata']['name']}: {answer.message}")
