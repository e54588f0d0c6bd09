# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""etcd, API server, controllers and scheduler: a cluster without nodes."""

import json

from tests.cluster import certificates
from tests.cluster.building import program
from tests.cluster.daemon import Daemon
from tests.cluster.layout import LOOPBACK, Layout, certificate_user, kubeconfig

SERVICE_RANGE = "10.96.0.0/16"
_FIRST_SERVICE = "10.96.0.1"
_KUBERNETES = ("kubernetes", "kubernetes.default", "kubernetes.default.svc")

USERS = {
    "admin": ("admin", "system:masters"),
    "operators": ("operators", "system:masters"),
    "dns": ("dns", "system:masters"),
    "controller-manager": ("system:kube-controller-manager", ""),
    "scheduler": ("system:kube-scheduler", ""),
    "kubelet": ("system:node:node", "system:nodes"),
    "proxy": ("system:kube-proxy", ""),
}
"""Who has access to the API server: user and group of each."""


def prepare(layout: Layout) -> None:
    """Make keys, certificates and everybody's access."""
    place = layout.home / "keys"
    authority = certificates.Authority("cluster-authority")
    certificates.write(authority.pair, place / "authority")
    certificates.write(certificates.signing_pair(), place / "accounts")
    served = (*_KUBERNETES, f"{_KUBERNETES[-1]}.cluster.local", "localhost", LOOPBACK)
    names = tuple(dict.fromkeys((*served, layout.address, _FIRST_SERVICE)))
    certificates.write(authority.issue("kube-apiserver", names=names), place / "server")
    caller = authority.issue("kube-apiserver-kubelet-client", "system:masters")
    certificates.write(caller, place / "caller")
    node = authority.issue("system:node:node", "system:nodes", ("node", layout.address))
    certificates.write(node, place / "kubelet")
    for name, (user, group) in USERS.items():
        path = layout.kubeconfig_of(name)
        path.parent.mkdir(exist_ok=True)
        path.touch(mode=0o600)
        access = certificate_user(authority.issue(user, group))
        path.write_text(kubeconfig(layout.server, authority.pair.certificate, access, "default"))
    (layout.home / "audit.json").write_text(json.dumps(_AUDIT_POLICY))


_AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    # Accounts of tests are in namespaces of tests; those of Kubernetes itself are not asked for.
    "rules": [
        {"level": "None", "userGroups": ["system:serviceaccounts:kube-system"]},
        {"level": "Metadata", "userGroups": ["system:serviceaccounts"]},
        {"level": "None"},
    ],
}


def etcd(layout: Layout) -> Daemon:
    """The store of the API server."""
    peer = f"http://{LOOPBACK}:{layout.ports.etcd_peer}"
    client = f"http://{LOOPBACK}:{layout.ports.etcd}"
    options = {
        "data-dir": "etcd",
        "listen-client-urls": client,
        "advertise-client-urls": client,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": f"default={peer}",
        # The machine does not lose power in a test; a killed etcd loses nothing by this.
        "unsafe-no-fsync": "true",
    }
    return _daemon(layout, "etcd", options)


def api_server(layout: Layout) -> Daemon:
    """The API server."""
    options = {
        "etcd-servers": f"http://{LOOPBACK}:{layout.ports.etcd}",
        "bind-address": layout.address if layout.address == LOOPBACK else "0.0.0.0",  # noqa: S104
        "advertise-address": layout.address,
        "secure-port": str(layout.ports.api),
        "cert-dir": "keys",
        "tls-cert-file": "keys/server.crt",
        "tls-private-key-file": "keys/server.key",
        "client-ca-file": "keys/authority.crt",
        "service-account-issuer": "https://kubernetes.default.svc",
        "service-account-key-file": "keys/accounts.crt",
        "service-account-signing-key-file": "keys/accounts.key",
        "service-cluster-ip-range": SERVICE_RANGE,
        "authorization-mode": "Node,RBAC",
        "kubelet-client-certificate": "keys/caller.crt",
        "kubelet-client-key": "keys/caller.key",
        "kubelet-certificate-authority": "keys/authority.crt",
        "kubelet-preferred-address-types": "InternalIP",
        "allow-privileged": "true",
        "audit-policy-file": "audit.json",
        "audit-log-path": "log/audit.jsonl",
        "profiling": "false",
    }
    if layout.address == LOOPBACK:
        # An endpoint may not be on loopback, and nobody looks for this one.
        options["endpoint-reconciler-type"] = "none"
    return _daemon(layout, "kube-apiserver", options)


def controller_manager(layout: Layout) -> Daemon:
    """The controllers: accounts, jobs, deployments, endpoints, and the end of namespaces."""
    options = {
        "kubeconfig": "access/controller-manager.json",
        "service-account-private-key-file": "keys/accounts.key",
        "root-ca-file": "keys/authority.crt",
        # Without it the controllers may not make pods.
        "use-service-account-credentials": "true",
        "leader-elect": "false",
        "secure-port": "0",
    }
    return _daemon(layout, "kube-controller-manager", options)


def scheduler(layout: Layout) -> Daemon:
    """The scheduler."""
    options = {
        "kubeconfig": "access/scheduler.json",
        "leader-elect": "false",
        "secure-port": "0",
    }
    return _daemon(layout, "kube-scheduler", options)


def _daemon(layout: Layout, name: str, options: dict[str, str]) -> Daemon:
    argv = [str(program(name)), *(f"--{key}={value}" for key, value in options.items())]
    return Daemon(name, layout.inside(argv), layout.home)
