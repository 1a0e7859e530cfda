"""Groups of clusters: named lists, whose use can be granted together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from admin.core import names
from admin.core.fields.branches import Section
from admin.core.fields.compounds import ListOf
from admin.core.fields.leaves import ENTITY_NAME, Text
from admin.core.problems import Problem, raise_problems, repeated
from admin.core.settings.kinds import Payload

#: The kind of a cluster group's row.
CLUSTER_GROUP = "CLUSTER_GROUP"
_MOST_MEMBERS = 10_000

DEFINITION = Section(
    fields={
        "clusters": ListOf(
            item=replace(ENTITY_NAME, nullable=False, description="A cluster."),
            min_items=0,
            max_items=_MOST_MEMBERS,
            unique=False,
            nullable=False,
            description="Its members.",
        ),
        "description": Text(max_length=1000, nullable=False, description="For people."),
    }
)


def read_cluster_group(name: str, payload: Any) -> Payload:
    """A cluster group's definition in its normal form; Invalid with every problem in it."""
    problems: list[Problem] = []
    normal: Payload = DEFINITION.read(payload, (), problems)
    if not names.is_entity_name(name):
        problems.append(Problem(field="name", reason=f"is not a cluster group's name: use {names.ENTITY_NAME_RULE}."))
    if not problems:
        for cluster in repeated(normal.get("clusters", [])):
            problems.append(Problem(field="clusters", reason=f"'{cluster}' is listed twice: remove one."))
    raise_problems(problems)
    clusters = {"clusters": sorted(normal["clusters"])} if normal.get("clusters") else {}
    return {**clusters, **{key: value for key, value in normal.items() if key == "description"}}
