"""Writes: whether a row may be stored, and the warnings that come with it."""

from __future__ import annotations

import json
from dataclasses import dataclass

from admin.core.problems import Invalid, Problem
from admin.core.settings.kinds import Kind, Payload
from admin.core.settings.origins import describe_origin
from admin.core.settings.resolution import Row
from admin.core.settings.warnings import UNKNOWN_NAME_CODES, Surroundings, Warning, warnings_of

#: The version of a row that is not stored yet.
UNSTORED = 0


def is_same(payload: Payload | None, other: Payload | None) -> bool:
    """Whether two payloads are the same JSON; true and 1 are not, though Python takes them for equal."""
    return payload == other and json.dumps(payload, sort_keys=True) == json.dumps(other, sort_keys=True)


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """What a writer expects of the row: nothing, a version, that there is none, or that there is one."""

    version: int | None = None
    absent: bool = False
    present: bool = False

    def holds(self, current_version: int | None) -> bool:
        """Whether the row is as the writer expects."""
        if self.absent:
            return current_version is None
        if self.present:
            return current_version is not None
        return self.version is None or self.version == current_version


def check_row(kind: Kind, row: Row, around: Surroundings, *, refuse_unknown_names: bool) -> list[Warning]:
    """The warnings about a row among its surroundings; Invalid where it may not be stored."""
    _check_defaults(kind, row, around)
    warnings = warnings_of(kind, row, around)
    unknown = [warning for warning in warnings if warning.code in UNKNOWN_NAME_CODES]
    if refuse_unknown_names and unknown:
        raise Invalid(
            *(Problem(field=warning.field, reason=warning.message, closest=warning.closest) for warning in unknown)
        )
    return warnings


def _check_defaults(kind: Kind, row: Row, around: Surroundings) -> None:
    """Refuse a default of this row above the limit in force at its scope; inherited defaults are only capped."""
    problems = [
        Problem(
            field=f"defaults.{excess.resource}",
            reason=f"{excess.default} is above the limit of {excess.limit} set at "
            f"{describe_origin(excess.limit_origin)}: lower the default or raise the limit.",
        )
        for excess in around.excesses(kind, row)
        if excess.default_origin.scope == row.scope
    ]
    if problems:
        raise Invalid(*problems)
