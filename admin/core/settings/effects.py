"""Effects: which effective values a change of rows changes, and where."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from admin.core.fields import Path
from admin.core.settings.kinds import Kind
from admin.core.settings.platform import PlatformValues
from admin.core.settings.resolution import Row, effective_leaves
from admin.core.settings.scopes import Scope


@dataclass(frozen=True, kw_only=True)
class Effect:
    """A change of one effective leaf at one scope; None where there is no value."""

    kind: Kind
    scope: Scope
    path: Path
    before: Any
    after: Any


def effects(
    kind: Kind,
    before: Mapping[Scope, Row],
    after: Mapping[Scope, Row],
    known_scopes: Iterable[Scope],
    platform: PlatformValues,
) -> Iterator[Effect]:
    """The effective leaves that a change of a kind's rows changes at the known scopes."""
    changed = {scope for scope in before.keys() | after.keys() if before.get(scope) is not after.get(scope)}
    for scope in known_scopes:
        if changed.isdisjoint(scope.chain()):
            continue
        leaves = platform.at(kind, scope.domain)
        was, becomes = effective_leaves(kind, scope, before, leaves), effective_leaves(kind, scope, after, leaves)
        for path in sorted(was.keys() | becomes.keys()):
            if was.get(path) != becomes.get(path):
                yield Effect(kind=kind, scope=scope, path=path, before=was.get(path), after=becomes.get(path))
