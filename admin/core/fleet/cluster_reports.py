"""Cluster reports: what a cluster's agent says of its cluster at each sync."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from admin.core.fields import Duration, FreeForm, ListOf, Section, Text
from admin.core.resources import CLUSTER_RESOURCES

REPORT = Section(
    fields={
        "capacity": CLUSTER_RESOURCES,
        "free": CLUSTER_RESOURCES,
        "eta": Duration(zero=True, description="How long new work would wait to start; 0s for not at all."),
        "plugins": ListOf(item=Text(max_length=255), min_items=0, description="Plugins that its agent offers."),
        "engine": Text(max_length=64),
        "engine_version": Text(max_length=255),
        "properties": FreeForm(),
    }
)

#: Fields that change with every job, and matter only to strategies that look at load.
_LOAD_FIELDS = frozenset({"free", "eta"})


def differs_only_in_load(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether two reports differ in nothing but how busy the cluster is."""
    return all(before.get(name) == after.get(name) for name in {*before, *after} - _LOAD_FIELDS)
