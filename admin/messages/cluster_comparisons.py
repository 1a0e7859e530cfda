"""What differs between two clusters, fact by fact."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from marshmallow import fields
from msgspec import Meta

from admin.core.executions.comparisons import Fact, describe_differences, pair_facts
from admin.messages.clusters import ClusterDetailsAnswer
from admin.messages.comparisons import FactAnswer
from admin.messages.descriptions import DescriptionRevisionAnswer
from admin.messages.requests import NAME, RequestSchema
from admin.messages.shared import Answer, to_json
from admin.services.cluster_comparisons import ComparedCluster

#: The fields of a cluster's answer that are compared, by what they are about, in the order of answers.
_FIELDS = {
    "definition": ("endpoint", "cost", "description", "source"),
    "properties": ("properties",),
    "membership": ("pools", "labels"),
    "state": (
        *("state", "takes_work", "takes_none_because", "enabled", "cordoned", "cordon_reason", "draining"),
        *("drain_deadline", "unreachable_since", "unreachable_reason"),
    ),
    "capacity": ("capacity", "free", "full", "leases", "running", "waiting", "eta"),
    "engine": ("engine", "engine_version", "plugins", "agent_version", "agent_host"),
}
GRAPH, SETTINGS = "graph", "settings"
CLUSTER_PARTS = (*_FIELDS, GRAPH, SETTINGS)


class ClusterComparisonQuery(RequestSchema):
    other = fields.String(required=True, validate=NAME, metadata={"description": "The name of the other cluster."})


class ComparedClusterAnswer(Answer):
    cluster: str
    summary: Annotated[str, Meta(description="Whether it takes work, and why not, since when and by whom.")]


class ClusterComparisonAnswer(Answer):
    message: Annotated[str, Meta(description="In what the two differ, in a sentence.")]
    first: ComparedClusterAnswer
    second: ComparedClusterAnswer
    facts: Annotated[
        list[FactAnswer],
        Meta(
            description="How each is defined (`definition`), its `properties`, defined or reported, the pools and "
            "labels that it is in (`membership`), its `state`, `capacity` and `engine`, what its description has of "
            "each type (`graph`), and the fields of settings that its engine does nothing with (`settings`), where "
            "both engines are known."
        ),
    ]
    equal: Annotated[int, Meta(description="Facts that are the same on both sides.")]

    @classmethod
    def from_clusters(cls, first: ComparedCluster, second: ComparedCluster) -> ClusterComparisonAnswer:
        documents = [to_json(ClusterDetailsAnswer.from_details(side.details)) for side in (first, second)]
        sides = zip(documents, (first, second), strict=True)
        # What an engine that nobody knows does nothing with is not known either.
        has_engines = all(document.get("engine") for document in documents)
        parts = CLUSTER_PARTS if has_engines else CLUSTER_PARTS[: CLUSTER_PARTS.index(SETTINGS)]
        facts = (dict(_facts(document, side)) for document, side in sides)
        compared = ({fact: value for fact, value in of_side.items() if fact.part in parts} for of_side in facts)
        pairs = pair_facts(*compared, parts=parts)
        names = [document["name"] for document in documents]
        return cls(
            message=describe_differences(names, pairs, parts),
            first=ComparedClusterAnswer(cluster=names[0], summary=documents[0]["summary"]),
            second=ComparedClusterAnswer(cluster=names[1], summary=documents[1]["summary"]),
            facts=[FactAnswer.from_pair(pair) for pair in pairs],
            equal=sum(pair.is_equal for pair in pairs),
        )


def _facts(document: Mapping[str, Any], side: ComparedCluster) -> Iterator[tuple[Fact, Any]]:
    """What is known of a cluster, leaf by leaf."""
    for part, names in _FIELDS.items():
        for name in names:
            for field, value in _leaves(name, document.get(name), is_set=part == "membership"):
                yield Fact(part, field), value
    if side.description is not None:
        graph = to_json(DescriptionRevisionAnswer.from_view(side.description))
        for name in ("types", "subsystem_vertices"):
            for field, value in _leaves(name, graph.get(name)):
                yield Fact(GRAPH, field), value
    for kind, effects in (document.get("ignored_settings") or {}).items():
        for effect in effects:
            yield Fact(SETTINGS, f"{kind}.{effect['field']}"), effect["effect"]


def _leaves(field: str, value: object, *, is_set: bool = False) -> Iterator[tuple[str, Any]]:
    """The leaves of a value by their paths; of the names in a set each is one."""
    if isinstance(value, Mapping):
        for name in sorted(value):
            yield from _leaves(f"{field}.{name}", value[name])
    elif is_set and isinstance(value, list):
        yield from ((f"{field}.{name}", True) for name in sorted(value))
    else:
        yield field, value
