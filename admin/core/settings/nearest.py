"""Nearest rows: where nothing is set, which row one scope over could serve here, and the command that would set it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from difflib import SequenceMatcher
from shlex import quote
from typing import Any

from admin.core.problems import dotted
from admin.core.settings.kinds import Kind
from admin.core.settings.resolution import Row
from admin.core.settings.scopes import Level, Scope

#: The keys in which a scope may differ from one of its level, the nearest difference first.
_DIFFERENCES = {
    Level.LAUNCH_PLAN: ("launch_plan", "domain", "project"),
    Level.WORKFLOW: ("workflow", "domain", "project"),
    Level.PROJECT_DOMAIN: ("domain", "project"),
    Level.PROJECT: ("project",),
    Level.DOMAIN: ("domain",),
}


def nearest_row(kind: Kind, scope: Scope, rows: Iterable[Row]) -> Row | None:
    """The row of the most specific level whose scope differs in one name from those that apply here.

    Of one level the closest name counts. Rows that only unset fields are left out.
    """
    ranked = [
        (rank, row)
        for row in rows
        if (rank := _rank(scope, row.scope)) is not None
        and any(value is not None for value in kind.leaves(row.payload).values())
    ]
    return min(ranked, key=lambda pair: pair[0])[1] if ranked else None


def _rank(scope: Scope, other: Scope) -> tuple[object, ...] | None:
    """How far a scope is from another one, the nearest first; None for those that are not beside it."""
    level = other.level
    own = scope.at(level)
    if own.level is not level:
        return None
    different = [key for key in Scope._fields if getattr(own, key) != getattr(other, key)]
    if len(different) != 1 or different[0] not in _DIFFERENCES[level]:
        return None
    [key] = different
    likeness = SequenceMatcher(None, getattr(own, key), getattr(other, key)).ratio()
    return -level.specificity, _DIFFERENCES[level].index(key), -likeness, other.sort_key


def update_command(kind: Kind, scope: Scope, row: Row) -> str:
    """The command that sets at a scope what a row says."""
    flags = {"project": "-p", "domain": "-d", "workflow": "-w", "launch_plan": "--launchplan"}
    words = ["rainbowctl", "update", kind.noun]
    words += [word for key, flag in flags.items() if (name := getattr(scope, key)) for word in (flag, name)]
    for path, value in kind.leaves(row.payload).items():
        words += ["--unset", dotted(path)] if value is None else ["--set", f"{dotted(path)}={_text(value)}"]
    return " ".join(map(quote, words))


def _text(value: Any) -> str:
    if isinstance(value, dict) and value.keys() == {"value"}:  # of a list of pairs, whose key is in the path
        return _text(value["value"])
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
