"""Warnings about rows that name what nobody has defined, and that count once somebody does."""

from __future__ import annotations

from collections.abc import Collection

from admin.core.problems import closest, did_you_mean
from admin.core.settings.scopes import PLATFORM
from admin.core.settings.warnings import Warning, WarningCode


def unknown_name(code: WarningCode, kind: str, row: str, field: str, name: str, names: Collection[str]) -> Warning:
    """The warning that a row names something which is not there."""
    near = closest(name, names)
    noun = code.value.removeprefix("unknown_").replace("_", " ")
    return Warning(
        code=code,
        message=f"No {noun} is called '{name}'.{did_you_mean(near)} It counts once it is defined.",
        kind=kind,
        scope=PLATFORM,
        field=field,
        closest=near,
        name=row,
    )
