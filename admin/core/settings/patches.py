"""Patches: changes of single leaves of a row that leave the others as they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from admin.core.fields.leaves import Leaves
from admin.core.problems import Invalid, Path, dotted, invalid
from admin.core.settings.kinds import Kind, Payload


def apply_patch(
    kind: Kind, payload: Payload, *, set_: Mapping[str, Any], unset: Iterable[str], inherit: Iterable[str]
) -> Payload:
    """A row's payload after a patch; empty where no leaf is left.

    `set_` is a part of a payload, nested, or with dotted paths as keys; `unset` makes leaves null; `inherit` takes
    them out of the row.
    """
    changes = _set_leaves(kind, set_)
    removals: set[Path] = set()
    for path in map(kind.payload.find, unset):
        _check_unused(path, changes, removals)
        changes[path] = None
    for path in map(kind.payload.find, inherit):
        _check_unused(path, changes, removals)
        removals.add(path)
    if not changes and not removals:
        raise invalid("", "changes nothing: give set, unset or inherit.")
    leaves = {path: leaf for path, leaf in kind.leaves(payload).items() if path not in removals} | changes
    after = kind.nest(leaves)
    return kind.read(after) if after else {}


def _check_unused(path: Path, changes: Leaves, removals: set[Path]) -> None:
    if path in changes or path in removals:
        raise invalid(dotted(path), "stands twice in the patch: set, unset or inherit it, once.")


def _set_leaves(kind: Kind, values: Mapping[str, Any]) -> Leaves:
    if set(values) == {kind.payload_key} and isinstance(values[kind.payload_key], dict):
        values = values[kind.payload_key]
    nested = {key: value for key, value in values.items() if "." not in key}
    leaves = kind.leaves(kind.read(nested)) if nested else {}
    for text in values.keys() - nested.keys():
        path = kind.payload.find(text)
        if path in leaves:
            raise invalid(dotted(path), "is set twice in the patch.")
        try:
            leaf = kind.leaves(kind.read(kind.nest({path: values[text]})))
        except Invalid as error:  # the problems name fields of a payload that the writer never wrote
            raise Invalid(*(replace(problem, field=dotted(path)) for problem in error.problems)) from None
        if set(leaf) != {path}:
            raise invalid(dotted(path), "is given a value that names another entry.")
        leaves |= leaf
    return leaves
