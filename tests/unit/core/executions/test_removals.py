"""What would be refused if something went away, against the rules that refuse it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admin.core.executions.launches import Rules
from admin.core.executions.queues import Queue, find_queues
from admin.core.executions.removals import Removal
from admin.core.problems import Refused
from admin.core.settings.builtin_kinds import (
    BUILTIN_KINDS,
    CLUSTER_ASSIGNMENT,
    EXECUTION_CLUSTER_LABEL,
    EXECUTION_QUEUE,
)
from admin.core.settings.kinds import Kinds
from admin.core.settings.platform import PlatformDefaults, PlatformValues
from admin.core.settings.resolution import Row, resolve
from admin.core.settings.scopes import Scope
from tests.support.small_fleets import group, small_fleet

PLACE = Scope("d", "p")
EAST = group(["east"])
FLEET = small_fleet(clusters={"east": {}, "west": {}}, pools={"gpu": EAST}, labels={"near": EAST, "west": EAST})


def removal(noun: str, name: str, *queues: Queue) -> Removal:
    rules = Rules(kinds=Kinds(BUILTIN_KINDS), platform=PlatformValues(), queues=queues)
    return Removal(noun=noun, name=name, fleet=FLEET, rules=rules)


def rows(**values: str | None) -> dict[str, dict[Scope, Row]]:
    kinds = {"pool": (CLUSTER_ASSIGNMENT, "cluster_pool_name"), "label": (EXECUTION_CLUSTER_LABEL, "value")}
    return {
        kind.name: {PLACE: Row(kind=kind.name, scope=PLACE, payload={field: values[noun]}, version=1)}
        for noun, (kind, field) in kinds.items()
        if noun in values
    }


@pytest.mark.parametrize(
    ("noun", "name", "settings", "definition", "is_refused"),
    [
        ("pool", "gpu", {"pool": "gpu"}, {}, True),
        ("pool", "gpu", {"pool": "other"}, {}, False),
        ("pool", "gpu", {"pool": None}, {}, False),
        ("pool", "gpu", {"pool": "gpu"}, {"execution_cluster_label": {"value": "near"}}, False),
        ("pool", "gpu", {}, {"cluster_assignment": {"cluster_pool_name": "gpu"}}, True),
        ("label", "near", {"label": "near"}, {}, True),
        ("label", "near", {"label": "near", "pool": "gpu"}, {}, False),
        ("label", "west", {"label": "west"}, {}, False),  # the cluster's own name remains
        ("cluster", "east", {"label": "east"}, {}, True),
        ("cluster", "east", {"label": "near"}, {}, False),
        ("cluster", "west", {"label": "west"}, {}, False),  # the label of that name remains
        ("task-resource-attribute", "", {"pool": "gpu"}, {}, False),
    ],
)
def test_what_leads_to_it_is_refused(noun: str, name: str, settings: Any, definition: Any, is_refused: bool) -> None:
    assert removal(noun, name).refuses(PLACE, rows(**settings), definition) is is_refused


TAGS = st.lists(st.sampled_from(["a", "b", "c"]), unique=True, min_size=1)


@given(tags=TAGS, first=TAGS, second=TAGS, noun=st.sampled_from(["queue", "queue_tag"]))
def test_tags_are_refused_as_creation_would(tags: list[str], first: list[str], second: list[str], noun: str) -> None:
    queues = Queue(name="a", tags=tuple(first)), Queue(name="b", tags=tuple(second))
    row = Row(kind=EXECUTION_QUEUE.name, scope=PLACE, payload={"tags": tags}, version=1)
    left = (
        [queue for queue in queues if queue.name != "a"]
        if noun == "queue"
        else [Queue(name=queue.name, tags=tuple(tag for tag in queue.tags if tag != "a")) for queue in queues]
    )
    try:
        find_queues(left, resolve(EXECUTION_QUEUE, PLACE, {PLACE: row}, PlatformDefaults(EXECUTION_QUEUE, {})))
        is_refused = False
    except Refused:
        is_refused = True
    assert removal(noun, "a", *queues).refuses(PLACE, {EXECUTION_QUEUE.name: {PLACE: row}}, {}) is is_refused
