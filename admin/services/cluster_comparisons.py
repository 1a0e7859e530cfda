"""Comparisons of two clusters, as the caller may see each."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from admin.core.problems import invalid
from admin.errors import DescriptionNotFound
from admin.services.context import Context
from admin.services.description_views import DescriptionView
from admin.services.descriptions import get_description
from admin.services.fleet import ClusterDetails, get_cluster


@dataclass(frozen=True, kw_only=True)
class ComparedCluster:
    """A cluster, and its description if it has one."""

    details: ClusterDetails
    description: DescriptionView | None = None


def compare_clusters(context: Context, first: str, second: str) -> tuple[ComparedCluster, ComparedCluster]:
    """Two clusters as they are now; ClusterNotFound for one that there is not, or that the caller may not see."""
    if first == second:
        raise invalid("other", f"is '{first}' too: name another cluster.")
    return _find(context, first), _find(context, second)


def _find(context: Context, name: str) -> ComparedCluster:
    details = get_cluster(context, name)
    with suppress(DescriptionNotFound):
        return ComparedCluster(details=details, description=get_description(context, name))
    return ComparedCluster(details=details)
