# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Objects of a cluster: read, listed, created, applied, patched and deleted."""

from collections.abc import Iterator

from seatrial.cluster.api import Api
from seatrial.cluster.errors import ConflictError, error_of, is_unserved
from seatrial.cluster.kinds import ACCESS_REVIEW, Kind, kind_of
from seatrial.cluster.transport import APPLY, MERGE, Answer, Call, Json

MANAGER = "seatrial"
"""The name under which fields are ours."""
CONFLICTS = 5
"""How often an apply may meet somebody who writes to the same object."""
PAGE = 500
"""Objects of a list that are asked for at a time."""
STRICT = ("fieldValidation", "Strict")
DRY_RUN = ("dryRun", "All")


def read(api: Api, kind: Kind, namespace: str, name: str) -> Json | None:
    """An object, or nothing when there is none."""
    call = Call("GET", kind.path(namespace, name), about=kind.about(namespace, name))
    answer = api.answer(call)
    if answer.status == 404 and not is_unserved(answer):
        return None
    return _success(call, answer).body


def list_all(
    api: Api, kind: Kind, namespace: str = "", labels: str = "", fields: str = ""
) -> tuple[list[Json], str]:
    """The objects that are selected, page by page, and the version of the list."""
    path = kind.path(namespace) if namespace else f"{kind.group_path}/{kind.plural}"
    selectors = (("labelSelector", labels), ("fieldSelector", fields))
    query = (*((key, value) for key, value in selectors if value), ("limit", str(PAGE)))
    items: list[Json] = []
    more: tuple[tuple[str, str], ...] = ()
    while True:
        call = Call("GET", path, (*query, *more), about=kind.about(namespace))
        answer = api.answer(call)
        if answer.status == 410:
            # The pages were too old to be continued: from the beginning.
            items, more = [], ()
            continue
        body = _success(call, answer).body
        items += body.get("items") or []
        place = (body.get("metadata") or {}).get("continue")
        if not place:
            return [_named(item, kind) for item in items], body["metadata"]["resourceVersion"]
        more = (("continue", place),)


def create(api: Api, manifest: Json, *, dry_run: bool = False) -> Json:
    """Create an object; a name that is taken is a ConflictError."""
    kind, head = kind_of(manifest), manifest["metadata"]
    namespace, name = head.get("namespace", ""), head["name"]
    query = (("fieldManager", MANAGER), STRICT, *((DRY_RUN,) if dry_run else ()))
    about = kind.about(namespace, name)
    return api.call(Call("POST", kind.path(namespace), query, manifest, about=about)).body


def apply(api: Api, manifest: Json, *, dry_run: bool = False) -> Json:
    """Make an object as the manifest says; fields that others set stay theirs.

    A field that somebody changed by hand is taken back: the spec says how a run is.
    """
    kind, head = kind_of(manifest), manifest["metadata"]
    namespace, name = head.get("namespace", ""), head["name"]
    query = (
        ("fieldManager", MANAGER),
        ("force", "true"),
        STRICT,
        *((DRY_RUN,) if dry_run else ()),
    )
    path, about = kind.path(namespace, name), kind.about(namespace, name)
    call = Call("PATCH", path, query, manifest, APPLY, about)
    for tried in range(CONFLICTS):
        try:
            return api.call(call).body
        except ConflictError:
            # By force there is no conflict over fields: somebody wrote in the same moment.
            if tried == CONFLICTS - 1:
                raise
            api.sleep(0.2 * (tried + 1))
    raise AssertionError("the loop ends by itself")


def patch(api: Api, kind: Kind, namespace: str, name: str, change: Json) -> Json:
    """Change parts of an object; with a resourceVersion in it, only if nobody else did."""
    path, about = kind.path(namespace, name), kind.about(namespace, name)
    query = (("fieldManager", MANAGER),)
    return api.call(Call("PATCH", path, query, change, MERGE, about)).body


def delete(
    api: Api,
    kind: Kind,
    namespace: str,
    name: str,
    *,
    uid: str = "",
) -> bool:
    """Delete an object, and then what it owns; whether there was one.

    With a uid, an object of the same name that came after it is left alone: so asking twice,
    because the first answer was lost, deletes once.
    """
    body: Json = {"propagationPolicy": "Background"}
    if uid:
        body["preconditions"] = {"uid": uid}
    call = Call("DELETE", kind.path(namespace, name), (), body, about=kind.about(namespace, name))
    answer = api.answer(call)
    if answer.status == 404 and not is_unserved(answer):
        return False
    if answer.status == 409 and uid:
        return False
    _success(call, answer)
    return True


def may(api: Api, verb: str, kind: Kind, namespace: str, part: str = "") -> bool:
    """Whether the account may do something; asking is everybody's right."""
    wanted = {
        "verb": verb,
        "group": kind.group,
        "resource": kind.plural,
        **({"namespace": namespace} if kind.namespaced else {}),
        **({"subresource": part} if part else {}),
    }
    review: Json = {
        "apiVersion": ACCESS_REVIEW.api_version,
        "kind": ACCESS_REVIEW.name,
        "spec": {"resourceAttributes": wanted},
    }
    call = Call("POST", ACCESS_REVIEW.path(""), (), review, about="what the account may do")
    began = api.clock()
    while True:
        answer = api.call(call)
        if (answer.body.get("status") or {}).get("allowed"):
            return True
        # A server that has just started says no before it has read its roles.
        if not api.recovering or api.clock() - began > api.patience.recovery:
            return False
        api.sleep(1.0)


def labelled(**labels: str) -> str:
    """A selector of labels that have these values."""
    return ",".join(f"{key}={value}" for key, value in labels.items())


def owned_by(items: list[Json], uid: str) -> Iterator[Json]:
    """The objects that another one owns."""
    for item in items:
        if any(o.get("uid") == uid for o in item["metadata"].get("ownerReferences") or ()):
            yield item


def _success(call: Call, answer: Answer) -> Answer:
    if answer.status >= 400:
        raise error_of(call, answer)
    return answer


def _named(item: Json, kind: Kind) -> Json:
    """An object of a list, which the server leaves without its kind."""
    return {"apiVersion": kind.api_version, "kind": kind.name, **item}
