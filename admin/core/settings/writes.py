"""Writes: whether a row may be changed as asked, and what its writer should know."""

from __future__ import annotations

import json
from dataclasses import dataclass

from admin.core.problems import Invalid, Problem
from admin.core.settings.kinds import Kind, Payload
from admin.core.settings.origins import described
from admin.core.settings.resolution import Row, resolve
from admin.core.settings.task_resources import excesses
from admin.core.settings.warnings import UNKNOWN_NAME_CODES, Surroundings, Warning, warnings_of

#: The version of a row that is not stored yet.
UNSTORED = 0


def is_same(one: Payload | None, other: Payload | None) -> bool:
    """Whether two payloads say the same; true and 1 do not, though Python takes them for equal."""
    return one == other and json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """What a writer believes about the row: nothing, a version, that there is none, or that there is one."""

    version: int | None = None
    absent: bool = False
    present: bool = False

    def holds(self, current_version: int | None) -> bool:
        """Whether the row is as the writer believes."""
        if self.absent:
            return current_version is None
        if self.present:
            return current_version is not None
        return self.version is None or self.version == current_version


def judge(kind: Kind, row: Row, around: Surroundings, *, refuse_unknown_names: bool) -> list[Warning]:
    """The warnings that a row carries among the others, itself included; Invalid where it may not be stored."""
    _check_defaults(kind, row, around)
    warnings = warnings_of(kind, row, around)
    unknown = [warning for warning in warnings if warning.code in UNKNOWN_NAME_CODES]
    if refuse_unknown_names and unknown:
        raise Invalid(*(Problem(field=one.field, reason=one.message, closest=one.closest) for one in unknown))
    return warnings


def _check_defaults(kind: Kind, row: Row, around: Surroundings) -> None:
    """A default of this very row must pass the limit in force here; an inherited one is only capped."""
    if kind.name != "TASK_RESOURCE":
        return
    resolved = resolve(kind, row.scope, around.rows, around.platform.at(kind, row.scope.domain))
    problems = [
        Problem(
            field=f"defaults.{excess.resource}",
            reason=f"{excess.default} is above the limit of {excess.limit} set at {described(excess.limit_origin)}: "
            "lower the default or raise the limit.",
        )
        for excess in excesses(resolved)
        if excess.default_origin.scope == row.scope
    ]
    if problems:
        raise Invalid(*problems)
