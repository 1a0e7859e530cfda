"""Origins: where a leaf comes from."""

from __future__ import annotations

from typing import NamedTuple

from admin.core.settings.scopes import Level, Scope


class Origin(NamedTuple):
    """Where a leaf comes from."""

    scope: Scope
    version: int | None = None  #: of the row, None for the platform
    key: str = ""  #: the configuration key, for the platform
    layer: str = ""  #: the layer over every row: a launch plan's definition or a request

    @property
    def level(self) -> Level:
        return self.scope.level


def describe_origin(origin: Origin) -> str:
    """An origin in words."""
    if origin.layer:
        return origin.layer.replace("-", " ")
    return f"platform, {origin.key}" if origin.level is Level.PLATFORM else str(origin.scope)
