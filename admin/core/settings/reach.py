"""Reach: which scopes below a row follow it, and which say otherwise or the same again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from admin.core.problems import Path
from admin.core.settings.kinds import Kind, Merge
from admin.core.settings.platform import PlatformDefaults
from admin.core.settings.resolution import Row, effective_value
from admin.core.settings.scopes import Origin, Scope


class Relation(StrEnum):
    """How a scope stands to a field of a broader row; of several fields the first in this order describes the scope."""

    SAYS_OTHERWISE = "says_otherwise"  # its own row has another value, or none
    SAYS_THE_SAME = "says_the_same"  # its own row has the same value again
    FOLLOWS = "follows"  # the field counts here as the row has it
    FOLLOWS_ANOTHER = "follows_another"  # a row in between decides


@dataclass(frozen=True, kw_only=True)
class ScopeRelation:
    """How one scope stands to each field of a broader row."""

    scope: Scope
    fields: Mapping[Path, Relation]
    version: int | None = None  #: of the scope's own row of the kind; None where it has none
    origins: Mapping[Path, Origin] = field(default_factory=dict)  #: what decides each field that does not follow

    @property
    def relation(self) -> Relation:
        return min(self.fields.values(), key=list(Relation).index)

    @property
    def is_mixed(self) -> bool:
        """Whether its fields stand to the row in several ways."""
        return len(set(self.fields.values())) > 1


def relate(kind: Kind, row: Row, scope: Scope, rows: Mapping[Scope, Row], platform: PlatformDefaults) -> ScopeRelation:
    """How a scope below a row stands to it, from the rows of the kind that apply there."""
    effective = effective_value(kind, scope, rows, platform)
    origins, leaves = effective.origins | effective.unset, kind.leaves(effective.value)
    own = rows.get(scope)
    own_paths = () if own is None else kind.leaves(own.payload)
    fields: dict[Path, Relation] = {}
    deciding: dict[Path, Origin] = {}
    for path, value in kind.leaves(row.payload).items():
        if kind.is_bound(path) or (path in origins and origins[path].scope == row.scope):
            fields[path] = Relation.FOLLOWS
            continue
        # A row that replaces others decides of the fields that it does not have, too.
        origin = origins.get(path) or effective.most_specific
        if origin is not None:
            deciding[path] = origin
        if own is None or (kind.merge is Merge.LEAF and path not in own_paths):
            fields[path] = Relation.FOLLOWS_ANOTHER
        elif kind.worth(path, leaves.get(path)) == kind.worth(path, value):
            fields[path] = Relation.SAYS_THE_SAME
        else:
            fields[path] = Relation.SAYS_OTHERWISE
    version = None if own is None else own.version
    return ScopeRelation(scope=scope, fields=fields, version=version, origins=deciding)
