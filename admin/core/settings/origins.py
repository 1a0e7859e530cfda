"""Origins: where a leaf comes from."""

from __future__ import annotations

from typing import NamedTuple

from admin.core.settings.scopes import Level, Scope


class Origin(NamedTuple):
    """Where a leaf comes from."""

    scope: Scope
    version: int | None = None  #: of the row, None for the platform
    key: str = ""  #: the configuration key, for the platform
    layer: str = ""  #: what lies above every row: a launch plan's definition, a request

    @property
    def level(self) -> Level:
        return self.scope.level


def described(origin: Origin) -> str:
    """An origin in words."""
    if origin.layer:
        return origin.layer.replace("-", " ")
    return f"platform, {origin.key}" if origin.level is Level.PLATFORM else str(origin.scope)
