"""The nouns that revisions change. A new one is a subclass of Changeable and an entry here."""

from __future__ import annotations

from dataclasses import replace

from admin.core.changes import PROJECT, Document, Expectation, RowChange, RowKey, RowWrite
from admin.core.permissions import check_requirement
from admin.core.problems import Invalid, Problem
from admin.core.settings.scopes import Scope
from admin.services.changeable.attributes import ChangeableAttributes, permission_of_rows
from admin.services.changeable.base import Changeable
from admin.services.changeable.cluster_groups import ChangeableClusterGroups
from admin.services.changeable.fleet import ChangeableFleet
from admin.services.changeable.grants import ChangeableGrants
from admin.services.changeable.projects import ChangeableProjects
from admin.services.changeable.token_pools import ChangeableTokenPools
from admin.services.changeable.use_grants import ChangeableUseGrants
from admin.services.changeable.user_groups import ChangeableGroups
from admin.services.changeable.users import ChangeableUsers
from admin.services.context import Context

#: In the order in which their rows are drafted and stored: an attribute may belong to a project, or name a pool, of the
#: same change, and a grant may be on a project or for a user or group of it.
NOUNS: tuple[type[Changeable], ...] = (
    ChangeableProjects,
    ChangeableFleet,
    ChangeableUsers,
    ChangeableGroups,
    ChangeableGrants,
    ChangeableClusterGroups,
    ChangeableUseGrants,
    ChangeableTokenPools,
    ChangeableAttributes,
)
for _noun in NOUNS:
    check_requirement(_noun.permission)  # a noun without one is refused here, before anything can be written

_BY_KIND = {kind: noun for noun in NOUNS for kind in noun.kinds}

#: The kinds of rows that are not attributes.
KINDS = frozenset(_BY_KIND)
#: Those of them whose rows have a name.
NAMED_KINDS = tuple(kind for kind in _BY_KIND if kind != PROJECT)
#: The fields of a change's document that define such a row, and their kinds.
DEFINITION_FIELDS = {f"{kind.lower()}_definition": kind for kind in _BY_KIND}
_OF_ATTRIBUTES = {"resource_type", "payload", *Scope._fields}


def class_of(key: RowKey) -> type[Changeable]:
    """The class of the noun that a row belongs to."""
    return ChangeableAttributes if key.is_attribute else _BY_KIND[key.kind]


def permission_to_write(context: Context, kind: str) -> str:
    """What one needs to write rows of a kind."""
    return _BY_KIND[kind].permission if kind in _BY_KIND else permission_of_rows(context, kind)


def definition_field(document: Document) -> str | None:
    """The field of a change's document that defines a row; None for an attribute, Invalid for more than one."""
    fields = sorted(document.keys() & DEFINITION_FIELDS.keys())
    if len(fields) > 1:
        raise Invalid(Problem(field=fields[1], reason=f"stands alone; {fields[0]} is a change of its own."))
    return fields[0] if fields else None


def read_write(context: Context, document: Document, index: int) -> RowWrite:
    """One change of a request from its document; Invalid with every problem in it."""
    field = definition_field(document)
    if field is not None and document.keys() & _OF_ATTRIBUTES:
        raise Invalid(Problem(field=field, reason="stands alone; attributes are changes of their own."))
    kind = DEFINITION_FIELDS[field] if field is not None else ""
    write = _BY_KIND.get(kind, ChangeableAttributes).read(context, kind, document)
    return replace(write, expectation=_expectation(document), index=index)


def _expectation(document: Document) -> Expectation:
    if document["expected_absent"] and "expected_version" in document:
        raise Invalid(Problem(field="expected_absent", reason="cannot stand beside expected_version."))
    return Expectation(version=document.get("expected_version"), absent=document["expected_absent"])


def restoring_write(context: Context, change: RowChange, index: int) -> RowWrite:
    """The write that makes a row as it is after a change, expected to be as its last revision left it."""
    expectation = Expectation(absent=True) if change.before is None else Expectation(version=change.revision)
    return replace(class_of(change.key).restore(context, change), expectation=expectation, index=index)
