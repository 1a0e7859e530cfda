"""Task resources: limits that nothing could run under, and defaults above their limit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from admin.core.quantities import parse_quantity
from admin.core.settings.origins import Origin
from admin.core.settings.resolution import Resolved


def zero_limits(limits: Mapping[str, str | None]) -> list[str]:
    """The resources that every task needs and whose limit is 0; Flyte reads 0 as no limit at all."""
    return [
        resource
        for resource in ("cpu", "memory")
        if (limit := limits.get(resource)) is not None and parse_quantity(limit) == 0
    ]


@dataclass(frozen=True, kw_only=True)
class Excess:
    """One effective default above the effective limit of the same resource."""

    resource: str
    default: str
    limit: str
    default_origin: Origin
    limit_origin: Origin


def excesses(resolved: Resolved) -> Iterator[Excess]:
    """Every default of an effective value that is above its limit."""
    defaults, limits = resolved.value.get("defaults", {}), resolved.value.get("limits", {})
    for resource, default in defaults.items():
        limit = limits.get(resource)
        if limit is not None and parse_quantity(default) > parse_quantity(limit):
            yield Excess(
                resource=resource,
                default=default,
                limit=limit,
                default_origin=resolved.origins[("defaults", resource)],
                limit_origin=resolved.origins[("limits", resource)],
            )
