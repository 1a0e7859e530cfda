"""Whether the caller may do what a request asks for: the permission of its operation, at the scopes that it names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import UnsetType

from admin import gate
from admin.core import names
from admin.core.permissions import PERMISSIONS, Place
from admin.core.settings.builtin_kinds import BUILTIN_KINDS
from admin.core.settings.scopes import PLATFORM, SCOPE_KEYS, Scope
from admin.errors import ProjectNotFound, UnknownProject
from admin.messages.attributes import PutBody
from admin.messages.creations import CreationBody, RepeatBody, RequestBody
from admin.messages.requests import Fields
from admin.services.access import Access

#: An execution belongs to a project and domain; what it launches may be registered elsewhere.
_OF_EXECUTIONS = ("project", "domain")
#: Lists that tell of clusters, pools and labels too.
_OF_FLEET = ("/api/v1/uses", "/api/v1/warnings")
#: Parts of a body that name the scope of what it is about.
_PARTS = ("id", "selector", "grant", "claim", "renewal", "release")
#: What requests call the kinds of quotas, or their payloads.
_QUOTAS = frozenset(
    word.lower()
    for kind in BUILTIN_KINDS
    if kind.is_quota
    for word in (str(kind.number), kind.name, kind.noun, kind.payload_key, names.camel(kind.payload_key))
)


@dataclass(frozen=True, kw_only=True)
class Guarded(gate.Operation):
    """An operation, with what its caller needs."""

    permission: str  #: a permission, or one of the other requirements
    also: str | None = None  #: another permission that will do for some rows, each of which is checked when drafted
    shows_some: bool = False  #: whether it answers with what the caller may see of what is asked for
    own: str | None = None  #: the parameter that names a user, who needs no permission for what is about them


def check_request(
    operation: Guarded, access: Access, path: Mapping[str, str], query: Fields | None, body: object
) -> None:
    """Refuse a request whose caller lacks the permission of its operation at a scope that it names.

    What the caller may not know of is answered as what does not exist.
    """
    permission = PERMISSIONS.get(operation.permission)
    if permission is None or access.allows(permission.name) or _is_own(operation, access, path, query):
        return
    if permission.place is not Place.SCOPE:
        access.check(permission.name)
        return
    check = access.check_some if operation.shows_some or _names_many(body) else access.check
    for scope in request_scopes(operation, path, query, body):
        if operation.also is not None and access.allows(operation.also, scope):
            continue
        try:
            check(needed_permission(operation, query, body), scope)
        except UnknownProject as unknown:
            if "id" in path:  # which only paths of projects have
                hidden = ProjectNotFound.called(scope.project, access.projects or ())
                raise hidden.of_caller(unknown.caller) from unknown
            raise


def needed_permission(operation: Guarded, query: Fields | None, body: object) -> str:
    """The permission that a caller lacks who has none of those of an operation: for quotas it is another one."""
    return operation.permission if operation.also is None or not names_quota(query, body) else operation.also


def names_quota(query: Fields | None, body: object) -> bool:
    """Whether a request to write attributes is about a kind of quotas."""
    words = [(query or {}).get("resource_type"), body.get("resource_type") if isinstance(body, dict) else None]
    payloads = body.attributes.matching_attributes if isinstance(body, PutBody) else None
    words += [*payloads] if isinstance(payloads, dict) else []
    return any(isinstance(word, str) and word.lower() in _QUOTAS for word in words)


def sees_all(operation: Guarded, access: Access, path: Mapping[str, str], query: Fields | None) -> bool:
    """Whether the caller may see all that a list is about, and not only some of it."""
    if not access.is_restricted or operation.permission not in PERMISSIONS or _is_own(operation, access, path, query):
        return True  # a service that asks for no permission says by itself what is left out
    scopes = request_scopes(operation, path, query, None)
    is_of_fleet = operation.path in _OF_FLEET
    return all(access.allows(operation.permission, scope) for scope in scopes) and (
        access.sees_fleet() or not is_of_fleet
    )


def _names_many(body: object) -> bool:
    """Whether a body has creations that are checked one by one where they are made, or lacks what it must have."""
    return isinstance(body, CreationBody) and isinstance(body.project, UnsetType)


def _is_own(operation: Guarded, access: Access, path: Mapping[str, str], query: Fields | None) -> bool:
    """Whether a request is about the caller, who needs no permission for that."""
    if access.identity.cluster is not None and operation.path.startswith("/api/v1/clusters/"):
        return True  # the gate lets an agent call about its own cluster alone
    if operation.own is None or not access.allows_own(operation.permission):
        return False
    return access.identity.user in (path.get(operation.own), (query or {}).get(operation.own))


def request_scopes(operation: Guarded, path: Mapping[str, str], query: Fields | None, body: object) -> Iterator[Scope]:
    """The scopes that a request names in its path, query or body; the platform where it names none."""
    asked = query or {}
    keys = {key: path.get(key) or asked.get(key) for key in SCOPE_KEYS}
    if "id" in path:
        keys["project"] = path["id"]
    if operation.path.startswith("/api/v1/workflows/") and "name" in path:
        keys["workflow"] = path["name"]
    others = {key: asked.get(f"other_{key}", keys[key]) for key in SCOPE_KEYS}
    if any(keys.values()):
        yield _scope(operation, keys)
        if others != keys:
            yield _scope(operation, others)
        return
    documents = list(_documents(operation, body))
    yield from (_scope(operation, document) for document in documents)
    if not documents:
        yield PLATFORM


def _documents(operation: Guarded, body: object) -> Iterator[Mapping[str, Any]]:
    """The parts of a body that name scopes."""
    if isinstance(body, CreationBody | RequestBody):
        yield {"project": body.project, "domain": body.domain}
    elif isinstance(body, RepeatBody):
        yield {"project": body.id.project, "domain": body.id.domain}
    elif isinstance(body, dict):
        parts = [body[name] for name in _PARTS if isinstance(body.get(name), dict)]
        if operation.path == "/api/v1/workflows":
            parts = [{**part, "workflow": part.get("name")} for part in parts]
        yield from parts or [body]


def _scope(operation: Guarded, keys: Mapping[str, Any]) -> Scope:
    """The scope of some keys, without those that need others beside them or are no names."""
    names = _OF_EXECUTIONS if operation.permission.startswith(("executions.", "logs.")) else SCOPE_KEYS
    given = {name: keys[name] for name in names if isinstance(keys.get(name), str)}
    if not (given.get("project") and given.get("domain")):
        given.pop("workflow", None)
    if not given.get("workflow"):
        given.pop("launch_plan", None)
    return Scope(**given)
