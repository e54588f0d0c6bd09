# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Read, list, create, apply, patch and delete objects in a cluster."""

from collections.abc import Iterator

from seatrial.cluster.api import Api
from seatrial.cluster.errors import error_of, is_unserved
from seatrial.cluster.kinds import ACCESS_REVIEW, ObjectKind, kind_of
from seatrial.cluster.transport import APPLY, MERGE, Answer, Call, Json

MANAGER = "seatrial"
"""The name of Seatrial's field manager."""
PAGE = 500
"""The page size of lists."""
STRICT = ("fieldValidation", "Strict")
DRY_RUN = ("dryRun", "All")


def read(api: Api, kind: ObjectKind, namespace: str, name: str) -> Json | None:
    """Return an object, or None if it does not exist."""
    call = Call("GET", kind.path(namespace, name), about=kind.about(namespace, name))
    answer = api.answer(call)
    if answer.status == 404 and not is_unserved(answer):
        return None
    return _success(call, answer).body


def list_all(
    api: Api, kind: ObjectKind, namespace: str = "", labels: str = "", fields: str = ""
) -> tuple[list[Json], str]:
    """List the selected objects page by page. Also return the version of the list."""
    path = kind.path(namespace) if namespace else f"{kind.group_path}/{kind.plural}"
    selectors = (("labelSelector", labels), ("fieldSelector", fields))
    query = (*((key, value) for key, value in selectors if value), ("limit", str(PAGE)))
    items: list[Json] = []
    more: tuple[tuple[str, str], ...] = ()
    while True:
        call = Call("GET", path, (*query, *more), about=kind.about(namespace))
        answer = api.answer(call)
        if answer.status == 410:
            # The continue token has expired: start again.
            items, more = [], ()
            continue
        body = _success(call, answer).body
        items += body.get("items") or []
        place = (body.get("metadata") or {}).get("continue")
        if not place:
            return [_named(item, kind) for item in items], body["metadata"]["resourceVersion"]
        more = (("continue", place),)


def create(api: Api, manifest: Json, *, dry_run: bool = False) -> Json:
    """Create an object. Raises ConflictError if the name is taken."""
    kind, head = kind_of(manifest), manifest["metadata"]
    namespace, name = head.get("namespace", ""), head["name"]
    query = (("fieldManager", MANAGER), STRICT, *((DRY_RUN,) if dry_run else ()))
    about = kind.about(namespace, name)
    return api.call(Call("POST", kind.path(namespace), query, manifest, about=about)).body


def preview(api: Api, manifest: Json) -> Json:
    """Return the object as it would be after an apply. A dry run."""
    return api.call(_apply_call(manifest, DRY_RUN)).body


def apply_over(api: Api, manifest: Json, there: Json) -> Json:
    """Apply a manifest to an existing object. Other managers keep their fields.

    Changes only the object that was read. Raises ConflictError if it has changed since, or was
    replaced by another object with the same name. Manual changes to Seatrial's fields are reverted:
    the spec is authoritative.
    """
    there = _as_applied(api, manifest, there)
    same = {key: there["metadata"][key] for key in ("uid", "resourceVersion")}
    return api.call(_apply_call(manifest | {"metadata": manifest["metadata"] | same})).body


def _apply_call(manifest: Json, *query: tuple[str, str]) -> Call:
    kind, head = kind_of(manifest), manifest["metadata"]
    namespace, name = head.get("namespace", ""), head["name"]
    path, about = kind.path(namespace, name), kind.about(namespace, name)
    forced = (("fieldManager", MANAGER), ("force", "true"), STRICT, *query)
    return Call("PATCH", path, forced, manifest, APPLY, about)


def _as_applied(api: Api, manifest: Json, there: Json) -> Json:
    """Convert Seatrial's field ownership from create to apply, so that fields can be removed.

    An apply removes a field that is no longer rendered only if an earlier apply has set it. Objects
    are created with POST, because an apply would change an existing object.
    """
    entries = there["metadata"].get("managedFields") or []
    own = [e for e in entries if e.get("manager") == MANAGER and not e.get("subresource")]
    if all(entry["operation"] == "Apply" for entry in own):
        return there
    fields: Json = {}
    for entry in own:
        fields = _union(fields, entry.get("fieldsV1") or {})
    ours = own[-1] | {"operation": "Apply", "fieldsV1": fields}
    head = {
        "resourceVersion": there["metadata"]["resourceVersion"],
        "managedFields": [*(e for e in entries if e not in own), ours],
    }
    kind, meta = kind_of(manifest), manifest["metadata"]
    return patch(api, kind, meta.get("namespace", ""), meta["name"], {"metadata": head})


def _union(one: Json, other: Json) -> Json:
    """Merge two sets of fields, which are trees of keys."""
    return one | {key: _union(one.get(key, {}), below) for key, below in other.items()}


def patch(api: Api, kind: ObjectKind, namespace: str, name: str, change: Json) -> Json:
    """Change parts of an object. With a resourceVersion, only if it has not changed."""
    path, about = kind.path(namespace, name), kind.about(namespace, name)
    query = (("fieldManager", MANAGER),)
    return api.call(Call("PATCH", path, query, change, MERGE, about)).body


def delete(
    api: Api,
    kind: ObjectKind,
    namespace: str,
    name: str,
    *,
    uid: str = "",
) -> bool:
    """Delete an object and its dependents. Return True if it existed.

    With a uid, a later object with the same name is left alone, so a request that is repeated after
    a lost response deletes only once.
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


def may(api: Api, verb: str, kind: ObjectKind, namespace: str, part: str = "") -> bool:
    """True if the account has a permission. Every account may query its own permissions."""
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
    call = Call("POST", ACCESS_REVIEW.path(""), (), review, about="the account's permissions")
    began = api.clock()
    while True:
        answer = api.call(call)
        if (answer.body.get("status") or {}).get("allowed"):
            return True
        # A server that has just started denies requests until it has loaded its roles.
        if not api.recovering or api.clock() - began > api.patience.recovery:
            return False
        api.sleep(1.0)


def labelled(**labels: str) -> str:
    """Return a selector for labels with these values."""
    return ",".join(f"{key}={value}" for key, value in labels.items())


def owned_by(items: list[Json], uid: str) -> Iterator[Json]:
    """Yield the objects whose owner has this uid."""
    for item in items:
        if any(o.get("uid") == uid for o in item["metadata"].get("ownerReferences") or ()):
            yield item


def _success(call: Call, answer: Answer) -> Answer:
    if answer.status >= 400:
        raise error_of(call, answer)
    return answer


def _named(item: Json, kind: ObjectKind) -> Json:
    """Add the kind, which the server omits in lists, to an object."""
    return {"apiVersion": kind.api_version, "kind": kind.name, **item}
