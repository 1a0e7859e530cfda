"""Namespace exchanges: what an agent fetches and reports of the namespaces that it makes."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import UNSET, Meta, UnsetType, field

from admin.core.cluster_resources.states import NamespaceReport, ObjectReport, ObjectState
from admin.core.problems import invalid, shorten
from admin.messages.reading import Body
from admin.messages.shared import Answer, Json, one_of
from admin.services.namespace_exchanges import NamespaceExchange

_Name = Annotated[str, Meta(min_length=1, max_length=63)]
_Digest = Annotated[str, Meta(max_length=64)]


class ObjectReportBody(Body):
    """What became of one object."""

    object: Annotated[str, Meta(min_length=1, max_length=600, description="Its kind and name.")]
    state: Annotated[str, one_of(*(state.value for state in ObjectState))]
    message: Annotated[str, Meta(max_length=4000, description="In the API server's words.")] = ""


class NamespaceReportBody(Body):
    """What became of the objects of one namespace."""

    namespace: _Name
    project: _Name
    domain: _Name
    digest: _Digest = ""
    exists: Annotated[bool, Meta(description="Whether the namespace is there.")] = False
    objects: Annotated[list[ObjectReportBody], Meta(max_length=1000)] = field(default_factory=list)

    def report(self) -> NamespaceReport:
        return NamespaceReport(
            namespace=self.namespace,
            project=self.project,
            domain=self.domain,
            digest=self.digest,
            exists=self.exists,
            objects=tuple(
                ObjectReport(object=entry.object, state=_state(entry.state), message=entry.message)
                for entry in self.objects
            ),
        )


def _state(word: str) -> ObjectState:
    words = [state.value for state in ObjectState]
    if word not in words:
        raise invalid("reports.objects.state", f"'{shorten(word)}' is not one of {', '.join(words)}.")
    return ObjectState(word)


class NamespacesBody(Body):
    """What an agent has made, and what became of it."""

    example: ClassVar[Json] = {"digest": "", "known": {"flyteexamples-development": "0f3e"}, "reports": []}

    digest: Annotated[_Digest, Meta(description="Of the last answer that was followed as a whole.")] = ""
    known: Annotated[
        dict[str, str] | UnsetType,
        Meta(description="The digests of namespaces that it has; without it, none are sent."),
    ] = UNSET
    reports: Annotated[list[NamespaceReportBody], Meta(max_length=1000)] = field(default_factory=list)


class NamespaceToMake(Answer):
    """The objects of one namespace."""

    namespace: str
    project: str
    domain: str
    digest: str
    objects: list[Json]
    made: Annotated[list[str], Meta(description="Objects that were there when the cluster's agent last reported.")]


class NamespacesAnswer(Answer):
    """What an agent is to make of namespaces."""

    enabled: Annotated[bool, Meta(description="Whether the cluster says clusterResources: true.")]
    installation: Annotated[str, Meta(description="The label by which this admin's objects are known.")]
    digest: Annotated[str, Meta(description="Changes with anything that is to be made.")]
    namespaces: Annotated[list[NamespaceToMake], Meta(description="The first that the agent does not have so.")]
    kept: Annotated[list[str], Meta(description="That cannot be rendered now; what there is stays.")]
    gone: Annotated[list[str], Meta(description="That nothing renders any more.")]
    more: Annotated[bool, Meta(description="Whether others have changed too: ask again.")]
    may_prune: Annotated[bool, Meta(description="False while any template fails.")]
    prune_namespaces: Annotated[bool, Meta(description="Whether namespaces, volume claims and secrets go too.")]
    refresh_seconds: Annotated[float, Meta(description="How often to look whether others have changed objects.")]

    @classmethod
    def from_exchange(cls, exchange: NamespaceExchange) -> NamespacesAnswer:
        return cls(
            enabled=exchange.is_enabled,
            installation=exchange.installation,
            digest=exchange.digest,
            namespaces=[
                NamespaceToMake(
                    namespace=rendering.namespace,
                    project=rendering.scope.project,
                    domain=rendering.scope.domain,
                    digest=rendering.digest,
                    objects=[dict(entry.document) for entry in rendering.objects],
                    made=list(exchange.made.get(rendering.namespace, ())),
                )
                for rendering in exchange.changed
            ],
            kept=list(exchange.kept),
            gone=list(exchange.gone),
            more=exchange.has_more,
            may_prune=exchange.may_prune,
            prune_namespaces=exchange.prunes_namespaces,
            refresh_seconds=exchange.refresh_seconds,
        )
